"""A node's parameters as one table: name, default, range and words, declared and enforced in one place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node
from rclpy.parameter import Parameter


@dataclass(frozen=True)
class Row:
    """One parameter. Its type is its default's (a tuple: as many floats); `low` and `high` bound numbers."""

    name: str
    default: Any
    description: str
    unit: str = ''
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    read_only: bool = False

    def descriptor(self) -> ParameterDescriptor:
        """What `ros2 param describe` shows."""
        words = self.description + (f' [{self.unit}]' if self.unit else '')
        descriptor = ParameterDescriptor(name=self.name, description=words, read_only=self.read_only)
        if self.choices:
            descriptor.additional_constraints = 'one of ' + ', '.join(self.choices)
        if self.low is not None and self.high is not None:
            if isinstance(self.default, float):
                descriptor.floating_point_range = [FloatingPointRange(from_value=self.low, to_value=self.high)]
            else:
                descriptor.integer_range = [IntegerRange(from_value=int(self.low), to_value=int(self.high), step=1)]
        return descriptor

    def problem(self, value: Any) -> str:
        """Why a value of the right type cannot be, or ''."""
        if isinstance(value, float) and not math.isfinite(value):
            return f'{self.name}: expected a finite number, got {value}'
        if isinstance(self.default, tuple):
            if len(value) != len(self.default):
                return f'{self.name}: expected {len(self.default)} numbers, got {len(value)}'
            if not all(math.isfinite(item) for item in value):
                return f'{self.name}: expected finite numbers, got {list(value)}'
        if self.choices and value not in self.choices:
            return f'{self.name}: {value!r} is unknown; choose one of {", ".join(self.choices)}'
        return ''


def declare(node: Node, table: Sequence[Row]) -> None:
    """Declare a table's parameters; whole numbers given for floats are taken as floats, at start-up and later."""
    floats = {row.name for row in table if isinstance(row.default, float | tuple)}
    # rclpy throws on an override of another type, and offers no public way to the overrides before declaring.
    overrides = node._parameter_overrides
    for name in floats & overrides.keys():
        overrides[name] = _as_float(overrides[name])
    for row in table:
        default = list(row.default) if isinstance(row.default, tuple) else row.default
        value = node.declare_parameter(row.name, default, row.descriptor()).value
        problem = row.problem(value)
        if problem:
            raise ValueError(problem)
    node.add_pre_set_parameters_callback(
        lambda parameters: [_as_float(p) if p.name in floats else p for p in parameters])


def problem_with(table: Sequence[Row], parameters: Sequence[Parameter]) -> str:
    """The first problem among values about to be set, or ''."""
    rows = {row.name: row for row in table}
    problems = (rows[p.name].problem(p.value) for p in parameters if p.name in rows)
    return next((problem for problem in problems if problem), '')


def _as_float(parameter: Parameter) -> Parameter:
    if parameter.type_ == Parameter.Type.INTEGER:
        return Parameter(parameter.name, Parameter.Type.DOUBLE, float(parameter.value))
    if parameter.type_ == Parameter.Type.INTEGER_ARRAY:
        return Parameter(parameter.name, Parameter.Type.DOUBLE_ARRAY, [float(value) for value in parameter.value])
    return parameter
