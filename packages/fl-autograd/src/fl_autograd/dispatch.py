"""Which namespace of operations computes for variables of a backend in this context.

It is the tape of the backend; a recorder may choose another one, and ``autocast`` puts casts before
its operations.
"""

from __future__ import annotations

from typing import Any

from fl_autograd.mode import RecorderStack, recording
from fl_tensor.dtypes import DType
from fl_tensor.extend import Layer, active, current_stack


class CastLayer(Layer):
    """What ``autocast`` is to variables: a layer that replaces no operation and casts operands."""

    def over(self, base: Any) -> Any:
        """The namespace that computes for variables of a backend inside the block."""
        raise NotImplementedError

    def promoted(self, base: Any, operation: str, dtype: DType) -> DType:
        """The dtype to which operands are converted that would be promoted to ``dtype``."""
        raise NotImplementedError


class _Tapes(dict[Any, Any]):
    """The tape of each backend, made on first use."""

    def __missing__(self, base: Any) -> Any:
        from fl_autograd.tape import Tape  # makes variables, which look here for their namespace

        return self.setdefault(base, Tape(base))


_TAPES = _Tapes()


def own_tape(base: Any) -> Any:
    """The tape of a backend, whatever recorders have chosen."""
    return _TAPES[base]


def tape_for(base: Any) -> Any:
    """The namespace that computes for variables on a backend: its tape, one per backend, unless a
    recorder (``extend.Recorder``) has chosen another one for this context."""
    mode = recording()
    if isinstance(mode, RecorderStack) and mode.tape_for is not None:
        return mode.tape_for(base)
    return _TAPES[base]


def cast_layer() -> CastLayer | None:
    """The innermost ``autocast`` block of this context."""
    return None if current_stack() is None else next(active(CastLayer), None)


def namespace_for(base: Any) -> Any:
    """``tape_for(base)``, with casts before its operations inside an ``autocast`` block."""
    layer = cast_layer()
    return tape_for(base) if layer is None else layer.over(base)


def promoted_dtype(base: Any, operation: str, dtype: DType) -> DType:
    """The dtype to which operands are converted that would be promoted to ``dtype``."""
    layer = cast_layer()
    return dtype if layer is None else layer.promoted(base, operation, dtype)
