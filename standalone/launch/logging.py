"""Where a launch says what it does: the screen, and launch.log in a directory of its own."""

from __future__ import annotations

import datetime
import functools
import logging
import os
import socket
import sys

SCREEN_FORMAT = '[{levelname}] [{name}]: {message}'
FILE_FORMAT = '{created:.7f} [{levelname}] [{name}]: {message}'
PROCESS_FILE_FORMAT = '{created:.7f} {message}'

# Where each stream of a process goes, by the value of its `output` argument.
OUTPUTS = {
    'screen': {'stdout': {'screen'}, 'stderr': {'screen'}},
    'log': {'stdout': {'log'}, 'stderr': {'log', 'screen'}},
    'both': {'stdout': {'log', 'screen'}, 'stderr': {'log', 'screen'}},
}


@functools.cache
def log_dir() -> str:
    """Make the directory of this launch's log, once."""
    base = os.environ.get('ROS_LOG_DIR') or os.path.join(os.environ.get('ROS_HOME') or '~/.ros', 'log')
    stamp = datetime.datetime.now().strftime('%Y-%m-%d-%H-%M-%S-%f')
    path = os.path.join(os.path.expanduser(base), f'{stamp}-{socket.gethostname()}-{os.getpid()}')
    os.makedirs(path, exist_ok=True)
    return path


def _screen(fmt: str) -> logging.Handler:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter(fmt, style='{'))
    return handler


def _file(fmt: str) -> logging.Handler:
    handler = logging.FileHandler(os.path.join(log_dir(), 'launch.log'), delay=True)
    handler.setFormatter(logging.Formatter(fmt, style='{'))
    return handler


def _logger(name: str, handlers: list[logging.Handler]) -> logging.Logger:
    # Not logging.getLogger: a launch file's own use of `logging` must not meet these handlers.
    logger = logging.Logger(name)
    for handler in handlers:
        logger.addHandler(handler)
    return logger


@functools.cache
def get_logger(name: str = 'launch') -> logging.Logger:
    """Return a logger that writes to the screen and to launch.log."""
    return _logger(name, [_screen(SCREEN_FORMAT), _file(FILE_FORMAT)])


def get_output_loggers(process_name: str, output: str) -> tuple[logging.Logger, logging.Logger]:
    """Return the loggers of a process's stdout and stderr, for `output` being 'screen', 'log' or 'both'."""
    if output not in OUTPUTS:
        raise ValueError(f'{output} is not a valid standard output config i.e. "screen", "log" or "both"')

    def stream_logger(stream: str) -> logging.Logger:
        destinations = OUTPUTS[output][stream]
        return _logger(f'{process_name}-{stream}', [
            *([_screen('{message}')] if 'screen' in destinations else []),
            *([_file(PROCESS_FILE_FORMAT)] if 'log' in destinations else [])])

    return stream_logger('stdout'), stream_logger('stderr')
