"""The benchmarks compare like with like."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_evaluate_and_its_peer_drive_the_same_episodes() -> None:
    found = subprocess.run([sys.executable, 'bench/evaluate.py', '--json', '--rounds', '1'], cwd=ROOT, check=True,
                           capture_output=True, text=True, timeout=300)
    assert json.loads(found.stdout)['same_episodes'] == 1.0
