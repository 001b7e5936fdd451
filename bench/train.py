"""A thousand episodes of training: `python bench/train.py [--json] [--config config/left_turn.yaml]`.

Prints environment steps, updates, seconds, and the share of time that is not update.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from wcpg_ros.run_directory import RunConfig, RunDirectory
from wcpg_ros.settings import load_recipe
from wcpg_ros.train import make_trainer


def run(config: RunConfig) -> dict[str, float]:
    """One training run in a directory of its own."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / 'run'
        RunDirectory.create(path, config)
        trainer = make_trainer(path)
        started = time.perf_counter()
        trainer.run()
        seconds = time.perf_counter() - started
    updating = trainer.seconds['updating']
    return {'episodes': trainer.episodes, 'environment_steps': trainer.environment_steps,
            'decisions': trainer.decisions, 'updates': trainer.learner.updates, 'seconds': round(seconds, 2),
            'not_update_share': round(1.0 - updating / seconds, 3),
            'ms_per_update': round(1e3 * updating / max(trainer.learner.updates, 1), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.add_argument('--scenario', default='left_turn')
    parser.add_argument('--config', type=Path, default=Path('config/left_turn.yaml'))
    parser.add_argument('--episodes', type=int, default=1000)
    options = parser.parse_args()
    recipe = load_recipe(options.config)
    run(RunConfig(options.scenario, 0, 120, recipe))   # compiles what is not cached yet
    result = run(RunConfig(options.scenario, 1, options.episodes, recipe))
    if options.json:
        print(json.dumps(result))
        return
    print(f'{options.scenario}, {options.config}: {result["episodes"]:,} episodes')
    print(f'  environment steps  {result["environment_steps"]:>9,}   decisions {result["decisions"]:,}')
    print(f'  updates            {result["updates"]:>9,}   {result["ms_per_update"]} ms each')
    print(f'  seconds            {result["seconds"]:>9}   {100 * result["not_update_share"]:.1f}% of it not update')


if __name__ == '__main__':
    main()
