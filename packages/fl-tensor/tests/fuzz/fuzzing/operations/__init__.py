"""The steps that a program may take."""

from fuzzing.operations import access, elementwise, library, reductions, shapes
from fuzzing.operations.registry import next_step as next_step

__all__ = ["access", "elementwise", "library", "next_step", "reductions", "shapes"]
