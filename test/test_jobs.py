"""run_jobs on its backends, and the episodes it fills a store with."""

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from random_models import random_model

from sim_node.settings import SettingsError
from wcpg_ros.controllers import prepare
from wcpg_ros.episode_store import CHUNK, Drive, EpisodeStore, _without_words, collect
from wcpg_ros.episodes import drive
from wcpg_ros.jobs import run_jobs
from wcpg_ros.parquet import read_parquet

BACKENDS = ('serial', 'threads', 'processes', 'ray')


@pytest.fixture(scope='module', autouse=True)
def ray_here() -> Iterator[None]:
    """Ray started once: that takes seconds. Its workers are as urgent as the test itself."""
    os.environ['RAY_worker_niceness'] = '0'     # noqa: SIM112 (Ray's own name)
    ray.init(address='local', num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.parametrize('backend', BACKENDS)
def test_every_backend_gives_every_result_and_raises_what_a_job_raises(backend: str) -> None:
    jobs = [(number, number + 2) for number in range(8)]
    assert dict(run_jobs(statistics.mean, jobs, backend)) == {job: job[0] + 1 for job in jobs}
    with pytest.raises(ValueError, match='mean requires at least one data point'):
        dict(run_jobs(statistics.mean, [(1, 2), (), (3,)], backend))


@pytest.mark.parametrize('backend', ['fibres', 'processes:2', 'threads:2', ''])
def test_an_unknown_backend_is_refused_before_anything_runs(backend: str) -> None:
    with pytest.raises(SettingsError, match=r'is unknown; choose serial, threads, processes, ray or ray:ADDRESS'):
        run_jobs(statistics.mean, [()], backend)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / 'model.safetensors'
    random_model(3, scenario='merge').save(path)
    return path


def test_rows_are_the_same_from_all_backends(model: Path) -> None:
    wanted = Drive('merge', str(model), 0.3, '+10/3%', seed=5, episodes=CHUNK + 40)
    rows = [collect(wanted, backend) for backend in BACKENDS]
    assert len(rows[0]) == CHUNK + 40
    assert len(set(rows[0]['outcome'])) > 1
    assert len({each.tobytes() for each in rows}) == 1
    assert rows[0].tobytes() == drive(*prepare('merge', '+10/3%', str(model), 0.3), CHUNK + 40, 5).tobytes()


def test_what_was_driven_is_read_and_only_what_changed_is_driven(model: Path, tmp_path: Path) -> None:
    wanted = [Drive('merge', str(model), alpha, row, seed, 20) for alpha in (0.1, 1.0) for row in ('train', '+0/2%')
              for seed in (1, 2)]
    assert EpisodeStore(tmp_path / 'store').fill(wanted, 'serial', progress=False) == 8
    assert EpisodeStore(tmp_path / 'store').fill(wanted, 'serial', progress=False) == 0
    more = [*wanted, Drive('merge', str(model), 0.2, episodes=20, seed=1),
            Drive('merge', str(model), 0.1, 'train', 1, episodes=21), Drive('merge', 'gap:3', episodes=20)]
    assert EpisodeStore(tmp_path / 'store').fill(more, 'serial', progress=False) == 3
    random_model(4, scenario='merge').save(model)     # another model under the same name, however it is spelled
    assert EpisodeStore(tmp_path / 'store').fill(more, 'serial', progress=False) == 10     # all but the rule's
    spelled = replace(more[0], controller=f'{model.parent}/./{model.name}')
    assert EpisodeStore(tmp_path / 'store').fill([spelled], 'serial', progress=False) == 0


def test_a_store_keeps_rows_as_they_were_with_what_they_are(model: Path, tmp_path: Path) -> None:
    store = EpisodeStore(tmp_path / 'store')
    wanted = Drive('merge', str(model), 0.3, seed=2, episodes=30, watch=True)
    store.fill([wanted], 'serial', progress=False)
    rows = store.rows(wanted)
    assert rows.tobytes() == wanted.run().tobytes()
    assert rows['episode'].tolist() == list(range(30))
    plain = replace(wanted, watch=False).run()
    for name in plain.dtype.names:
        assert (rows[name] == plain[name]).all()
    (file,) = (tmp_path / 'store').iterdir()
    import pyarrow.parquet
    assert b'"alpha": 0.3' in pyarrow.parquet.read_metadata(file).metadata[b'drive']
    assert set(pyarrow.parquet.read_table(file)['outcome'].to_pylist()) <= {'success', 'collision', 'timeout'}
    assert read_parquet(file).tobytes() == rows.tobytes()


def test_killed_half_way_it_goes_on_where_it_was(tmp_path: Path) -> None:
    command = [sys.executable, '-m', 'wcpg_ros.evaluate', '--scenario', 'merge', '--controller', 'predict:1',
               '--episodes', '40000', '--keep', str(tmp_path / 'store'), '--json']
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob('store/*.parquet'))) < 3:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = list(tmp_path.glob('store/*.parquet'))
    assert 3 <= len(kept) < 40
    assert all(len(read_parquet(file)) == CHUNK for file in kept)
    later = 8     # two threads do not end their chunks in order, but not far from it
    wanted = Drive('merge', 'predict:1', episodes=CHUNK * (len(kept) + later))
    assert EpisodeStore(tmp_path / 'store').fill([wanted], 'serial', progress=False) == later     # none was lost


def test_what_was_cut_short_is_driven_again_and_what_is_damaged_is_named(tmp_path: Path) -> None:
    wanted = Drive('merge', 'gap:3', episodes=2 * CHUNK + 500)
    store = EpisodeStore(tmp_path / 'store')
    store.fill([wanted], 'serial', progress=False)
    whole = store.rows(wanted)
    empty, half, _ = sorted((tmp_path / 'store').iterdir())
    empty.write_bytes(b'')
    half.write_bytes(half.read_bytes()[:-100])
    assert store.fill([wanted], 'serial', progress=False) == 2
    assert store.rows(wanted).tobytes() == whole.tobytes()
    content = bytearray(half.read_bytes())
    content[4:200] = bytes(196)     # its end, which says what is in it, stays
    half.write_bytes(content)
    with pytest.raises(SettingsError, match=rf'{half}: damaged .*; remove it'):
        store.rows(wanted)


def test_a_kept_file_is_believed_only_under_its_own_name_and_with_its_own_rows(tmp_path: Path) -> None:
    store = EpisodeStore(tmp_path / 'store')
    drives = [Drive('merge', name, episodes=20) for name in ('constant:4', 'brake')]
    kept = []
    for each in drives:
        store.fill([each], 'serial', progress=False)
        kept += [path for path in (tmp_path / 'store').iterdir() if path not in kept]
    rows = store.rows(drives[0])
    kept[0].write_bytes(kept[1].read_bytes())
    assert store.fill(drives, 'serial', progress=False) == 1     # what was copied over it is not its own
    assert store.rows(drives[0]).tobytes() == rows.tobytes()
    import pyarrow.parquet
    table = pyarrow.parquet.read_table(kept[0])
    steps = table['steps'].to_numpy().copy()
    steps[3] += 1
    changed = table.set_column(table.column_names.index('steps'), 'steps', pyarrow.array(steps))
    pyarrow.parquet.write_table(changed.replace_schema_metadata(table.schema.metadata), kept[0])
    with pytest.raises(SettingsError, match=r'damaged .its rows do not match its checksum.; remove it'):
        store.rows(drives[0])


def test_workers_end_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    code = (f'from wcpg_ros.jobs import run_jobs; from test_jobs import note_and_wait\n'
            f'if __name__ == "__main__": list(run_jobs(note_and_wait, [{str(tmp_path / "a")!r}, '
            f'{str(tmp_path / "b")!r}]))')
    script = tmp_path / 'script.py'
    script.write_text(code)
    path = os.pathsep.join([str(Path(__file__).parent), os.getcwd()])
    process = subprocess.Popen([sys.executable, str(script)], env={**os.environ, 'PYTHONPATH': path})
    workers = [int(until(lambda name=name: (tmp_path / name).exists() and (tmp_path / name).read_text()))
               for name in 'ab']
    process.kill()
    process.wait()
    for worker in workers:
        until(lambda worker=worker: not Path(f'/proc/{worker}').exists() or
              ') Z ' in Path(f'/proc/{worker}/stat').read_text())


def note_and_wait(path: str) -> None:
    """A job that says where it is done, and takes long."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(300)


def until(holds: Callable[[], Any]) -> Any:
    """What it is, once it is something."""
    deadline = time.monotonic() + 60
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


@pytest.mark.parametrize(('changes', 'message'), [
    ({'controller': 'gone.safetensors'}, 'gone.safetensors: no such model file'),
    ({'row': '+5/5%'}, "row '+5/5%': merge has no such row"),
    ({'controller': 'gap:3', 'watch': True}, 'gap:3: has no critic to watch'),
    ({'controller': 'gap:3', 'alpha': 0.1}, 'has no dial'),
    ({'episodes': 0}, 'episodes: expected at least 1'),
    ({'first': 999_999, 'episodes': 2}, 'episode: expected a whole number from 0 to 999999'),
])
def test_what_cannot_be_driven_is_refused_before_anything_is(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace('+', r'\+')):
        replace(Drive('merge', 'brake'), **changes).check()


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / 'file').touch()
    with pytest.raises(OSError, match=r'file/store: cannot be written to .*; choose another place'):
        EpisodeStore(tmp_path / 'file' / 'store')


def test_comments_do_not_count_as_code() -> None:
    assert _without_words('def f(x):\n    """Doubles."""\n    return 2 * x   # twice\n') == _without_words(
        'def f(x):\n\n    return 2*x')
    assert _without_words('def f(x): return 2 * x') != _without_words('def f(x): return 3 * x')


def test_what_the_critic_thought_is_what_the_policy_says(model: Path) -> None:
    """Of episode 0: driven by hand, one scene, every decision."""
    from sim_node.batch import Batch
    from sim_node.seeds import episode_seed
    from wcpg_ros.policy import Policy
    scenario, _ = prepare('merge', 'train', str(model), 0.3)
    policy, batch = Policy.load(model), Batch(scenario, 1, auto_reset=False)
    observation = batch.reset([episode_seed(2, 0)])
    first, sigmas, done = None, [], False
    while not done:
        action = float(policy.act(observation[0], 0.3))
        risk = policy.risk(observation[0], action, 0.3)
        first = first or risk
        sigmas.append(risk.std)
        result = batch.step([action], scenario.action_repeat)
        observation, done = result.observation, bool(result.done[0])
    row = Drive('merge', str(model), 0.3, seed=2, episodes=1, watch=True).run()[0]
    assert row['sigma'] == pytest.approx(np.mean(sigmas), rel=1e-5)
    assert (row['sigma_peak'], row['sigma_last']) == pytest.approx((max(sigmas), sigmas[-1]), rel=1e-5)
    assert (row['predicted_mean'], row['predicted_std']) == pytest.approx((first.mean, first.std), rel=1e-5)
    assert row['discounted'] == pytest.approx(row['return'] * policy.info.gamma ** (len(sigmas) - 1), rel=1e-5)
