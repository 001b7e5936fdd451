"""Transitions for other libraries: one NumPy archive, or a Minari dataset with terminations and truncations apart."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wcpg_ros.bag_storage import BagError
from wcpg_ros.bag_transitions import RecordedEpisode, Transitions


def export_npz(episodes: Iterable[RecordedEpisode], path: Path) -> int:
    """One row per transition, in the order of time; gives their number.

    observations, actions, rewards, next_observations, terminations, truncations, steps (of 0.1 s), alphas (NaN: not
    recorded), episodes (their number), and `info`, a JSON text with scenario, seeds and outcomes by episode.
    """
    parts: list[Transitions] = []
    numbers: list[np.ndarray] = []
    info: list[dict[str, Any]] = []
    for number, episode in enumerate(episodes):
        parts.append(episode.transitions)
        numbers.append(np.full(len(episode.transitions), number))
        info.append({'scenario': episode.scenario, 'row': episode.row, 'seed': episode.seed,
                     'outcome': episode.outcome, 'return': episode.episode_return})
    if not sum(map(len, parts)):
        raise BagError('no transition in there; look with `bag inspect`')

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts])

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open('wb') as file:
        np.savez(file, observations=joined('observation'), actions=joined('action'), rewards=joined('reward'),
                 next_observations=joined('next_observation'), terminations=joined('done'),
                 truncations=joined('truncated'), steps=joined('steps'), alphas=joined('alpha'),
                 episodes=np.concatenate(numbers), info=np.array(json.dumps(info)))
    return len(joined('action'))


def export_minari(episodes: Iterable[RecordedEpisode], name: str, action_bound: float) -> int:
    """A dataset in Minari's local folder ($MINARI_DATASETS_PATH); gives the number of its transitions.

    Where decisions are missing an episode is given in pieces, all but the last of them truncated.
    """
    try:
        import minari
        from gymnasium.spaces import Box
        from minari.data_collector import EpisodeBuffer
    except ImportError as missing:
        raise BagError(f"{missing}; it comes with: pip install 'wcpg_ros[minari]'") from None
    buffers: list[Any] = []
    for episode in episodes:
        for piece in pieces(episode.transitions):
            buffers.append(EpisodeBuffer(
                id=len(buffers), seed=episode.seed,
                observations=np.concatenate([piece.observation, piece.next_observation[-1:]]),
                actions=piece.action[:, None], rewards=piece.reward.tolist(), terminations=piece.done.tolist(),
                truncations=piece.truncated.tolist()))
    if not buffers:
        raise BagError('no transition in there; look with `bag inspect`')
    size = buffers[0].observations.shape[1]
    try:
        minari.create_dataset_from_buffers(
            name, buffers, observation_space=Box(-np.inf, np.inf, (size,), np.float32),
            action_space=Box(-action_bound, action_bound, (1,), np.float32), algorithm_name='recorded drives',
            description='Recorded drives: one decision of 0.4 s per step, actions in m/s².')
    except ValueError as error:
        raise BagError(f'{name}: {error}') from None
    return sum(len(buffer.rewards) for buffer in buffers)


def pieces(transitions: Transitions) -> Iterator[Transitions]:
    """An episode's transitions, parted where decisions are missing."""
    ends = np.flatnonzero(transitions.done | transitions.truncated) + 1
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        yield Transitions(**{name: getattr(transitions, name)[start:end] for name in Transitions.__dataclass_fields__})
