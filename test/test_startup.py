"""Compiled code: kept, used again, never stale, and done without where nothing can be written."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import pytest

from sim_node import compiled

PACKAGE = Path(compiled.__file__).parent
FIRST_STEP = """
import json, time
start = time.process_time()
from sim_node import compiled, stepper
from sim_node.batch import Batch
from sim_node.scenario import load_scenario
batch = Batch(load_scenario('left_turn'), 1)
batch.reset(3)
observation = batch.step(1.0).observation
print(json.dumps({
    'seconds': time.process_time() - start, 'observation': observation.tolist(), 'source': compiled.__file__,
    'folder': str(compiled.cache_directory()), 'loaded': sum(stepper.step_batch.stats.cache_hits.values()),
    'compiled': sum(stepper.step_batch.stats.cache_misses.values())}))
"""
FIRST_UPDATES = """
import hashlib, json
import numpy as np
from wcpg_ros import networks
from wcpg_ros.learner import Learner
from wcpg_ros.settings import load_recipe
learner = Learner(load_recipe('config/left_turn.yaml'), 20, 4.0, np.random.default_rng(0))
rng = np.random.default_rng(1)
for _ in range(5):
    for array in learner.batch:
        array[:] = rng.random(array.shape)
    learner.learn()
print(json.dumps({'weights': hashlib.sha256(learner.values).hexdigest(),
                  'compiled': sum(networks.critic_backward.stats.cache_misses.values())}))
"""


def first(program: str, site: Path, **environment: str) -> dict:
    """What a program says in a fresh interpreter, with the package found in `site`."""
    answer = subprocess.run([sys.executable, '-c', program], cwd=site, env={**os.environ, **environment},
                            check=True, capture_output=True, text=True, timeout=300)
    return {**json.loads(answer.stdout), 'words': answer.stderr}


def files(folder: Path) -> dict[str, int]:
    """Every file under a folder and when it was written."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob('*') if path.is_file()}


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No place for a cache: neither chosen, nor at home, nor temporary. A file is no folder, not even for root."""
    blocked = tmp_path / 'a_file'
    blocked.touch()
    for name in ('WCPG_CACHE_DIR', 'XDG_CACHE_HOME', 'HOME'):
        monkeypatch.setenv(name, str(blocked))
    monkeypatch.setattr(tempfile, 'tempdir', str(blocked))


@pytest.fixture(autouse=True)
def forgotten():
    """The folder is looked for once per process; a test looks again, and so does whoever comes next."""
    compiled.cache_directory.cache_clear()
    yield
    compiled.cache_directory.cache_clear()


def test_a_read_only_package_without_a_home_compiles_once_and_is_left_alone(tmp_path):
    """The first start keeps its code where it may write, the second one loads it from there."""
    package = tmp_path / 'site' / 'sim_node'
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns('__pycache__'))
    for path in (package, *package.rglob('*')):    # binds everybody but root, for whom the file list is compared
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = files(package)
    blocked, temporary = tmp_path / 'a_file', tmp_path / 'temporary'
    blocked.touch()
    temporary.mkdir()
    homeless = {'WCPG_CACHE_DIR': str(blocked), 'XDG_CACHE_HOME': '', 'HOME': str(blocked), 'TMPDIR': str(temporary),
                'PYTHONDONTWRITEBYTECODE': '1'}
    fresh = first(FIRST_STEP, package.parent, **homeless)
    kept = files(temporary)
    second = first(FIRST_STEP, package.parent, **homeless)
    assert Path(fresh['source']).parent == package
    assert Path(fresh['folder']).is_relative_to(temporary)
    assert files(package) == before
    assert (fresh['loaded'], fresh['compiled']) == (0, 1)
    assert (second['loaded'], second['compiled']) == (1, 0)
    assert kept
    assert files(temporary) == kept
    assert second['observation'] == fresh['observation']
    assert second['seconds'] < fresh['seconds'] / 2
    assert fresh['words'] == 'wcpg_ros: compiling once, about half a minute …\n'
    assert second['words'] == ''


def test_code_that_is_loaded_learns_what_code_just_compiled_learns(tmp_path):
    """A training run must not depend on whether it is the first on its machine."""
    fresh, again = (first(FIRST_UPDATES, PACKAGE.parent, WCPG_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert (fresh['compiled'], again['compiled']) == (1, 0)
    assert fresh['weights'] == again['weights']


def test_places_are_tried_in_order(tmp_path, monkeypatch):
    chosen, user = tmp_path / 'chosen', tmp_path / 'user'
    monkeypatch.setenv('WCPG_CACHE_DIR', str(chosen))
    monkeypatch.setenv('XDG_CACHE_HOME', str(user))
    assert compiled.cache_directory().is_relative_to(chosen)
    monkeypatch.setenv('WCPG_CACHE_DIR', '/proc/no/such/place')
    compiled.cache_directory.cache_clear()
    assert compiled.cache_directory().is_relative_to(user)


def test_a_temporary_folder_of_somebody_else_is_not_trusted(tmp_path, nowhere, monkeypatch):
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path))
    assert compiled.cache_directory().is_relative_to(tmp_path)
    ourselves = os.getuid()
    monkeypatch.setattr(os, 'getuid', lambda: ourselves + 1)    # whatever is made from now on is somebody else's
    compiled.cache_directory.cache_clear()
    assert compiled.cache_directory() is None


def test_without_any_place_code_is_compiled_for_this_process_alone(nowhere, monkeypatch, capsys):
    assert compiled.cache_directory() is None
    monkeypatch.setattr(compiled._notice, '_told', False)     # as if nothing had been compiled in this process yet
    before = numba.config.CACHE_DIR
    double = compiled.kernel(lambda number: 2 * number)
    assert double(21) == 42
    assert not double.stats.cache_path
    assert 'compiling for this process alone (WCPG_CACHE_DIR: a folder to keep it in)' in capsys.readouterr().err
    assert before == numba.config.CACHE_DIR


def test_without_any_temporary_place_either(nowhere, monkeypatch):
    def none_usable() -> str:
        raise FileNotFoundError('No usable temporary directory found')

    monkeypatch.setattr(tempfile, 'gettempdir', none_usable)
    assert compiled.cache_directory() is None


def test_any_changed_source_means_another_folder(tmp_path, monkeypatch):
    package = tmp_path / 'sim_node'
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns('__pycache__'))
    monkeypatch.setenv('WCPG_CACHE_DIR', str(tmp_path / 'cache'))
    here = compiled.cache_directory()

    def folder() -> Path:
        compiled.cache_directory.cache_clear()
        return compiled.cache_directory(package)

    assert folder() == here    # the same sources in another place share their code
    sources = list(package.rglob('*.py'))
    assert len(sources) > 10
    seen = {here}
    for source in sources:
        source.write_text(source.read_text() + '\n')
        assert folder() not in seen, f'{source.name} changed, the folder did not'
        seen.add(folder())
