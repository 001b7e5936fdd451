"""Fixtures that several test files share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from node_probe import Nodes, Probe
from preloaded import PreloadedRos

from wcpg_ros.domain import Ros, taken_domain

# A shell ignores Ctrl-C for what it runs in the background, and so would every process the tests start from there.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def ros(tmp_path: Path, kernels: None) -> Iterator[Ros]:
    """Give a test its own domain and what it takes to run processes there."""
    with taken_domain() as domain:
        here = PreloadedRos(domain, tmp_path)
        yield here
        here.kill_all()


@pytest.fixture
def probe(ros: Ros) -> Iterator[Probe]:
    """The test's own node in its domain."""
    probe = Probe(ros)
    yield probe
    probe.close()


@pytest.fixture
def nodes(ros: Ros, tmp_path: Path) -> Nodes:
    """The nodes under test."""
    return Nodes(ros, tmp_path)


@pytest.fixture
def fresh_nodes(ros: Ros, tmp_path: Path) -> Iterator[Nodes]:
    """The nodes under test, each in a process that begins with nothing loaded."""
    folder = tmp_path / 'fresh'
    folder.mkdir()
    here = Ros(ros.domain, folder)
    yield Nodes(here, folder)
    here.kill_all()


@pytest.fixture(scope='session')
def kernels() -> None:
    """Compile the simulator before any node has to answer in time."""
    from sim_node.episode import Episode
    from sim_node.scenario import load_scenario

    Episode(load_scenario('left_turn')).warm_up()
