"""The type of an argument that takes text or substitutions."""

from .substitution import SomeSubstitutionsType

__all__ = ['SomeSubstitutionsType']
