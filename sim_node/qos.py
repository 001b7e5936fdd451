"""How the topics of both nodes are delivered."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

# A publisher of depth 1 would lose messages to a recorder that stalls.
KEEP_ALL = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE)
# In the control loop only the newest counts.
NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
# Whoever joins late still gets what was said before.
LATCHED = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
# As every node publishes /diagnostics.
DIAGNOSTICS = QoSProfile(depth=10)
