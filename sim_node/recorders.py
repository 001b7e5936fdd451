"""That a recorder misses nothing: it is there before the first message and has the last one before its sender ends."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher


class RecorderWatch:
    """Looks for somebody who listens to all of some topics."""

    def __init__(self, node: Node, topics: Sequence[str]) -> None:
        self._node = node
        self._topics = topics
        self._seen = False

    def look(self) -> bool:
        """Whether there is one now and was at the last look: the middleware tells of it just before it connects."""
        listeners = [{(end.node_namespace, end.node_name) for end in self._node.get_subscriptions_info_by_topic(name)}
                     for name in self._topics]
        before, self._seen = self._seen, bool(set.intersection(*listeners))
        return before and self._seen


def wait_until_received(publishers: Iterable[Publisher], seconds: float) -> bool:
    """Wait until all who listen have everything, this long in all: a dead reader never answers."""
    end = time.monotonic() + seconds
    return all(publisher.wait_for_all_acked(Duration(seconds=max(end - time.monotonic(), 0.0)))
               for publisher in publishers)
