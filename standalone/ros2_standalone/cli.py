"""The `ros2` command: which commands there are, and how their results become exit codes."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml

NOT_SUPPORTED = 'not supported here, install a ROS 2 distribution'
CALL = 'Call `'     # begins what stands for the name of a command in messages

COMMANDS = {
    'bag': 'Various rosbag related sub-commands',
    'launch': 'Run a launch file',
    'node': 'Various node related sub-commands',
    'param': 'Various param related sub-commands',
    'pkg': 'Various package related sub-commands',
    'run': 'Run a package specific executable',
    'service': 'Various service related sub-commands',
    'topic': 'Various topic related sub-commands',
}

# For this process and those it starts; a profile of the user's own is left alone.
FAST_DDS_PROFILE = ('FASTRTPS_DEFAULT_PROFILES_FILE', str(Path(__file__).with_name('quick_discovery.xml')))

# Returns None or 0 for success, another number, or a message for stderr and exit code 1.
Main = Callable[[argparse.Namespace], 'int | str | None']
Verb = tuple[str, Callable[[argparse.ArgumentParser], None], Main]


class Parser(argparse.ArgumentParser):
    """Says of what it does not know that a distribution may."""

    def error(self, message: str) -> NoReturn:
        if message.startswith(('unrecognized arguments', f'argument {CALL}')):     # options, and commands
            message = f'{message} ({NOT_SUPPORTED})'
        super().error(message)


def add_verbs(parser: argparse.ArgumentParser, verbs: Mapping[str, Verb]) -> None:
    """Give a command its verbs; each is its help, what adds its arguments, and what it does."""
    group = parser.add_subparsers(title='Commands',
                                  metavar=f'{CALL}{parser.prog} <command> -h` for more detailed usage.')
    parser.set_defaults(main=lambda args: parser.print_help())
    for name, (text, add_arguments, main) in verbs.items():
        verb = group.add_parser(name, help=text, description=text)
        add_arguments(verb)
        verb.set_defaults(main=main)


def main(argv: Sequence[str] | None = None) -> Any:
    """Run the command; return what `sys.exit` takes."""
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        return int(signal.SIGINT)
    except BrokenPipeError:
        return 1
    except (RuntimeError, OSError) as problem:
        return str(problem)
    except yaml.YAMLError as problem:
        return f'not YAML: {problem}'


def _run(argv: list[str]) -> Any:
    os.environ.setdefault(*FAST_DDS_PROFILE)
    parser = Parser(prog='ros2', description='ros2 is an extensible command-line tool for ROS 2.')
    parser.add_argument('--use-python-default-buffering', action='store_true',
                        help='Do not force line buffering in stdout')
    commands = parser.add_subparsers(title='Commands', metavar=f'{CALL}ros2 <command> -h` for more detailed usage.')
    asked = next((word for word in argv if not word.startswith('-')), None)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == asked:   # only what is asked for is imported: rclpy alone costs a quarter of a second
            importlib.import_module(f'ros2_standalone.{name}').add_arguments(command)
    args = parser.parse_args(argv)
    if not args.use_python_default_buffering:
        sys.stdout.reconfigure(line_buffering=True)   # type: ignore[union-attr]
    if not hasattr(args, 'main'):
        parser.print_help()
        return 0
    return args.main(args)
