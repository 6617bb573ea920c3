"""How a step asks its provider again, at once, for what it has asked for before.

Which problem of a provider an operation is depends on shapes and strides, which are a plan's own:
after the first run it is known, and so is where its operands begin in the arrays that they show.
Between two kernels, whose data fills the caches, the Python that finds it out again takes some
100 us: 2 to 3 % of a training step of ResNet-50 on two threads.
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

#: Where the problem depends on nothing but the layouts of operands. (In bfloat16 a provider may be
#: passed over for what data there is.)
_SETTLED = frozenset((dtypes.float32, dtypes.float64))


class BoundDispatch:
    """What a step asked its provider for, once that is known. ``operands`` are those of the
    problem, in its order."""

    def __init__(self, operands: Sequence[tuple[Value, StridedLayout]]) -> None:
        self._roots = [layout.root for _, layout in operands]
        # In one piece, as threads may share a plan: the problem, and where operands begin.
        self._known: tuple[OpDescriptor, list[int]] | None = None
        self._is_settled = all(value.dtype in _SETTLED for value, _ in operands)

    @property
    def is_known(self) -> bool:
        """Whether it may ``run``."""
        return self._known is not None

    def learn(self, asked: Sequence[DispatchRecord], values: Values, result: Any) -> None:
        """After a run that asked for this, and gave the array ``result``."""
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
        """Compute into the array ``out``, and what is to follow; False where that has to be asked
        for anew."""
        library, known = registry.active_library(), self._known
        if known is None or library is None:
            return False
        descriptor, offsets = known
        held = [values[root] for root in self._roots]  # by a name: not to be written over
        if any(array.__class__ is PrepackedArray for array in held):
            return False
        begin = zip(self._roots, offsets)
        places = [
            *(values.place(root) + offset for root, offset in begin),
            gemm_dispatch.address(out),
        ]
        return gemm_dispatch.launch(library, descriptor, places, follow)
