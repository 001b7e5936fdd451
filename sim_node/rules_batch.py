"""The reference rules for a whole batch at once."""

from __future__ import annotations

from sim_node.compiled import compiled, kernel
from sim_node.drivers import follow, safe_speed
from sim_node.observation import conflict_lane, near
from sim_node.roads import arrival, bend_speed_square, new_way, predict_way, project, wrap
from sim_node.rules import approach, clears, gap_is_open, rule

*_, rule = compiled(wrap, project, bend_speed_square, predict_way, arrival, near, conflict_lane, safe_speed, follow,
                    gap_is_open, clears, approach, rule)


def rule_batch(params, segments, lanes, view, ego, others, counts, kind, threshold, out):
    """Fill `out` with the rule's acceleration in every scene."""
    _rule_batch(params, segments, lanes, view, ego, others, counts, kind, threshold, new_way(), out)


@kernel
def _rule_batch(params, segments, lanes, view, ego, others, counts, kind, threshold, way, out):
    for i in range(out.shape[0]):
        out[i] = rule(params[0], segments, lanes, view, ego[i], others[i], counts[i], kind, threshold, way)
