"""The conditions launch files use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .condition import Condition
from .substitution import SomeSubstitutionsType
from .utilities import perform, refuse_unsupported

if TYPE_CHECKING:
    from .launch_context import LaunchContext

__all__ = ['IfCondition', 'InvalidConditionExpressionError', 'UnlessCondition', 'evaluate_condition_expression']

TRUE = ('true', '1')
FALSE = ('false', '0')


class InvalidConditionExpressionError(Exception):
    """A condition that is neither true nor false."""


def evaluate_condition_expression(context: LaunchContext, expression: SomeSubstitutionsType) -> bool:
    """Expand an expression and read it as true or false."""
    text = perform(context, expression).strip().lower()
    if text in TRUE:
        return True
    if text in FALSE:
        return False
    raise InvalidConditionExpressionError(
        f"invalid condition expression, expected one of {[*TRUE, *FALSE]}, got '{text}'")


class IfCondition(Condition):
    """True when the expression expands to 'true' or '1'."""

    def __init__(self, predicate_expression: SomeSubstitutionsType) -> None:
        super().__init__(predicate=lambda context: evaluate_condition_expression(context, predicate_expression))


class UnlessCondition(Condition):
    """True when the expression expands to 'false' or '0'."""

    def __init__(self, predicate_expression: SomeSubstitutionsType) -> None:
        super().__init__(predicate=lambda context: not evaluate_condition_expression(context, predicate_expression))


def __getattr__(name: str) -> Any:
    refuse_unsupported(__name__, name)
