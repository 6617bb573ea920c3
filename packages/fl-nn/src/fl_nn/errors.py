"""What can go wrong in models, training and checkpoints; every message ends with the way out."""

from __future__ import annotations

from fl_tensor import FlError as FlError


class ModuleError(FlError, ValueError):
    """A module that was built or called with arguments that do not fit."""


class StateDictError(FlError, ValueError):
    """A state dict that does not fit its model or optimizer; lists every difference at once."""


class CheckpointError(FlError, ValueError):
    """A checkpoint file that is missing, damaged, or belongs to something else."""


class TrainingError(FlError, RuntimeError):
    """Training that cannot go on: a loss that is not finite, ranks that disagree."""
