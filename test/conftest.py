"""Fixtures that several test files share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from wcpg_ros.domain import Ros, taken_domain


@pytest.fixture
def ros(tmp_path: Path) -> Iterator[Ros]:
    """Give a test its own domain and what it takes to run processes there."""
    with taken_domain() as domain:
        here = Ros(domain, tmp_path)
        yield here
        here.kill_all()
