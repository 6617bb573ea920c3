"""Names the operation in the causes of memory requests (``fl_memory.observe``)."""

from __future__ import annotations

from typing import Any

from fl_memory.causes import CURRENT, Cause
from fl_memory.instrumentation import register_instrumentation
from fl_tensor.dispatch.stack import Operation, Wrapper

__all__ = ["CauseWrapper"]

_NOTHING = Cause()


class CauseWrapper(Wrapper):
    """The outermost operation is named: ``softmax``, not the ``exp`` inside; in a backward pass it
    is the one that is differentiated. The phase is "forward" unless a layer has said another."""

    watches = True

    def call(self, operation: Operation, /, *arguments: Any, **options: Any) -> Any:
        outer = CURRENT.get() or _NOTHING
        if outer.operation:
            return operation.run(*arguments, **options)
        phase = outer.phase or "forward"
        token = CURRENT.set(Cause(operation.name, outer.module, phase, outer.step))
        try:
            return operation.run(*arguments, **options)
        finally:
            CURRENT.reset(token)


register_instrumentation(CauseWrapper)
