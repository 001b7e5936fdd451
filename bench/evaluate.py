"""`evaluate` against Gymnasium, one scene at a time, with the policy in torch: `python bench/evaluate.py [--json]`.

Both drive the shipped left-turn model through the same episodes. The peer is what one writes first: `reset`, then
`step` until `terminated`, the actor a torch module under `inference_mode` with one thread: what goes one by one has no
use for a second. `evaluate` takes a thread a core, as the command does, and for comparison one thread. By turns,
imports and compiling apart; ours 1,000 episodes at a time, the peer 100.
"""

from __future__ import annotations

import argparse
import json
import statistics
from time import perf_counter

import gymnasium
import numpy as np
import torch
from policy import TorchActor

import sim_node.envs  # noqa: F401  (registers the scenes)
from sim_node.state import OUTCOMES
from wcpg_ros.dial import levels_of
from wcpg_ros.episode_store import Drive, collect
from wcpg_ros.jobs import cores
from wcpg_ros.model_file import ModelFile

BAR = 20.0
MODEL, ALPHA, SEED = 'models/left_turn.safetensors', 0.3, 7
OURS, PEERS = 1000, 100     # episodes a round


class Gymnasium:
    """The peer, going on through the seed's episodes."""

    def __init__(self) -> None:
        model = ModelFile.load(MODEL)
        self._actor = TorchActor(model)
        self._level = torch.from_numpy(levels_of(model.info.dial, [[ALPHA]]))
        self._scene = gymnasium.make('wcpg/LeftTurn-v0', changes=model.info.layout.changes(), disable_env_checker=True)
        self._next_seed: int | None = SEED

    def drive(self, episodes: int) -> list[tuple[str, int]]:
        """Outcome and steps of so many more."""
        found = []
        for _ in range(episodes):
            observation, info = self._scene.reset(seed=self._next_seed)
            self._next_seed = None
            ended = False
            while not ended:
                with torch.inference_mode():
                    action = self._actor(torch.from_numpy(observation)[None], self._level)[0].numpy()
                observation, _, ended, _, info = self._scene.step(action)
            found.append((info['outcome'], info['steps']))
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.add_argument('--rounds', type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    drive = Drive('left_turn', MODEL, ALPHA, seed=SEED, episodes=OURS)
    peer = Gymnasium()
    rows = collect(drive, 'threads')
    same = np.mean([(OUTCOMES[row['outcome']], row['steps']) == other
                    for row, other in zip(rows, peer.drive(PEERS), strict=False)])
    contenders = {'evaluate': (OURS, lambda: collect(drive, 'threads')),
                  'one_thread': (OURS, lambda: collect(drive, 'serial')),
                  'gymnasium_torch': (PEERS, lambda: peer.drive(PEERS))}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(given.rounds):
        for name, (episodes, run) in contenders.items():
            start = perf_counter()
            run()
            seconds[name].append(1000 * (perf_counter() - start) / episodes)
    mine, alone, other = (statistics.median(values) for values in seconds.values())
    if given.json:
        print(json.dumps({'evaluate_s_per_1000': round(mine, 3), 'threads': cores(), 'one_thread_s': round(alone, 3),
                          'gymnasium_torch_s_per_1000': round(other, 3), 'times_faster': round(other / mine, 1),
                          'one_thread_times_faster': round(other / alone, 1), 'bar': BAR,
                          'same_episodes': round(float(same), 3), 'met': other / mine >= BAR}))
        return
    print(f'1,000 episodes of {MODEL} at alpha {ALPHA}; seconds, medians')
    print(f'  evaluate, {cores()} threads            {mine:7.3f} s')
    print(f'  evaluate, 1 thread             {alone:7.3f} s')
    print(f'  Gymnasium and torch, by one    {other:7.3f} s    evaluate is {other / mine:.1f} times faster '
          f'(bar: {BAR:g}, {"met" if other / mine >= BAR else "MISSED"}), with one thread {other / alone:.1f} times')
    print(f'  of the first {PEERS} episodes, {100 * same:.0f}% ended alike after as many steps')


if __name__ == '__main__':
    main()
