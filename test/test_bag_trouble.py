"""Recorders and readers that are killed, interrupted, or run out of room: what was written or read by then counts."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip('mcap', reason='needs the bags extra')
pytest.importorskip('rosbags', reason='needs the bags extra')

from bag_tools import assert_same, driven, make_bag, read

from wcpg_ros import bag, bag_transitions, record
from wcpg_ros.train import main as train_main

ROOT = Path(__file__).parent.parent
DRIVE = ['--scenario', 'left_turn', '--controller', 'gap:3', '--seed', '5']


def in_another_process(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that imports what is tested here."""
    return subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, cwd=ROOT)


@pytest.mark.parametrize('storage', ['mcap', 'sqlite3'])
def test_a_killed_recorder_leaves_a_bag_that_is_read(tmp_path: Path, storage: str) -> None:
    out = tmp_path / 'bag'
    done = in_another_process(f"""
import os, signal
from wcpg_ros import bag_writer, record
drive, count = record.DriveWriter.drive, []
def drive_or_die(self, *arguments):
    count.append(drive(self, *arguments))
    if len(count) == 6:
        self._bag.flush()
    if len(count) == 60:     # far more than SQLite keeps in memory is written by now, but not for good
        os.kill(os.getpid(), signal.SIGKILL)
    return count[-1]
record.DriveWriter.drive = drive_or_die
bag_writer.FLUSH_SECONDS = 1e9
record.main({DRIVE!r} + ['--episodes', '100', '--storage', '{storage}', '--out', {str(out)!r}])
""")
    assert done.returncode == -signal.SIGKILL, done.stderr
    episodes, reader = read(out)
    assert (reader.summary.unfinished, reader.summary.problems) == (1, [])
    assert len(episodes) >= 6
    for episode, expected in zip(episodes[:6], driven('left_turn', 'gap:3', 6, 5), strict=True):
        assert_same(episode.transitions, expected)
    if storage == 'sqlite3':
        assert len(episodes) == 6     # the half-written rest is set back


def test_ctrl_c_ends_recording_with_the_episode_under_way(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    drive, count = record.DriveWriter.drive, []

    def interrupted(writer: record.DriveWriter, *arguments: object) -> object:
        count.append(True)
        if len(count) == 3:
            signal.raise_signal(signal.SIGINT)
        return drive(writer, *arguments)     # type: ignore[arg-type]

    monkeypatch.setattr(record.DriveWriter, 'drive', interrupted)
    assert record.main([*DRIVE, '--episodes', '50', '--out', str(tmp_path / 'bag')]) == 130
    assert 'stopped after 3 of 50 episodes; the bag is whole' in capsys.readouterr().err
    episodes, reader = read(tmp_path / 'bag')
    assert (reader.summary.unfinished, reader.summary.oddities(), reader.summary.problems) == (0, {}, [])
    for episode, expected in zip(episodes, driven('left_turn', 'gap:3', 3, 5), strict=True):
        assert_same(episode.transitions, expected)


@pytest.mark.parametrize('storage', ['mcap', 'sqlite3'])
def test_a_full_disk_is_said_and_costs_only_the_rest(tmp_path: Path, storage: str) -> None:
    out = tmp_path / 'bag'
    limit = 6_000_000     # bytes that a file may have; the system says so as it says that a disk is full
    done = in_another_process(f"""
import resource, sys
from wcpg_ros import bag_writer, record
bag_writer.FLUSH_SECONDS = 0.01
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {resource.RLIM_INFINITY}))
sys.exit(record.main({DRIVE!r} + ['--episodes', '200', '--storage', '{storage}', '--out', {str(out)!r}]))
""")
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith('record: ')
    assert 'Traceback' not in done.stderr
    episodes, _ = read(out)
    assert len(episodes) > 3
    for episode, expected in zip(episodes[:-1], driven('left_turn', 'gap:3', len(episodes) - 1, 5), strict=True):
        assert_same(episode.transitions, expected)


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / 'file').write_text('')
    make_bag(tmp_path / 'bag', episodes=1)
    inside = str(tmp_path / 'file' / 'inside')
    for command, arguments in ((record.main, [*DRIVE, '--episodes', '1', '--out', inside]),
                               (bag.main, ['export', str(tmp_path / 'bag'), '--to', 'npz', '--out', inside]),
                               (bag.main, ['inspect', str(tmp_path / 'bag'), '--plot', f'{inside}.png']),
                               (train_main, ['--from-bag', str(tmp_path / 'bag'), '--config',
                                             str(ROOT / 'config' / 'offline.yaml'), '--out', inside])):
        assert command(arguments) == 2
        said = capsys.readouterr()
        assert str(tmp_path / 'file') in said.err
        assert 'cannot be written to' in said.err
        assert 'choose another place' in said.err
        assert (said.out, said.err.count('\n')) == ('', 1)     # one line, before anything is read


def test_a_mistake_leaves_no_bag_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / 'bag'
    model = str(ROOT / 'models' / 'left_turn.safetensors')
    for arguments, says in (([*DRIVE, '--episodes', '0'], 'expected at least 1'),
                            (['--scenario', 'left_turn', '--controller', model, '--alpha', '5'], 'dial of this')):
        assert record.main([*arguments, '--out', str(out)]) == 2
        assert says in capsys.readouterr().err
        assert not out.exists()


def test_ctrl_c_while_inspecting_shows_what_was_read(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    make_bag(tmp_path / 'bag', episodes=8)
    interrupt_reading(monkeypatch, after=5)
    assert bag.main(['inspect', str(tmp_path / 'bag')]) == 130
    shown = capsys.readouterr()
    assert 'stopped; what follows was read so far' in shown.err
    assert '5 episodes: ' in shown.out
    assert '/ego/odometry' in shown.out
    interrupt_reading(monkeypatch, after=5)
    assert bag.main(['export', str(tmp_path / 'bag'), '--to', 'npz', '--out', str(tmp_path / 'x.npz')]) == 130
    assert 'nothing was written' in capsys.readouterr().err
    assert not (tmp_path / 'x.npz').exists()


def test_ctrl_c_while_training_reads_its_bags_can_be_resumed(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    make_bag(tmp_path / 'bag', episodes=8)
    quick = ['offline.updates=10', 'offline.interval=10', 'validation.episodes=5', 'learning.batch=16']
    command = ['--from-bag', str(tmp_path / 'bag'), '--scenario', 'left_turn', '--config',
               str(ROOT / 'config' / 'offline.yaml'), '--set', *quick, '--out']
    interrupt_reading(monkeypatch, after=5)
    assert train_main([*command, str(tmp_path / 'run')]) == 130
    assert f'stopped; continue with --resume {tmp_path / "run"}' in capsys.readouterr().out
    assert not (tmp_path / 'run' / 'checkpoint.npz').exists()
    monkeypatch.undo()
    assert train_main(['--resume', str(tmp_path / 'run')]) == 0
    assert train_main([*command, str(tmp_path / 'whole')]) == 0
    ends = [(tmp_path / name / 'model.safetensors').read_bytes() for name in ('run', 'whole')]
    assert ends[0] == ends[1]


def interrupt_reading(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Ctrl-C while the episode behind so many is read."""
    whole, count = bag_transitions.EpisodeReader.read, []

    def interrupted(reader: bag_transitions.EpisodeReader, *arguments: object) -> object:
        count.append(True)
        if len(count) == after + 1:
            signal.raise_signal(signal.SIGINT)
        return whole(reader, *arguments)     # type: ignore[arg-type]

    monkeypatch.undo()
    monkeypatch.setattr(bag_transitions.EpisodeReader, 'read', interrupted)
