"""One decision of the policy against the same network in torch: `python bench/policy.py [--json]`.

Torch runs under `inference_mode` with one thread. Its first figure is kind to it: tensors in, tensor out, nothing
converted. Its second takes what a node has, a NumPy row, and gives what a node wants, a float; so does ours. The
contenders take turns in short rounds, so that whatever else the machine does hits all of them. Imports are timed in
fresh interpreters, by turns too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from sim_node.observation import Layout
from wcpg_ros.model_file import ACTOR_LAYERS, CRITIC_LAYERS, ModelFile, ModelInfo
from wcpg_ros.policy import Policy

ACT_BAR, IMPORT_BAR = 3.0, 0.2
BOUND, CLIP = 4.0, 5.0
WIDTHS = {'actor': {'h1': 32, 'h2': 16, 'h3': 32, 'out': 1},
          'critic': {'h1': 64, 'h2': 64, 'h3': 64, 'h4': 64, 'out': 2}}


class TorchActor(nn.Module):
    """The actor as one writes it in torch, with the weights of a model file."""

    def __init__(self, model: ModelFile) -> None:
        super().__init__()
        for layer in ACTOR_LAYERS:
            weight, bias = (torch.from_numpy(np.array(array)) for array in model.layer('actor', layer))
            linear = nn.Linear(weight.shape[1], weight.shape[0])
            linear.load_state_dict({'weight': weight, 'bias': bias})
            self.add_module(layer, linear)
        self._clip = model.info.normaliser_clip
        for name in ('mean', 'std'):
            self.register_buffer(name, torch.from_numpy(np.array(model.tensors[f'normaliser.{name}'])))

    def forward(self, observation: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
        observation = ((observation - self.mean) / self.std).clamp(-self._clip, self._clip)
        joined = torch.cat([self.h1(observation).relu(), self.h2(alpha).relu()], -1)
        return BOUND * self.out(self.h3(joined).relu()).tanh()


def random_model(rng: np.random.Generator) -> ModelFile:
    """A model of the paper's sizes that nobody trained."""
    layout = Layout()
    info = ModelInfo(
        scenario='left_turn', layout_version=layout.version, vehicles=layout.vehicles, time_feature=layout.time,
        observation_size=layout.size, normaliser_clip=CLIP, action_bound=BOUND, alpha_min=0.01, alpha_max=1.0, dial=[],
        risk_measure='cvar', critic='gaussian', twin=False, return_scale=1.0, gamma=0.99, decision_interval=0.4,
        action_repeat=4, recipe={}, seed=0, episodes=0, code_version='bench')
    tensors = {'normaliser.mean': rng.normal(size=layout.size), 'normaliser.std': rng.uniform(1.0, 9.0, layout.size)}
    for network, layers in (('actor', ACTOR_LAYERS), ('critic', CRITIC_LAYERS)):
        width = {'observation': layout.size, 'alpha': 1, 'action': 1, **WIDTHS[network]}
        for layer, reads in layers.items():
            inputs = sum(width[name] for name in reads)
            tensors[f'{network}.{layer}.weight'] = rng.normal(0.0, inputs ** -0.5, (width[layer], inputs))
            tensors[f'{network}.{layer}.bias'] = rng.normal(0.0, 0.1, width[layer])
    return ModelFile(info, {name: tensor.astype(np.float32) for name, tensor in tensors.items()})


def contenders(model: ModelFile) -> dict[str, Callable[[], object]]:
    """One decision of each; a check first that they decide the same."""
    policy, actor = Policy(model), TorchActor(model)
    row = np.random.default_rng(1).normal(0.0, 5.0, model.info.observation_size).astype(np.float32)
    batch = np.tile(row, (1000, 1))
    observation, alpha = torch.from_numpy(row)[None], torch.tensor([[0.1]])
    dial = iter(np.random.default_rng(2).uniform(0.01, 1.0, 10_000_000).tolist())

    def torch_from_numpy() -> float:
        return actor(torch.from_numpy(row)[None], torch.tensor([[0.1]])).item()

    difference = abs(policy.act(row, 0.1) - torch_from_numpy())
    assert difference < 1e-4, f'the two networks differ by {difference} m/s²'
    return {
        'act': lambda: policy.act(row, 0.1),
        'act_moving_dial': lambda: policy.act(row, next(dial)),
        'act_1000_rows': lambda: policy.act(batch, 0.1),
        'torch': lambda: actor(observation, alpha),
        'torch_from_numpy': torch_from_numpy,
    }


def measure(runs: dict[str, Callable[[], object]], rounds: int, per_round: int) -> dict[str, float]:
    """Median microseconds of each, over all rounds."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):   # the first round warms up
        for name, run in runs.items():
            for _ in range(per_round):
                start = time.perf_counter()
                run()
                if turn:
                    times[name].append(1e6 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def import_seconds(modules: tuple[str, ...], rounds: int) -> dict[str, float]:
    """Median seconds that importing each module takes in a fresh interpreter."""
    times: dict[str, list[float]] = {module: [] for module in modules}
    for turn in range(rounds + 1):   # the first round fills the disk cache
        for module in modules:
            code = f'import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)'
            seconds = float(subprocess.check_output([sys.executable, '-c', code], text=True))
            if turn:
                times[module].append(seconds)
    return {module: statistics.median(values) for module, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.add_argument('--rounds', type=int, default=40)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    with torch.inference_mode():
        median = measure(contenders(random_model(np.random.default_rng(0))), arguments.rounds, per_round=100)
    seconds = import_seconds(('wcpg_ros.policy', 'torch'), rounds=5)
    ratios = {name: median[name] / median['act'] for name in ('torch', 'torch_from_numpy')}
    imports = seconds['wcpg_ros.policy'] / seconds['torch']
    if arguments.json:
        print(json.dumps({
            **{f'{name}_us': round(value, 2) for name, value in median.items()},
            'act_times_faster_than_torch': round(ratios['torch'], 2), 'act_bar': ACT_BAR,
            'act_times_faster_than_torch_from_numpy': round(ratios['torch_from_numpy'], 2),
            'import_policy_s': round(seconds['wcpg_ros.policy'], 3), 'import_torch_s': round(seconds['torch'], 3),
            'import_share_of_torch': round(imports, 3), 'import_bar': IMPORT_BAR}))
        return
    print('one decision, one thread; medians')
    print(f'  act                     {median["act"]:6.1f} µs')
    print(f'  act, alpha ever new     {median["act_moving_dial"]:6.1f} µs')
    print(f'  act, a row of 1000      {median["act_1000_rows"] / 1000:6.2f} µs')
    print(f'  torch, tensors ready    {median["torch"]:6.1f} µs   '
          f'act is {ratios["torch"]:.1f} times faster (bar: {ACT_BAR:g})')
    print(f'  torch, NumPy to float   {median["torch_from_numpy"]:6.1f} µs   '
          f'act is {ratios["torch_from_numpy"]:.1f} times faster')
    print('import in a fresh interpreter; medians')
    print(f'  torch                   {seconds["torch"]:6.2f} s')
    print(f'  wcpg_ros.policy         {seconds["wcpg_ros.policy"]:6.2f} s    {imports:.2f} of it (bar: {IMPORT_BAR})')


if __name__ == '__main__':
    main()
