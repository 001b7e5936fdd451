"""Pictures of a controller at the wheel.

    render --scenario left_turn --controller gap:3 --seed 7 --episode 4 --out turn.gif
    render --scenario merge --controller predict:1 --at 6.0 --tempers --out merge.png
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim_node.batch import Batch
from sim_node.scenario import STEP_SECONDS, Scenario
from sim_node.seeds import episode_seed
from sim_node.settings import SettingsError
from sim_node.state import RUNNING
from wcpg_ros.controllers import Controller, prepare
from wcpg_ros.evaluate import add_scene_arguments, parse_changes
from wcpg_ros.interrupts import INTERRUPTED
from wcpg_ros.places import make_writable

if TYPE_CHECKING:
    from sim_node.render import Painter


def film(scenario: Scenario, controller: Controller, seed: int, episode: int, painter: Painter,
         until: float | None = None, tempers: bool = False, note: str = '', last_only: bool = False
         ) -> Iterator[np.ndarray]:
    """One frame per 0.1 s of an episode, to its end or `until` a time in seconds; perhaps only the last of them."""
    batch = Batch(scenario, 1, auto_reset=False)
    observation = batch.reset([episode_seed(seed, episode)])
    scene, cars = batch.scenes[0], batch.cars[0]
    while True:
        over = scene['outcome'] != RUNNING or (until is not None and (scene['step'] + 1) * STEP_SECONDS > until + 1e-9)
        if over or not last_only:
            yield painter.draw(scene, cars, tempers, note)
        if over:
            return
        if scene['step'] % scenario.action_repeat == 0:
            acceleration = controller.act(batch, observation)
        observation = batch.step(acceleration).observation


def main(args: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog='render', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_scene_arguments(parser)
    parser.add_argument('--episode', type=int, default=0, help='which episode of the seed (default: 0)')
    parser.add_argument('--at', type=float, metavar='SECONDS', help='stop there (a PNG shows that moment)')
    parser.add_argument('--tempers', action='store_true', help='colour the others by what ego cannot see')
    parser.add_argument('--width', type=int, default=900, help='in pixels (default: 900)')
    parser.add_argument('--out', type=Path, required=True, help='.gif for the whole episode, .png for its last moment')
    given = parser.parse_args(args)
    try:
        from sim_node.render import Painter, check_suffix, save
        check_suffix(given.out)
        make_writable(given.out.parent)
        if given.at is not None and not 0.0 <= given.at < math.inf:
            raise SettingsError(f'--at: expected seconds from 0 on, got {given.at}')
        scenario, controller = prepare(given.scenario, given.row, given.controller, given.alpha,
                                       parse_changes(given.changes))
        note = given.controller if given.alpha is None else f'{given.controller}, alpha = {given.alpha:g}'
        save(film(scenario, controller, given.seed, given.episode, Painter(scenario, given.width), given.at,
                  given.tempers, note, last_only=given.out.suffix.lower() == '.png'), given.out)
    except (ValueError, OSError, ImportError) as error:
        print(f'render: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print('render: stopped', file=sys.stderr)
        return INTERRUPTED
    print(f'{given.out}: written')
    return 0


if __name__ == '__main__':
    sys.exit(main())
