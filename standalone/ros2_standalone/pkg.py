"""ros2 pkg: what packages there are and what is in them."""

from __future__ import annotations

import argparse

from . import packages
from .cli import add_verbs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    add_verbs(parser, {
        'executables': ('Output a list of package specific executables', _executables_arguments, _executables),
        'list': ('Output a list of available packages', lambda parser: None, _list),
        'prefix': ('Output the prefix path of a package', _prefix_arguments, _prefix),
    })


def _list(args: argparse.Namespace) -> None:
    print(*packages.names(), sep='\n')


def _prefix_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('package_name', help='The package name')
    parser.add_argument('--share', action='store_true', help='Show share directory for the package')


def _prefix(args: argparse.Namespace) -> str | None:
    try:
        package = packages.find(args.package_name)
    except packages.PackageNotFoundError:
        return 'Package not found'
    print(package.share if args.share else package.prefix)
    return None


def _executables_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('package_name', nargs='?', help='The package name')
    parser.add_argument('--full-path', action='store_true', help='Show full path of each executable')


def _executables(args: argparse.Namespace) -> str | None:
    for name in packages.names() if args.package_name is None else [args.package_name]:
        try:
            package = packages.find(name)
        except packages.PackageNotFoundError:
            return f"Package '{name}' not found"
        for path in package.executables():
            print(path if args.full_path else f'{name} {path.name}')
    return None
