"""The base of what a launch description holds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .launch_context import LaunchContext


class LaunchDescriptionEntity:
    """Something a launch visits."""

    def visit(self, context: LaunchContext) -> Sequence[LaunchDescriptionEntity] | None:
        """Do its part; return what to visit next."""
        return None

    def get_asyncio_future(self) -> asyncio.Future[None] | None:
        """Return what is done when this entity is, or None if it already is."""
        return None

    def describe_sub_entities(self) -> Sequence[LaunchDescriptionEntity]:
        """Return what is visited whenever this is, as far as it is known before launching."""
        return []

    def describe_conditional_sub_entities(self) -> Sequence[LaunchDescriptionEntity]:
        """Return what may be visited, depending on conditions."""
        return []
