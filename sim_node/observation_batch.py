"""The observations of many recorded states at once."""

from __future__ import annotations

from sim_node.compiled import compiled, kernel
from sim_node.observation import conflict_lane, near, observe
from sim_node.roads import project, wrap

*_, observe = compiled(wrap, project, near, conflict_lane, observe)


@kernel
def observe_batch(segments, lanes, view, ego, others, counts, elapsed, with_time, out):
    """Fill each row of `out` with the observation of a state, `elapsed` seconds after its episode began."""
    for i in range(out.shape[0]):
        observe(segments, lanes, view, ego[i], others[i], counts[i], elapsed[i], with_time, out[i])
