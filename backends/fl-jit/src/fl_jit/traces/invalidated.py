"""Operands overwritten by a failed computation, and the values that depend on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from fl_jit.eager.views import strided
from fl_tensor.errors import BackendError
from fl_tensor.extend.numpy import NumpyAdapter

if TYPE_CHECKING:
    from fl_jit.traces.lazy import Lazy
    from fl_jit.traces.recording import Call


class Overwritten(NumpyAdapter):
    """A placeholder of an overwritten leaf: an array of the same shape and dtype, without data."""

    __slots__ = ()

    def __init__(self, leaf: Any) -> None:
        shape = leaf.shape
        like = strided(0, leaf.array.dtype, 0, shape, (0,) * len(shape))
        super().__init__(like, leaf.dtype)


class InvalidatedValue:
    """The state (``Lazy.trace``) of values that cannot be computed any more, because ``x`` is
    overwritten."""

    failed = True

    def __init__(self, x: Overwritten) -> None:
        self._operand = f"{x.dtype}{x.shape}"

    def compute(self, x: Lazy) -> NoReturn:
        """Raise the error."""
        raise BackendError(
            f"[jit] an operand {self._operand} of this computation is gone: the first try to run "
            f"it failed after it had written over it. Make what it was computed from anew, or load "
            f"it: if this was a training step, the parameters, from a checkpoint"
        )


def detach(calls: Sequence[Call], results: list[Lazy | None], leaves: Sequence[Any]) -> None:
    """Sort the ``results`` of a failed computation. Those with an array are finished. Those that
    depend on overwritten operands become ``InvalidatedValue``, and raise an error when they are
    read. Both leave the trace. The rest can be computed again."""
    invalid = {~i: InvalidatedValue(x) for i, x in enumerate(leaves) if x.__class__ is Overwritten}
    for number, (call, x) in enumerate(zip(calls, results, strict=True)):
        lost = next((invalid[i] for i in call.operands if i in invalid), None)
        if lost is not None:
            invalid[number] = lost
        if x is None:
            continue
        if _is_computed(x):
            x.trace = results[number] = None
        elif lost is not None:
            x.trace, results[number] = lost, None


def _is_computed(x: Lazy) -> bool:
    try:
        NumpyAdapter.__dict__["array"].__get__(x)
    except AttributeError:
        return False
    return True
