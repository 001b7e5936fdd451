"""docs/interface.md says what the nodes do."""

from __future__ import annotations

from pathlib import Path

import pytest
from random_models import random_model

from wcpg_ros.domain import Ros, surroundings

PAGE = Path(__file__).parent.parent / 'docs' / 'interface.md'


@pytest.mark.usefixtures('kernels')
def test_the_page_is_what_the_nodes_say(ros: Ros, tmp_path: Path) -> None:
    from wcpg_ros.interface_page import page

    random_model().save(tmp_path / 'model.safetensors')
    with surroundings(ros.environment):
        expected = page(tmp_path / 'model.safetensors')
    # /tf is there only with a ROS 2 distribution.
    assert [line for line in PAGE.read_text().splitlines() if '`/tf`' not in line] == \
        [line for line in expected.splitlines() if '`/tf`' not in line], \
        'docs/interface.md is out of date: python -m wcpg_ros.interface_page MODEL > docs/interface.md'
