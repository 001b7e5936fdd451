"""The Gymnasium environments, under Gymnasium's and Stable-Baselines3's own eyes."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import sim_node.envs
from sim_node.settings import SettingsError

NAMES = tuple(sim_node.envs.ENVIRONMENTS)


@pytest.mark.parametrize('name', NAMES)
@pytest.mark.filterwarnings('ignore:.*symmetric and normalized')     # accelerations are in m/s² here, on purpose
@pytest.mark.filterwarnings('error::UserWarning')
def test_gymnasiums_checker_has_no_complaint(name: str) -> None:
    check_env(gymnasium.make(name, render_mode='rgb_array').unwrapped)


def returns(name: str, choose, episodes: int = 1000) -> np.ndarray:
    """Returns of the first episodes of a seed that nobody trains on, driven in one batch."""
    scenes = gymnasium.make_vec(name, num_envs=episodes)
    observation, _ = scenes.reset(seed=990)
    paid, running = np.zeros(episodes), np.ones(episodes, bool)
    while running.any():
        observation, reward, terminated, truncated, _ = scenes.step(choose(observation))
        paid += reward * running
        running &= ~terminated
        assert not truncated.any()
    return paid


@pytest.mark.parametrize('name', NAMES)
def test_ppo_of_stable_baselines_learns_on_it_unchanged(name: str) -> None:
    torch = pytest.importorskip('torch')
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    chance = returns(name, lambda seen: random.uniform(-4, 4, (len(seen), 1)))
    scenes = make_vec_env(name, n_envs=8, seed=0)
    model = PPO('MlpPolicy', scenes, seed=0, n_steps=256, batch_size=256, device='cpu').learn(40_960)
    learned = returns(name, lambda seen: model.predict(seen, deterministic=True)[0])
    error = np.hypot(chance.std(), learned.std()) / np.sqrt(len(chance))
    print(f'{name}: random {chance.mean():.1f}, PPO {learned.mean():.1f}, standard error {error:.2f}')
    assert learned.mean() > chance.mean() + 3 * error


@pytest.mark.parametrize('name', NAMES)
def test_single_and_vector_drive_the_same_episodes(name: str) -> None:
    actions = np.random.default_rng(1).uniform(-4, 4, (75, 1)).astype(np.float32)
    single, vector = gymnasium.make(name), gymnasium.make_vec(name, num_envs=3)
    seen, _ = single.reset(seed=5)
    all_seen, _ = vector.reset(seed=5)
    for action in actions:
        assert np.array_equal(seen, all_seen[0])
        seen, reward, terminated, truncated, info = single.step(action)
        all_seen, rewards, all_terminated, _, infos = vector.step(np.repeat(action[None], 3, axis=0))
        assert (reward, terminated, truncated) == (rewards[0], all_terminated[0], False)
        if terminated:
            assert infos['_final_obs'][0]
            assert np.array_equal(infos['final_obs'][0], seen)
            assert {key: infos['final_info'][key][0] for key in ('outcome', 'seed', 'hit')} == {
                key: info[key] for key in ('outcome', 'seed', 'hit')}
            break
    assert terminated
    assert info['outcome'] in ('success', 'collision', 'timeout')


def test_running_out_of_time_terminates_with_nothing() -> None:
    scene = gymnasium.make('wcpg/Merge-v0')
    scene.reset(seed=1)
    for _ in range(75):
        _, reward, terminated, truncated, info = scene.step(np.array([-4.0], np.float32))
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info == {'steps': 300, 'outcome': 'timeout', 'seed': 1_000_000, 'hit': -1}


def test_who_was_hit_is_told() -> None:
    scene = gymnasium.make('wcpg/LeftTurn-v0')
    for seed in range(20):
        scene.reset(seed=seed)
        terminated = False
        while not terminated:
            _, reward, terminated, _, info = scene.step(np.array([4.0], np.float32))
        if info['outcome'] == 'collision':
            assert reward == -50.0
            assert 0 <= info['hit'] < 7
            return
    pytest.fail('full throttle never hit anybody')


def test_resets_walk_through_the_episodes_of_a_seed() -> None:
    scene = gymnasium.make('wcpg/LeftTurn-v0').unwrapped
    seeds = [scene.reset(seed=4)[1]['seed'], scene.reset()[1]['seed'], scene.reset(seed=4)[1]['seed']]
    assert seeds == [4_000_000, 4_000_001, 4_000_000]


def test_a_picture_of_the_scene() -> None:
    scene = gymnasium.make('wcpg/LeftTurn-v0', render_mode='rgb_array', show_tempers=True)
    scene.reset(seed=3)
    picture = scene.render()
    assert picture.shape[1:] == (900, 3)
    assert picture.dtype == np.uint8
    before = picture.copy()
    scene.step(np.array([4.0], np.float32))
    assert (scene.render() != before).any()
    with pytest.raises(SettingsError, match="render_mode 'human': choose"):
        sim_node.envs.SceneEnv('left_turn', render_mode='human')


def test_rows_and_settings_reach_the_scene() -> None:
    scene = gymnasium.make('wcpg/Merge-v0', row='+10/3%', changes={'layout.time': True}).unwrapped
    assert scene.scenario.traffic.spawn_rate == 0.03
    assert scene.observation_space.shape == (17,)
