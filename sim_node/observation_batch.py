"""`observe()` compiled, for the stepper and for many recorded states at once."""

from __future__ import annotations

from sim_node.compiled import compiled, kernel
from sim_node.observation import (
    beside,
    conflict_lane,
    crossing,
    harmless_acceleration,
    joining_before,
    make_room,
    near,
    observe,
    observe_conflicts,
    observe_poses,
    relevant,
    time_to_brake,
    within,
)
from sim_node.roads import arrival, bend_speed_square, new_way, predict_way, project, wrap

*_, observe = compiled(wrap, project, bend_speed_square, predict_way, arrival, near, conflict_lane, relevant,
                       make_room, observe_poses, within, time_to_brake, harmless_acceleration, beside, crossing,
                       joining_before, observe_conflicts, observe)


def observe_batch(segments, lanes, view, ego, others, counts, elapsed, with_time, out):
    """Fill each row of `out` with the observation of a state, `elapsed` seconds after its episode began."""
    _observe_batch(segments, lanes, view, ego, others, counts, elapsed, with_time, new_way(), out)


@kernel
def _observe_batch(segments, lanes, view, ego, others, counts, elapsed, with_time, way, out):
    for i in range(out.shape[0]):
        observe(segments, lanes, view, ego[i], others[i], counts[i], elapsed[i], with_time, way, out[i])
