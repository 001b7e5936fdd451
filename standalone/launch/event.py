"""The base of everything that can happen during a launch."""


class Event:
    """Something that happened."""

    name = 'launch.Event'
