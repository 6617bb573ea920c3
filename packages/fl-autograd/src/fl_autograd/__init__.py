"""Automatic differentiation over any tensor backend: Variable, tape, one rule per primitive."""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from fl_autograd import bodies as _bodies  # noqa: F401 - registers itself
from fl_autograd._version import __version__
from fl_autograd.anomaly import detect_anomaly
from fl_autograd.casting import as_operation, autocast, is_autocast_enabled
from fl_autograd.check import GradCheckError, check_grads
from fl_autograd.dispatch import tape_for
from fl_autograd.dot import to_dot
from fl_autograd.errors import (
    AnomalyError,
    GradError,
    GraphFreedError,
    MissingRuleError,
    PolicyError,
)
from fl_autograd.functional import grad, value_and_grad
from fl_autograd.gc_pause import large_graph
from fl_autograd.mode import enable_grad, is_grad_enabled, no_grad
from fl_autograd.policy import Policy
from fl_autograd.recompute import checkpoint, is_recomputing
from fl_autograd.rules import NON_DIFFERENTIABLE, RULES
from fl_autograd.sparse import SparseGradient, lookup_rows
from fl_autograd.tape import Tape
from fl_autograd.transforms import hessian, jacobian, jvp, vjp
from fl_autograd.variable import Variable

__all__ = [
    "NON_DIFFERENTIABLE",
    "RULES",
    "AnomalyError",
    "GradCheckError",
    "GradError",
    "GraphFreedError",
    "MissingRuleError",
    "Policy",
    "PolicyError",
    "SparseGradient",
    "Tape",
    "Variable",
    "__version__",
    "as_operation",
    "autocast",
    "check_grads",
    "checkpoint",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "hessian",
    "is_autocast_enabled",
    "is_grad_enabled",
    "is_recomputing",
    "jacobian",
    "jvp",
    "large_graph",
    "lookup_rows",
    "no_grad",
    "tape_for",
    "to_dot",
    "value_and_grad",
    "vjp",
]

if not _TYPE_CHECKING:

    def __getattr__(name: str) -> _Any:
        if name == "RowGradient":
            import warnings

            warnings.warn(
                "fl_autograd.RowGradient is deprecated: use fl_autograd.SparseGradient",
                DeprecationWarning,
                stacklevel=2,
            )
            return SparseGradient
        from pathlib import Path

        from fl_tensor.foreign_names.tables import missing_attribute

        table = Path(__file__).with_name("foreign_names.txt")
        raise missing_attribute(f"module {__name__!r}", name, table)


def __dir__() -> list[str]:
    return sorted(__all__)
