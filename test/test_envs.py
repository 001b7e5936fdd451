"""The Gymnasium environments, under Gymnasium's and Stable-Baselines3's own eyes."""

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

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


def assert_same(ours: object, theirs: object) -> None:
    """Compare infos: dictionaries of arrays, some of them of objects."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict)
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            assert_same(ours[key], value)
    else:
        assert isinstance(ours, np.ndarray)
        assert isinstance(theirs, np.ndarray)
        assert ours.dtype == theirs.dtype
        for mine, yours in zip(ours, theirs, strict=True):
            assert np.array_equal(mine, yours)


@pytest.mark.parametrize('name', NAMES)
def test_vector_does_as_gymnasiums_own_vector_of_singles(name: str) -> None:
    ours = gymnasium.make_vec(name, num_envs=4)
    theirs = gymnasium.make_vec(name, num_envs=4, vectorization_mode='sync',
                                vector_kwargs={'autoreset_mode': AutoresetMode.SAME_STEP})
    random = np.random.default_rng(1)
    actions = random.uniform(-4, 4, (300, 4, 1)).astype(np.float32)
    mask = np.array([True, False, True, False])
    ended = 0
    for step, action in enumerate(actions):
        if step == 0:
            results = [scenes.reset(seed=[5, 6, 7, 8]) for scenes in (ours, theirs)]
        elif step == 120:
            results = [scenes.reset(seed=[9, None, None, 2], options={'reset_mask': mask}) for scenes in (ours, theirs)]
        elif step == 240:
            results = [scenes.reset() for scenes in (ours, theirs)]
        else:
            results = [scenes.step(action) for scenes in (ours, theirs)]
            ended += results[0][2].sum()
        for mine, yours in zip(*results, strict=True):
            assert_same(mine, yours)
    assert ended > 8


@pytest.mark.parametrize('name', NAMES)
def test_one_seed_means_its_first_episodes_and_then_the_next_ones(name: str) -> None:
    scenes = gymnasium.make_vec(name, num_envs=3)
    assert scenes.reset(seed=5)[1]['seed'].tolist() == [5_000_000, 5_000_001, 5_000_002]
    assert scenes.reset()[1]['seed'].tolist() == [5_000_003, 5_000_004, 5_000_005]
    drawn = gymnasium.make_vec(name, num_envs=3).reset()[1]['seed']
    assert np.diff(drawn).tolist() == [1, 1]


def test_what_a_vector_cannot_do_is_refused() -> None:
    scenes = gymnasium.make_vec('wcpg/Merge-v0', num_envs=3)
    with pytest.raises(ValueError, match='reset'):
        scenes.step(np.zeros((3, 1), np.float32))
    scenes.reset(seed=1)
    for shape in ((3,), (1, 3), (2, 1), ()):
        with pytest.raises(ValueError, match=r'action: expected shape \(3, 1\), got'):
            scenes.step(np.zeros(shape, np.float32))
    with pytest.raises(ValueError, match='seed: expected 3 of them, got 2'):
        scenes.reset(seed=[1, None])
    with pytest.raises(ValueError, match='seed: expected a whole number from 0'):
        scenes.reset(seed=[1, -2, 3])
    for mask in (np.zeros(3, bool), np.ones(2, bool), [1, 0, 1]):
        with pytest.raises(ValueError, match=r'reset_mask.*: expected 3 truth values, one of them true'):
            scenes.reset(options={'reset_mask': mask})
    with pytest.raises(ValueError, match="render_mode 'human': choose 'rgb_array' or None"):
        gymnasium.make_vec('wcpg/Merge-v0', num_envs=3, render_mode='human')


def test_nothing_goes_on_after_the_end_without_a_reset() -> None:
    scene = gymnasium.make('wcpg/LeftTurn-v0').unwrapped
    action = np.array([4.0], np.float32)
    with pytest.raises(ResetNeeded, match='call reset'):
        scene.step(action)
    scene.reset(seed=1)
    with pytest.raises(ValueError, match=r'action: expected shape \(1,\), got \(2,\)'):
        scene.step(np.zeros(2))
    while not scene.step(action)[2]:
        pass
    with pytest.raises(ResetNeeded, match='call reset'):
        scene.step(action)
    scene.reset()
    assert not scene.step(action)[2]


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


def test_pictures_of_all_scenes_of_a_vector() -> None:
    scenes = gymnasium.make_vec('wcpg/Merge-v0', num_envs=2, render_mode='rgb_array')
    with pytest.raises(ResetNeeded, match='call reset'):
        scenes.render()
    single = gymnasium.make('wcpg/Merge-v0', render_mode='rgb_array')
    scenes.reset(seed=[3, 4])
    single.reset(seed=4)
    first, second = scenes.render()
    assert (first != second).any()
    assert np.array_equal(second, single.render())
    assert gymnasium.make_vec('wcpg/Merge-v0', num_envs=2).render() is None


def test_rows_and_settings_reach_the_scene() -> None:
    scene = gymnasium.make('wcpg/Merge-v0', row='+10/3%', changes={'layout.time': True}).unwrapped
    assert scene.scenario.traffic.spawn_rate == 0.03
    assert scene.observation_space.shape == (17,)
