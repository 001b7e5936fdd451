"""ros2 launch: run a launch file."""

from __future__ import annotations

import argparse
import os
import sys
import sysconfig

from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import (
    AnyLaunchDescriptionSource,
    get_launch_description_from_python_launch_file,
)

from . import packages


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument('-n', '--noninteractive', default=not sys.stdin.isatty(), action='store_true',
                        help='Run the launch system non-interactively, with no terminal associated')
    parser.add_argument('-d', '--debug', action='store_true',
                        help='Put the launch system in debug mode, provides more verbose output.')
    parser.add_argument('-s', '--show-args', '--show-arguments', action='store_true',
                        help='Show arguments that may be given to the launch file.')
    parser.add_argument('-a', '--show-all-subprocesses-output', action='store_true',
                        help="Show all launched subprocesses' output by overriding their output configuration "
                             'using the OVERRIDE_LAUNCH_PROCESS_OUTPUT envvar.')
    parser.add_argument('--launch-prefix', help='Prefix command, which should go before all executables.')
    parser.add_argument('package_name', help='Name of the ROS package which contains the launch file')
    parser.add_argument('launch_file_name', nargs='?', help='Name of the launch file')
    parser.add_argument('launch_arguments', nargs='*',
                        help="Arguments to the launch file; '<name>:=<value>' (for duplicates, last one wins)")
    parser.set_defaults(main=_launch)


def _launch(args: argparse.Namespace) -> int | None:
    given = list(args.launch_arguments)
    if os.path.isfile(args.package_name):
        path = args.package_name
        if args.launch_file_name is not None:
            given.insert(0, args.launch_file_name)
    else:
        path = _find_launch_file(args.package_name, args.launch_file_name)
    _make_own_programs_known()
    if args.show_all_subprocesses_output:
        os.environ['OVERRIDE_LAUNCH_PROCESS_OUTPUT'] = 'both'
    if args.launch_prefix:
        given.append(f'launch-prefix:={args.launch_prefix}')
    if args.show_args:
        _print_arguments(get_launch_description_from_python_launch_file(path))
        return None
    arguments = _parse_launch_arguments(given)
    service = LaunchService(argv=given, noninteractive=args.noninteractive, debug=args.debug)
    service.include_launch_description(LaunchDescription([
        IncludeLaunchDescription(AnyLaunchDescriptionSource(path), launch_arguments=arguments.items())]))
    return service.run()


def _make_own_programs_known() -> None:
    """Let processes find `ros2` although nobody has activated this environment."""
    own = sysconfig.get_path('scripts')
    path = os.environ.get('PATH', os.defpath)
    if own not in path.split(os.pathsep):
        os.environ['PATH'] = os.pathsep.join([own, path])


def _find_launch_file(package_name: str, file_name: str | None) -> str:
    try:
        package = packages.find(package_name)
    except packages.PackageNotFoundError as problem:
        raise RuntimeError(f"Package '{package_name}' not found: {problem}") from problem
    found = package.find_share_file(file_name) if file_name else []
    if not found:
        raise RuntimeError(f"file '{file_name}' was not found in the share directory of package '{package_name}' "
                           f"which is at '{package.share}'")
    if len(found) > 1:
        listed = ', '.join(f"'{path}'" for path in found)
        raise RuntimeError(f"file '{file_name}' was found more than once in the share directory of package "
                           f"'{package_name}': [{listed}]")
    return str(found[0])


def _parse_launch_arguments(given: list[str]) -> dict[str, str]:
    parsed: dict[str, str] = {}
    for argument in given:
        name, separator, value = argument.partition(':=')
        if not (name and separator and value):
            raise RuntimeError(f"malformed launch argument '{argument}', expected format '<name>:=<value>'")
        parsed[name] = value
    return parsed


def _print_arguments(description: LaunchDescription) -> None:
    print("Arguments (pass arguments as '<name>:=<value>'):")
    arguments = description.get_launch_arguments()
    for argument in arguments:
        print(f"\n    '{argument.name}':{'*' if argument._conditionally_included else ''}\n"
              f'        {argument.description}')
        if argument.default_value is not None:
            print(f"        (default: {' + '.join(part.describe() for part in argument.default_value)})")
    if any(argument._conditionally_included for argument in arguments):
        print('\n* argument(s) which are only used if specific conditions occur')
    if not arguments:
        print('\n  No arguments.')
