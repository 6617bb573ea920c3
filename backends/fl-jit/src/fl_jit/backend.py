"""``jit``: NumPy and kernel libraries (``eager.py``), deferred.

Elementwise operations, reductions, changes of shape, contractions and random bits on arrays that
are large enough are put off; everything else runs at once. Shapes and dtypes are known, and wrong
ones refused, when an operation is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fl_jit.deferred.contractions import DeferredContractions
from fl_jit.deferred.elementwise import DeferredElementwise
from fl_jit.deferred.shape_ops import DeferredShapeOps
from fl_jit.traces.template import PLAIN, Templates
from fl_tensor import CPU
from fl_tensor.cached import cached_property


class JitBackend(DeferredElementwise, DeferredShapeOps, DeferredContractions):
    """NumPy's arithmetic, put off until somebody looks."""

    CONTRACT = (1, 1)
    name = "jit"

    @cached_property
    def _templates(self) -> Templates:
        return Templates(lambda value, dtype: self.scalar(value, dtype, CPU))

    def call_composition(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """``function(self, *arguments)``; where it would be deferred, without running it."""
        operands = [x for x in arguments if x.__class__ not in PLAIN]
        if self._should_defer(*operands):
            template = self._templates.of(function, arguments)
            if template is not None:
                return self._pending.replay(template, operands)
        return function(self, *arguments)
