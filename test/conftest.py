"""Fixtures that several test files share."""

from ros_domain import ros

__all__ = ['ros']
