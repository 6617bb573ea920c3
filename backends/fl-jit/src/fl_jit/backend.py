"""The ``jit`` backend: deferred execution of NumPy and kernel libraries (``eager/backend.py``).

Deferred operations are elementwise operations, reductions, shape changes, contractions and random
bits on sufficiently large arrays. Everything else runs eagerly. Shapes and dtypes are inferred and
validated when an operation is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fl_jit.deferred.contractions import DeferredContractions
from fl_jit.deferred.elementwise import DeferredElementwise
from fl_jit.deferred.shape_ops import DeferredShapeOps
from fl_jit.traces.template import PLAIN, Templates
from fl_tensor import CPU
from fl_tensor.extend import cached_property
from fl_tensor.graph import Graph


class JitBackend(DeferredElementwise, DeferredShapeOps, DeferredContractions):
    """NumPy's arithmetic with deferred execution."""

    CONTRACT = (1, 1)
    name = "jit"

    def prepare(self, graph: Graph, names: Sequence[str]) -> Callable[..., Any] | None:
        """A captured graph as one plan (``ft.compile``)."""
        from fl_jit.planning import static

        return static.prepare(self.eager, graph, names)

    @cached_property
    def _templates(self) -> Templates:
        return Templates(lambda value, dtype: self.scalar(value, dtype, CPU))

    def call_composition(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """``function(self, *arguments)``. Where it would be deferred, a recorded template replaces
        the call of ``function``."""
        operands = [x for x in arguments if x.__class__ not in PLAIN]
        if self._should_defer(*operands):
            template = self._templates.of(function, arguments)
            if template is not None:
                return self._pending.replay(template, operands)
        return function(self, *arguments)
