"""From a fresh interpreter to the first step: `python bench/startup.py [--json]`.

The first run finds an empty cache and compiles; the second and later ones must only load. They take turns with a bare
`import numba`, the part of it that is not ours. The cache is a temporary folder, so that nothing from earlier counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from time import perf_counter

BAR = 2.0    # s from the start of the interpreter to the end of the first step, on the second run
FIRST_STEP = """
from sim_node.batch import Batch
from sim_node.scenario import load_scenario
batch = Batch(load_scenario('left_turn'), 1)
batch.reset(0)
batch.step(0.0)
"""


def seconds(code: str, cache: str) -> float:
    """How long a fresh interpreter takes for the code."""
    start = perf_counter()
    subprocess.run([sys.executable, '-c', code], check=True, env={**os.environ, 'WCPG_CACHE_DIR': cache})
    return perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.add_argument('--rounds', type=int, default=5, help='runs after the first (default: 5)')
    given = parser.parse_args()

    with tempfile.TemporaryDirectory() as cache:
        print('compiling …', file=sys.stderr)
        first = seconds(FIRST_STEP, cache)
        later, bare = [], []
        for _ in range(given.rounds):
            later.append(seconds(FIRST_STEP, cache))
            bare.append(seconds('import numba', cache))
    second, median, numba = later[0], statistics.median(later), statistics.median(bare)
    if given.json:
        print(json.dumps({'first_run_s': round(first, 3), 'second_run_s': round(second, 3),
                          'later_runs_median_s': round(median, 3), 'import_numba_s': round(numba, 3),
                          'bar_s': BAR, 'met': second < BAR}))
        return
    print('from a fresh interpreter to the first step')
    print(f'  first run, compiling     {first:6.2f} s')
    print(f'  second run               {second:6.2f} s    {first / second:.1f} times quicker '
          f'(bar: {BAR:g} s, {"met" if second < BAR else "MISSED"})')
    print(f'  later runs, median       {median:6.2f} s    {median / numba:.1f} times a bare `import numba` '
          f'({numba:.2f} s)')


if __name__ == '__main__':
    main()
