"""Substitutions that find packages and what is in them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from launch import LaunchContext, SomeSubstitutionsType, Substitution
from launch.substitutions import SubstitutionFailure
from launch.utilities import normalize_to_list_of_substitutions, perform_substitutions, refuse_unsupported
from ros2_standalone import packages

__all__ = ['ExecutableInPackage', 'FindPackagePrefix', 'FindPackageShare']


class _FindPackage(Substitution):
    """A directory of a package."""

    def __init__(self, package: SomeSubstitutionsType) -> None:
        self.package = normalize_to_list_of_substitutions(package)

    def describe(self) -> str:
        return f"{type(self).__name__}(pkg={' + '.join(part.describe() for part in self.package)})"

    @abstractmethod
    def find(self, package_name: str) -> str:
        """Return the directory."""

    def perform(self, context: LaunchContext) -> str:
        return self.find(perform_substitutions(context, self.package))


class FindPackagePrefix(_FindPackage):
    """Where a package is installed."""

    def find(self, package_name: str) -> str:
        return str(packages.find(package_name).prefix)


class FindPackageShare(_FindPackage):
    """Where a package's launch files, configuration and models are."""

    def find(self, package_name: str) -> str:
        return str(packages.find(package_name).share)


class ExecutableInPackage(Substitution):
    """The path of a package's program."""

    def __init__(self, executable: SomeSubstitutionsType, package: SomeSubstitutionsType) -> None:
        self.executable = normalize_to_list_of_substitutions(executable)
        self.package = normalize_to_list_of_substitutions(package)

    def describe(self) -> str:
        parts = (' + '.join(part.describe() for part in subs) for subs in (self.package, self.executable))
        return 'ExecutableInPkg(pkg={}, exec={})'.format(*parts)

    def perform(self, context: LaunchContext) -> str:
        executable = perform_substitutions(context, self.executable)
        package = packages.find(perform_substitutions(context, self.package))
        for path in package.executables():
            if path.name == executable:
                return str(path)
        raise SubstitutionFailure(
            f"executable '{executable}' not found on the libexec directory '{package.libexec}' ")


def __getattr__(name: str) -> Any:
    refuse_unsupported(__name__, name)
