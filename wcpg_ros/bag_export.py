"""Transitions for other libraries: one NumPy archive, or a Minari dataset with terminations and truncations apart."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sim_node.scenario import load_scenario
from wcpg_ros.bag_rules import BagError
from wcpg_ros.bag_transitions import RecordedEpisode, Transitions
from wcpg_ros.places import make_writable


def export_npz(episodes: Iterable[RecordedEpisode], path: Path) -> int:
    """One row per transition, in the order of time; gives their number.

    observations, actions, rewards, next_observations, terminations, truncations, steps (of 0.1 s), alphas (NaN: not
    recorded), episodes (their number), and `info`, a JSON text with scenario, seeds and outcomes by episode.
    """
    if path.exists():
        raise BagError(f'{path}: exists already; choose another name, or remove it')
    make_writable(path.parent)
    parts: list[Transitions] = []
    numbers: list[np.ndarray] = []
    info: list[dict[str, Any]] = []
    for number, episode in enumerate(episodes):
        if info and episode.scenario != info[0]['scenario']:
            raise BagError(f'{info[0]["scenario"]}, {episode.scenario}: an archive is of one scene; make one for each')
        parts.append(episode.transitions)
        numbers.append(np.full(len(episode.transitions), number))
        info.append({'scenario': episode.scenario, 'row': episode.row, 'seed': episode.seed,
                     'outcome': episode.outcome, 'return': episode.episode_return})
    if not sum(map(len, parts)):
        raise BagError('no transition in there; look with `bag inspect`')

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts])

    with path.open('wb') as file:
        np.savez(file, observations=joined('observation'), actions=joined('action'), rewards=joined('reward'),
                 next_observations=joined('next_observation'), terminations=joined('done'),
                 truncations=joined('truncated'), steps=joined('steps'), alphas=joined('alpha'),
                 episodes=np.concatenate(numbers), info=np.array(json.dumps(info)))
    return len(joined('action'))


def export_minari(episodes: Iterable[RecordedEpisode], name: str, changes: Mapping[str, Any]) -> int:
    """A dataset in Minari's local folder ($MINARI_DATASETS_PATH); gives the number of its transitions.

    Where decisions are missing an episode is given in pieces, all but the last of them truncated. Actions beyond the
    bound are what the car itself makes of them. `changes` to the scene go into the environment that the dataset names.
    """
    try:
        import gymnasium
        import h5py  # noqa: F401  what Minari writes with; it asks for it only then
        import minari
        from minari.data_collector import EpisodeBuffer
        from minari.dataset.minari_dataset import parse_dataset_id
        from minari.storage.datasets_root_dir import get_dataset_path

        from sim_node.envs import ENVIRONMENTS
    except ImportError as missing:
        raise BagError(f"{missing}; it comes with: pip install 'wcpg_ros[minari]'") from None
    try:
        parse_dataset_id(name)
    except (ValueError, TypeError):     # the second where the version is missing
        raise BagError(f'{name!r}: expected the name of a Minari dataset, NAME-v0, for instance left_turn/mixed-v0'
                       ) from None
    if get_dataset_path(name).exists():
        raise BagError(f'{get_dataset_path(name)}: exists already; choose another name, or remove it')
    buffers: list[Any] = []
    scenes: set[str] = set()
    for episode in episodes:
        bound = load_scenario(episode.scenario).vehicle.acceleration_limit
        scenes.add(episode.scenario)
        for piece in pieces(episode.transitions):
            buffers.append(EpisodeBuffer(
                id=len(buffers), seed=episode.seed,
                observations=np.concatenate([piece.observation, piece.next_observation[-1:]]),
                actions=piece.action[:, None].clip(-bound, bound), rewards=piece.reward.tolist(),
                terminations=piece.done.tolist(), truncations=piece.truncated.tolist()))
    if not buffers:
        raise BagError('no transition in there; look with `bag inspect`')
    environments = [each for each, scene in ENVIRONMENTS.items() if scenes == {scene}]
    if not environments:
        raise BagError(f'{", ".join(sorted(scenes))}: a dataset is of one scene, and of one that comes with wcpg_ros')
    environment = gymnasium.make(environments[0], changes=dict(changes))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', UserWarning)     # Minari would like an author and a permalink
            minari.create_dataset_from_buffers(
                name, buffers, env=environment, eval_env=environment, algorithm_name='recorded drives',
                description='Recorded drives: one decision of 0.4 s per step, actions in m/s².')
    except ValueError as error:
        raise BagError(f'{name}: {error}') from None
    return sum(len(buffer.rewards) for buffer in buffers)


def pieces(transitions: Transitions) -> Iterator[Transitions]:
    """An episode's transitions, parted where decisions are missing."""
    ends = np.flatnonzero(transitions.done | transitions.truncated) + 1
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        yield Transitions(**{name: getattr(transitions, name)[start:end] for name in Transitions.__dataclass_fields__})
