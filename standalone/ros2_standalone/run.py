"""ros2 run: run a package's program."""

from __future__ import annotations

import argparse
import os
import shlex

from . import packages


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument('--prefix', help='Prefix command, which should go before the executable. '
                                         'Command must be wrapped in quotes if it contains spaces '
                                         "(e.g. --prefix 'gdb -ex run --args').")
    parser.add_argument('package_name', help='Name of the ROS package')
    parser.add_argument('executable_name', help='Name of the executable')
    parser.add_argument('argv', nargs=argparse.REMAINDER, help='Pass arbitrary arguments to the executable')
    parser.set_defaults(main=_run)


def _run(args: argparse.Namespace) -> str | None:
    try:
        package = packages.find(args.package_name)
    except packages.PackageNotFoundError:
        return f"Package '{args.package_name}' not found"
    for path in package.executables():
        if path.name == args.executable_name:
            cmd = [*shlex.split(args.prefix or ''), str(path), *args.argv]
            # In place of this process: its signals, its terminal and its exit code are the program's own.
            os.execvp(cmd[0], cmd)
    return 'No executable found'
