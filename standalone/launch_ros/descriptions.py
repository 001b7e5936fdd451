"""The other name of the parameter descriptions."""

from .parameter_descriptions import Parameter, ParameterFile, ParameterValue

__all__ = ['Parameter', 'ParameterFile', 'ParameterValue']
