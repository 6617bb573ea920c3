"""The steps that a program may take."""

from fuzzing.operations import (
    access,
    creation,
    elementwise,
    library,
    mistakes,
    reductions,
    shapes,
)
from fuzzing.operations.registry import next_step as next_step

__all__ = [
    "access",
    "creation",
    "elementwise",
    "library",
    "mistakes",
    "next_step",
    "reductions",
    "shapes",
]
