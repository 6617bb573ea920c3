"""Launch of the kernel of a group on arrays."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Set
from typing import Any

from fl_jit.eager.array_layouts import address
from fl_jit.kernels import cpu
from fl_jit.kernels.codegen.batch import Batch
from fl_jit.kernels.codegen.kernel import ALIGNED, Kernel, may_stream
from fl_jit.kernels.native_calls import NativeCall
from fl_jit.passes.horizontal_fusion import together
from fl_jit.passes.schedule import Task
from fl_jit.steps.donation import Values, overwritable
from fl_jit.steps.lower import Lowered, Operand
from fl_jit.steps.native import NativePart, NativeStep
from fl_tensor.extend import cached_property
from fl_tensor.extend.numpy import TO_NUMPY, memory
from fl_tensor.graph import Node, Value, cost


class Launch:
    """The step of a plan that launches one kernel."""

    kind = "kernel"
    nodes: list[Node]
    dying: list[Value]

    def __init__(self, lowered: Lowered) -> None:
        operands = [*lowered.inputs, *lowered.outputs]
        strides = [o.strides for o in operands]
        self.launch = Kernel.of(lowered.program).bind(lowered.sizes, strides)
        self.streamed = None
        written = sum(map(cost.size, (o.root for o in lowered.outputs)))
        if written >= cpu.host().streaming_bytes and may_stream(lowered.program, strides):
            self.streamed = Kernel.of(lowered.program, True).bind(lowered.sizes, strides)
        self.inputs = [(o.root, o.offset * o.root.dtype.itemsize) for o in lowered.inputs]
        self.scalars = lowered.scalars
        self.outputs = [_output(o) for o in lowered.outputs]
        self.roots = [*(o.root for o in operands), *lowered.scalars]
        self.overwritable = overwritable(lowered)
        self.in_place = [root for root, _, _ in self.outputs]

    @cached_property
    def _free(self) -> list[list[Value]]:
        # The roots that each output may overwrite. Which of them die is known when steps are
        # ordered.
        return [[root for root in roots if root in self.dying] for roots in self.overwritable]

    def __call__(self, values: Values) -> None:
        addresses = self.addresses(values, self._free)
        launch = self.launch
        if self.streamed is not None and _are_apart(addresses, len(self.inputs)):
            launch = self.streamed
        launch(addresses, [values[root] for root in self.scalars] if self.scalars else ())

    def addresses(self, values: Values, free: list[list[Value]]) -> list[int]:
        """The addresses of operands and results. Results are allocated here, each in one of the
        roots that are ``free`` for it, if possible."""
        known, addresses = values.addresses, []
        for root, offset in self.inputs:
            base = known.get(root)
            if base is None:
                base = known[root] = address(values[root])
            addresses.append(base + offset)
        for (root, shape, dtype), over in zip(self.outputs, free):
            made = values.take(over, root) if over else None
            if made is None:
                made = memory.empty(shape, dtype)
            values[root] = made
            known[root] = base = address(made)
            addresses.append(base)
            del made  # a named array is referenced, and not overwritten
        return addresses

    def numbers(self, values: Values) -> list[Any]:
        """The scalar arguments of the kernel."""
        return [values[root] for root in self.scalars]

    def native(self, packed: Set[Value]) -> NativeStep:
        """The step as a call on fixed memory."""
        streams = self.streamed is not None and not any(self._free)
        launch = self.streamed if self.streamed is not None and streams else self.launch
        return self.part(launch.bound(), self._free, streams)

    def part(self, call: NativeCall, free: list[list[Value]], streams: bool = False) -> NativeStep:
        """The step as ``call``. Its results may overwrite the roots that are ``free``."""
        written = [root for root, _, _ in self.outputs]
        operands = [*self.inputs, *((root, 0) for root in written)]
        part = NativePart(call, operands, self.scalars, aligned=streams)
        return NativeStep([part], list(zip(written, free, strict=True)))


class HorizontalLaunch:
    """Small independent kernels as one step (``passes.horizontal_fusion``)."""

    kind = "kernel"
    dying: list[Value]

    def __init__(self, steps: list[Launch]) -> None:
        self.steps = steps
        self.batch = Batch([step.launch for step in steps])
        self.nodes = [node for step in steps for node in step.nodes]
        self.roots = list(dict.fromkeys(root for step in steps for root in step.roots))
        self.in_place = [root for step in steps for root in step.in_place]

    @cached_property
    def _free(self) -> list[list[list[Value]]]:
        # As in ``Launch``. Operands of several kernels must stay until all have run.
        readers = Counter(root for step in self.steps for root in {r for r, _ in step.inputs})
        freed = {root for root in self.dying if readers[root] == 1}
        return [[[r for r in roots if r in freed] for roots in s.overwritable] for s in self.steps]

    def native(self, packed: Set[Value]) -> NativeStep:
        """The step as calls on fixed memory."""
        calls = self.batch.bound()
        steps = [s.part(c, f) for s, c, f in zip(self.steps, calls, self._free, strict=True)]
        return NativeStep(
            [part for step in steps for part in step.parts],
            [written for step in steps for written in step.writes],
        )

    def __call__(self, values: Values) -> None:
        self.batch(
            [
                (step.addresses(values, free), step.numbers(values))
                for step, free in zip(self.steps, self._free)
            ]
        )


#: Elements up to which a kernel may run together with others. Larger ones gained nothing: 30 to 40
#: parameters of 300 x 300 to 768 x 768, SGD and AdamW, one thread, alternating: 0.94 to 1.07.
SMALL = 1 << 16


def batch_launches(steps: list[Any], tasks: list[Task]) -> list[Any]:
    """The steps in their order, with small independent kernels merged."""
    groups = together(tasks, lambda number: _is_small(steps[number]))
    return [
        steps[first] if not more else HorizontalLaunch([steps[number] for number in (first, *more)])
        for first, *more in groups
    ]


def _is_small(step: Any) -> bool:
    if not isinstance(step, Launch) or not step.launch.is_simple:
        return False
    shapes = [shape for _, shape, _ in step.outputs] + [root.shape for root, _ in step.inputs]
    return all(math.prod(shape) <= SMALL for shape in shapes)


def _are_apart(addresses: list[int], inputs: int) -> bool:
    # Whether no operand, which is cached, is overwritten, and all results are aligned.
    read, written = addresses[:inputs], addresses[inputs:]
    return not any(a % ALIGNED or a in read for a in written)


def _output(operand: Operand) -> tuple[Value, tuple[int, ...], Any]:
    return operand.root, operand.root.shape, TO_NUMPY[operand.root.dtype]
