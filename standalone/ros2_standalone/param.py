"""ros2 param: the parameters of nodes."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

import yaml
from rcl_interfaces.msg import Parameter, ParameterType
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters, SetParameters
from rclpy.node import Node
from rclpy.parameter import get_parameter_value, parameter_dict_from_yaml_file, parameter_value_to_python

from . import graph
from .cli import add_verbs

TYPES = {
    ParameterType.PARAMETER_NOT_SET: ('not set', 'Parameter not set.'),
    ParameterType.PARAMETER_BOOL: ('boolean', 'Boolean value is:'),
    ParameterType.PARAMETER_INTEGER: ('integer', 'Integer value is:'),
    ParameterType.PARAMETER_DOUBLE: ('double', 'Double value is:'),
    ParameterType.PARAMETER_STRING: ('string', 'String value is:'),
    ParameterType.PARAMETER_BYTE_ARRAY: ('byte array', 'Byte values are:'),
    ParameterType.PARAMETER_BOOL_ARRAY: ('boolean array', 'Boolean values are:'),
    ParameterType.PARAMETER_INTEGER_ARRAY: ('integer array', 'Integer values are:'),
    ParameterType.PARAMETER_DOUBLE_ARRAY: ('double array', 'Double values are:'),
    ParameterType.PARAMETER_STRING_ARRAY: ('string array', 'String values are:'),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    add_verbs(parser, {
        'describe': ('Show descriptive information about declared parameters', _describe_arguments, _describe),
        'dump': ('Show all of the parameters of a node in a YAML file format', _node_arguments, _dump),
        'get': ('Get parameter', _get_arguments, _get),
        'list': ('Output a list of available parameters', _list_arguments, _list),
        'load': ('Load parameter file for a node', _load_arguments, _load),
        'set': ('Set parameter', _set_arguments, _set),
    })


def _node_arguments(parser: argparse.ArgumentParser) -> None:
    graph.add_arguments(parser)
    parser.add_argument('node_name', help='Name of the ROS node')
    parser.add_argument('--include-hidden-nodes', action='store_true', help='Consider hidden nodes as well')
    parser.add_argument('--timeout', metavar='N', type=int, default=1,
                        help='Wait for N seconds until node becomes available (default %(default)s sec)')


def _names_of(node: Node, full_name: str, prefixes: list[str]) -> list[str]:
    request = ListParameters.Request(prefixes=prefixes)
    return sorted(graph.call(node, ListParameters, f'{full_name}/list_parameters', request).result.names)


def _values_of(node: Node, full_name: str, names: list[str]) -> Any:
    return graph.call(node, GetParameters, f'{full_name}/get_parameters', GetParameters.Request(names=names)).values


def _descriptors_of(node: Node, full_name: str, names: list[str]) -> Any:
    request = DescribeParameters.Request(names=names)
    return graph.call(node, DescribeParameters, f'{full_name}/describe_parameters', request).descriptors


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    graph.add_arguments(parser)
    parser.add_argument('node_name', nargs='?', help='Name of the ROS node')
    parser.add_argument('--include-hidden-nodes', action='store_true', help='Consider hidden nodes as well')
    parser.add_argument('--filter', nargs=1, help='Only parameters matching the regex expression will be showed.')
    parser.add_argument('--param-prefixes', nargs='+', default=[],
                        help='Only list parameters with the provided prefixes')
    parser.add_argument('--param-type', action='store_true', help='Print parameter types with parameter names')


def _list(args: argparse.Namespace) -> str | None:
    wanted = re.compile(args.filter[0]) if args.filter else None
    with graph.node_of(args) as node:
        if args.node_name:
            name = graph.absolute(args.node_name)
            if not graph.wait_until(lambda: name in graph.node_names(node, args.include_hidden_nodes), graph.LATE):
                return 'Node not found'
            full_names = [name]
        else:
            graph.discover(node, args)
            full_names = graph.node_names(node, args.include_hidden_nodes)
        for full_name in full_names:
            try:
                names = _names_of(node, full_name, args.param_prefixes)
            except RuntimeError as problem:   # a node may have no parameters; the others are listed all the same
                print(problem)
                continue
            names = [name for name in names if wanted is None or wanted.match(name)]
            if names and not args.node_name:
                print(f'{full_name}:')
            types = _descriptors_of(node, full_name, names) if args.param_type else []
            for index, name in enumerate(names):
                print(f'  {name} (type: {TYPES[types[index].type][0]})' if args.param_type else f'  {name}')
    return None


def _get_arguments(parser: argparse.ArgumentParser) -> None:
    _node_arguments(parser)
    parser.add_argument('parameter_name', help='Name of the parameter')
    parser.add_argument('--hide-type', action='store_true', help='Hide the type information')


def _get(args: argparse.Namespace) -> str | None:
    with graph.node_of(args) as node:
        values = _values_of(node, graph.wait_for_node(node, args, GetParameters), [args.parameter_name])
    if not values:
        return 'Parameter not set'
    value = parameter_value_to_python(values[0])
    label = TYPES[values[0].type][1]
    if args.hide_type:
        print(value)
    else:
        print(label) if value is None else print(label, value)
    return None


def _set_arguments(parser: argparse.ArgumentParser) -> None:
    _node_arguments(parser)
    parser.add_argument('parameter_name', help='Name of the parameter')
    parser.add_argument('value', help='Value of the parameter')


def _set(args: argparse.Namespace) -> None:
    parameter = Parameter(name=args.parameter_name, value=get_parameter_value(args.value))
    with graph.node_of(args) as node:
        [result] = _set_parameters(node, graph.wait_for_node(node, args, SetParameters), [parameter])
    reason = f': {result.reason}' if result.reason else ''
    if result.successful:
        print(f'Set parameter successful{reason}')
    else:
        print(f'Setting parameter failed{reason}', file=sys.stderr)


def _set_parameters(node: Node, full_name: str, parameters: list[Parameter]) -> Any:
    request = SetParameters.Request(parameters=parameters)
    return graph.call(node, SetParameters, f'{full_name}/set_parameters', request).results


def _describe_arguments(parser: argparse.ArgumentParser) -> None:
    _node_arguments(parser)
    parser.add_argument('parameter_names', nargs='+', help='Names of the parameters')


def _describe(args: argparse.Namespace) -> None:
    with graph.node_of(args) as node:
        descriptors = _descriptors_of(node, graph.wait_for_node(node, args, DescribeParameters), args.parameter_names)
    for descriptor in descriptors:
        print('Parameter name:', descriptor.name)
        print('  Type:', TYPES[descriptor.type][0])
        if descriptor.description:
            print('  Description:', descriptor.description)
        print('  Constraints:')
        if descriptor.read_only:
            print('    Read only: true')
        for bounds in [*descriptor.floating_point_range, *descriptor.integer_range][:1]:
            print('    Min value:', bounds.from_value)
            print('    Max value:', bounds.to_value)
            if bounds.step:
                print('    Step:', bounds.step)
        if descriptor.additional_constraints:
            print('    Additional constraints:', descriptor.additional_constraints)


def _dump(args: argparse.Namespace) -> None:
    with graph.node_of(args) as node:
        full_name = graph.wait_for_node(node, args, ListParameters, GetParameters)
        names = _names_of(node, full_name, [])
        values = _values_of(node, full_name, names)
    tree: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        *groups, leaf = name.split('.')
        branch = tree
        for group in groups:
            branch = branch.setdefault(group, {})
        branch[leaf] = parameter_value_to_python(value)
    print(yaml.dump({full_name: {'ros__parameters': tree}}, default_flow_style=False))


def _load_arguments(parser: argparse.ArgumentParser) -> None:
    _node_arguments(parser)
    parser.add_argument('parameter_file', help='Parameter file')
    parser.add_argument('--no-use-wildcard', action='store_true',
                        help="Do not load parameters in the '/**' namespace into the node")


def _load(args: argparse.Namespace) -> None:
    with graph.node_of(args) as node:
        full_name = graph.wait_for_node(node, args, SetParameters)
        # Whichever node a section of the file names: so does the real command.
        parameters = list(parameter_dict_from_yaml_file(args.parameter_file, not args.no_use_wildcard).values())
        results = _set_parameters(node, full_name, parameters)
    for parameter, result in zip(parameters, results, strict=True):
        reason = f': {result.reason}' if result.reason else ''
        if result.successful:
            print(f'Set parameter {parameter.name} successful{reason}')
        else:
            print(f'Set parameter {parameter.name} failed{reason}', file=sys.stderr)
