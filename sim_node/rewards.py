"""What an episode pays when it ends. Plain Python: the stepper and the bag reader share it."""

from __future__ import annotations

import math

from sim_node.state import COLLISION, SUCCESS


def episode_reward(outcome, steps, success, bonus, decay, collision, timeout):
    """The paper's reward: success decays with the steps it took, a collision costs, a time-out pays nothing."""
    if outcome == SUCCESS:
        return success * math.exp(-steps / decay) + bonus
    if outcome == COLLISION:
        return collision
    return timeout
