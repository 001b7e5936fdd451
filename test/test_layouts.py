"""The RViz and Foxglove layouts show topics that the nodes publish, of the types the displays expect."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / 'docs' / 'interface.md').read_text()
TOPICS = dict(re.findall(r'^\| `(/[\w/]+)` \| (\w+/\w+) \|', PAGE, re.MULTILINE))


def panels(layout: Any) -> Iterator[str]:
    if isinstance(layout, str):
        yield layout
    else:
        yield from panels(layout['first'])
        yield from panels(layout['second'])


def test_rviz_shows_what_is_published() -> None:
    layout = yaml.safe_load((ROOT / 'config' / 'scene.rviz').read_text())['Visualization Manager']
    assert layout['Global Options']['Fixed Frame'] == 'map'
    shown = {display['Topic']['Value']: display['Class'] for display in layout['Displays'] if 'Topic' in display}
    assert shown == {'/vehicles/markers': 'rviz_default_plugins/MarkerArray',
                     '/ego/odometry': 'rviz_default_plugins/Odometry'}
    assert {TOPICS[name] for name in shown} == {'visualization_msgs/MarkerArray', 'nav_msgs/Odometry'}


def test_foxglove_shows_what_is_published() -> None:
    layout = json.loads((ROOT / 'config' / 'foxglove.json').read_text())
    named = set(re.findall(r'"(/[\w/]+)', json.dumps(layout['configById'])))
    assert named == {'/vehicles/markers', '/ego/odometry', '/ego/acceleration_command', '/wcpg/risk', '/diagnostics',
                     '/sim/episode'}
    assert named <= TOPICS.keys()
    assert sorted(panels(layout['layout'])) == sorted(layout['configById'])
