"""What can stand where a launch file needs text that is known only at launch time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .launch_context import LaunchContext


class Substitution(ABC):
    """Text that is worked out when the launch runs."""

    def describe(self) -> str:
        """Say what this would become, without a launch to ask."""
        return repr(self)

    @abstractmethod
    def perform(self, context: LaunchContext) -> str:
        """Return the text."""


class TextSubstitution(Substitution):
    """Text that is known already."""

    def __init__(self, *, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(
                f"TextSubstitution expected 'text' object to be of type 'str', got '{type(text).__name__}'")
        self.text = text

    def describe(self) -> str:
        return f"'{self.text}'"

    def perform(self, context: LaunchContext) -> str:
        return self.text


SomeSubstitutionsType = str | Substitution | Iterable[str | Substitution]
