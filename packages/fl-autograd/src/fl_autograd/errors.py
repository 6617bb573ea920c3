"""Errors of differentiation. All are ``FlError`` and ``RuntimeError``."""

from __future__ import annotations

from fl_tensor.errors import FlError as FlError
from fl_tensor.errors import NonFiniteError


class GradError(FlError, RuntimeError):
    """A gradient that cannot be computed as asked."""


class GraphFreedError(GradError):
    """The graph behind a variable was freed by an earlier backward pass."""


class AnomalyError(GradError, NonFiniteError):
    """A backward pass under ``detect_anomaly`` gave a NaN."""


class PolicyError(FlError, ValueError):
    """A precision policy with a level, an operation or a dtype that does not exist."""


class MissingRuleError(GradError, NotImplementedError):
    """An operation without a gradient rule was applied to a variable that needs a gradient."""
