"""How to read bags that are not exactly ours: settings of a run, and options of the commands that read bags."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

from sim_node.settings import SettingsError, check

SMALLEST, LARGEST = 0.1, 100.0     # m, of a vehicle
FARTHEST = 1e8                     # m, of a scene from its map's origin: further than around the Earth
LONGEST_TOLERANCE = 5.0            # s; what is further apart is another episode


class BagError(ValueError):
    """Bags that cannot be used; the message says why and where."""


@dataclass(frozen=True)
class Rules:
    """What a bag of another car or simulator needs to be told."""

    vehicle_size: tuple[float, float] | None = None           # length and width of everybody, m; None: from the markers
    scene_pose: tuple[float, float, float] = (0.0, 0.0, 0.0)  # where the scene's origin lies in the map: x, y, yaw
    tolerance: float = 0.0                                    # s between ego's and the others' stamps at most
    names: dict[str, str] = field(default_factory=dict)       # our topic: the bag's name for it


def add_rules_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that make rules."""
    group = parser.add_argument_group('bags of another car or simulator')
    group.add_argument('--map', nargs='+', action='extend', default=[], metavar='OURS=THEIRS',
                       help='names of topics, for instance /vehicles=/traffic')
    group.add_argument('--vehicle-size', type=float, nargs=2, metavar=('LENGTH', 'WIDTH'),
                       help='m, of everybody, where no markers say it')
    group.add_argument('--scene-pose', type=float, nargs=3, default=(0.0, 0.0, 0.0), metavar=('X', 'Y', 'YAW'),
                       help="where the scene's origin lies in the bag's map")
    group.add_argument('--tolerance', type=float, default=0.0, metavar='SECONDS',
                       help="how far ego's and the others' stamps may be apart (default: 0)")


def rules_of(given: argparse.Namespace) -> Rules:
    """The rules that a command line asks for."""
    names = {}
    for pair in given.map:
        ours, equals, theirs = pair.partition('=')
        if not equals:
            raise SettingsError(f'--map {pair!r}: expected OURS=THEIRS, for instance /vehicles=/traffic')
        names[ours] = theirs
    for option, numbers, low, high, unit in (
            ('--vehicle-size', given.vehicle_size or (), SMALLEST, LARGEST, 'm'),
            ('--scene-pose', given.scene_pose, -FARTHEST, FARTHEST, 'm and rad'),
            ('--tolerance', [given.tolerance], 0.0, LONGEST_TOLERANCE, 's')):
        for number in numbers:
            check(low <= number <= high, option, f'expected {low:g} to {high:g} {unit}, got {number:g}')
    size = tuple(given.vehicle_size) if given.vehicle_size else None
    return Rules(size, tuple(given.scene_pose), given.tolerance, names)
