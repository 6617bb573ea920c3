"""A kernel library dispatch bound to a step, repeated without finding its descriptor again.

The descriptor of an operation depends on shapes and strides, which are fixed in a plan. After the
first run the descriptor is known, and so are the offsets of its operands in their root arrays.
Between two kernels, whose data fills the caches, the Python code that finds it again takes some 100
us. That is 2 to 3 % of a training step of ResNet-50 on two threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fl_jit.eager import gemm_dispatch
from fl_jit.eager.dispatch_recorder import DispatchRecord
from fl_jit.eager.prepacked import PrepackedArray
from fl_jit.kernels import registry
from fl_jit.kernels.descriptors import OpDescriptor
from fl_jit.steps.donation import Values
from fl_tensor import dtypes
from fl_tensor.graph import Value
from fl_tensor.graph.strides import StridedLayout

#: The dtypes whose descriptor depends only on the layouts of operands. (In bfloat16 the data may
#: exclude a kernel library.)
_SETTLED = frozenset((dtypes.float32, dtypes.float64))


class BoundDispatch:
    """The dispatch of a step, once it is known. ``operands`` are those of the descriptor, in its
    order."""

    def __init__(self, operands: Sequence[tuple[Value, StridedLayout]]) -> None:
        self._roots = [layout.root for _, layout in operands]
        # One attribute, set atomically, as threads may share a plan: descriptor and operand
        # offsets.
        self._known: tuple[OpDescriptor, list[int]] | None = None
        self._is_settled = all(value.dtype in _SETTLED for value, _ in operands)

    @property
    def is_known(self) -> bool:
        """Whether ``run`` may be called."""
        return self._known is not None

    def learn(self, asked: Sequence[DispatchRecord], values: Values, result: Any) -> None:
        """Bind the dispatch of a run that recorded ``asked`` and returned the array ``result``."""
        roots = [values[root] for root in self._roots]
        if (
            len(asked) != 1
            or not self._is_settled
            or any(r.__class__ is PrepackedArray for r in roots)
        ):
            return
        offsets = asked[0].offsets([*roots, result])
        if offsets is not None and offsets.pop() == 0:
            self._known = asked[0].descriptor, offsets

    def run(
        self, values: Values, out: Any, follow: gemm_dispatch.EpilogueRequest | None = None
    ) -> bool:
        """Compute into the array ``out``, with the epilogue ``follow``. False where the dispatch
        has to be repeated."""
        library, known = registry.active_library(), self._known
        if known is None or library is None:
            return False
        descriptor, offsets = known
        held = [values[root] for root in self._roots]  # a second reference: not to be overwritten
        if any(array.__class__ is PrepackedArray for array in held):
            return False
        begin = zip(self._roots, offsets)
        places = [
            *(values.place(root) + offset for root, offset in begin),
            gemm_dispatch.address(out),
        ]
        return gemm_dispatch.launch(library, descriptor, places, follow)
