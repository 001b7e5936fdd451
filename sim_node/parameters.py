"""A node's parameters as one table: name, default, range and words, declared and enforced in one place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import ParameterException
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


def declare(node: Node, table: Sequence[Row]) -> dict[str, Any]:
    """Declare a table's parameters and give their values; whole numbers are taken where floats are wanted."""
    # rclpy throws on an override of another type, and offers no public way to the overrides before declaring.
    overrides = node._parameter_overrides
    for name in _floats(table) & overrides.keys():
        overrides[name] = _as_float(overrides[name])
    values = {}
    for row in table:
        default = list(row.default) if isinstance(row.default, tuple) else row.default
        try:
            values[row.name] = node.declare_parameter(row.name, default, row.descriptor()).value
        except ParameterException as error:
            raise ValueError(str(error)) from None
        problem = row.problem(values[row.name])
        if problem:
            raise ValueError(problem)
    for name in overrides:
        if not node.has_parameter(name) and not name.startswith('qos_overrides.'):
            node.get_logger().warning(f'parameter {name} is not one of {node.get_fully_qualified_name()}: left alone')
    return values


def follow(node: Node, table: Sequence[Row], values: dict[str, Any], problem: Callable[[dict[str, Any]], str],
           apply: Callable[[dict[str, Any]], None]) -> None:
    """Keep `values` current from now on.

    `problem` says why changed values cannot be, or ''; `apply` puts them to use once they are set.
    """
    floats, rows = _floats(table), {row.name: row for row in table}

    def validate(parameters: list[Parameter]) -> SetParametersResult:
        changed = _changed(rows, parameters)
        reasons = (rows[name].problem(value) for name, value in changed.items())
        reason = next((reason for reason in reasons if reason), '') or problem(changed)
        return SetParametersResult(successful=not reason, reason=reason)

    def take(parameters: list[Parameter]) -> None:
        changed = _changed(rows, parameters)
        values.update(changed)
        apply(changed)

    node.add_pre_set_parameters_callback(
        lambda parameters: [_as_float(p) if p.name in floats else p for p in parameters])
    node.add_on_set_parameters_callback(validate)
    node.add_post_set_parameters_callback(take)


def _changed(rows: dict[str, Row], parameters: Sequence[Parameter]) -> dict[str, Any]:
    return {parameter.name: parameter.value for parameter in parameters if parameter.name in rows}


def _floats(table: Sequence[Row]) -> set[str]:
    return {row.name for row in table if isinstance(row.default, float | tuple)}


def _as_float(parameter: Parameter) -> Parameter:
    if parameter.type_ == Parameter.Type.INTEGER:
        return Parameter(parameter.name, Parameter.Type.DOUBLE, float(parameter.value))
    if parameter.type_ == Parameter.Type.INTEGER_ARRAY:
        return Parameter(parameter.name, Parameter.Type.DOUBLE_ARRAY, [float(value) for value in parameter.value])
    return parameter
