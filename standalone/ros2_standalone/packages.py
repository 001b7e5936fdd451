"""Finds packages: in the ament index, and among what pip has installed, from a wheel or from a checkout."""

from __future__ import annotations

import functools
import json
import os
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlparse
from xml.etree import ElementTree

INDEX = Path('share', 'ament_index', 'resource_index', 'packages')


class PackageNotFoundError(RuntimeError):
    """No package of this name."""


@dataclass(frozen=True)
class Package:
    """Where a package is."""

    name: str
    prefix: Path
    share: Path                                  # launch files, configuration, models
    scripts: tuple[Path, ...] = field(default=())   # programs that pip put among those of the environment
    checkout: bool = False                       # `share` is a source tree, with much else in it

    @property
    def libexec(self) -> Path:
        """Where ament puts a package's programs."""
        return self.prefix / 'lib' / self.name

    def executables(self) -> list[Path]:
        """Return the package's programs."""
        found = [Path(root, name) for root, _, names in os.walk(self.libexec) for name in names
                 if os.access(os.path.join(root, name), os.X_OK)]
        return sorted({path.name: path for path in [*self.scripts, *found]}.values())

    def find_share_file(self, file_name: str) -> list[Path]:
        """Return every file of this name in the share directory."""
        # A checkout also holds builds and environments, with copies of the same file in them.
        root = self.share / 'launch' if self.checkout else self.share
        return sorted(Path(where, file_name) for where, _, names in os.walk(root) if file_name in names)


def prefixes() -> list[Path]:
    """Return where ament packages may be, the first to be preferred."""
    given = [Path(path) for path in os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep) if path]
    return [*given, *([] if Path(sys.prefix) in given else [Path(sys.prefix)])]


@functools.cache
def find(name: str) -> Package:
    """Return the package of this name."""
    for prefix in prefixes():
        if (prefix / INDEX / name).is_file():
            return Package(name, prefix, prefix / 'share' / name, _scripts(_distribution(name), prefix))
    for package in _installed_by_pip(name):
        if package.name == name:
            return package
    searched = ', '.join(f"'{prefix}'" for prefix in prefixes())
    raise PackageNotFoundError(f"package '{name}' not found, searching: [{searched}]")


def names() -> list[str]:
    """Return the names of all packages."""
    indexed = {path.name for prefix in prefixes() if (prefix / INDEX).is_dir() for path in (prefix / INDEX).iterdir()}
    return sorted(indexed | {package.name for package in _installed_by_pip()})


def _distribution(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def _installed_by_pip(first: str | None = None) -> Iterator[Package]:
    """Yield the packages among the distributions; the one called `first` first, since looking at all is slow."""
    by_name = _distribution(first) if first else None
    if by_name is not None:
        yield from _package_of(by_name)
    for distribution in metadata.distributions():
        yield from _package_of(distribution)


def _package_of(distribution: metadata.Distribution) -> Iterator[Package]:
    """Yield the ROS package in a checkout that pip has installed in editable mode, if there is one."""
    origin = json.loads(distribution.read_text('direct_url.json') or '{}')
    if not origin.get('dir_info', {}).get('editable'):
        return
    root = Path(unquote(urlparse(origin['url']).path))
    manifest = root / 'package.xml'
    if manifest.is_file():
        name = (ElementTree.parse(manifest).findtext('name') or '').strip()
        prefix = Path(sys.prefix)
        yield Package(name, prefix, root, _scripts(distribution, prefix), checkout=True)


def _scripts(distribution: metadata.Distribution | None, prefix: Path) -> tuple[Path, ...]:
    if distribution is None or prefix != Path(sys.prefix):
        return ()
    folder = Path(sysconfig.get_path('scripts'))
    return tuple(folder / entry.name for entry in distribution.entry_points if entry.group == 'console_scripts')
