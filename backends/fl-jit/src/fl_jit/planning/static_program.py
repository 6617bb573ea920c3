"""A plan on fixed memory: its launches are prepared once, and one call runs many of them.

A plan finds addresses, allocates results and calls each kernel from Python at every run. A compiled
training step runs the same plan on the same parameters again and again. So intermediate results get
fixed places in one block, parameters are overwritten in place, and arguments of
kernels are written once. At a call, only the arguments change whose arrays or numbers have changed.

Steps that NumPy computes run between the native ones; their results are new arrays each time.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from fl_jit.eager import blas
from fl_jit.eager.array_layouts import address
from fl_jit.eager.views import strides_of
from fl_jit.extensions import registry as extensions
from fl_jit.kernels import registry
from fl_jit.kernels.codegen import threads
from fl_jit.kernels.library import KernelLibrary
from fl_jit.kernels.native_calls import NativeCalls
from fl_jit.planning.call_arguments import Call, CallArguments
from fl_jit.planning.static_places import ALIGNMENT, Places, is_writable
from fl_jit.reports import observers
from fl_jit.steps.donation import Values, donated
from fl_jit.steps.indexing import Scatter
from fl_jit.steps.native import NativeStep
from fl_jit.traces.invalidated import Overwritten
from fl_jit.traces.lazy import Stream
from fl_jit.traces.prepacked import PrepackedArray
from fl_memory.causes import observed
from fl_tensor.extend import count_if_alone, getrefcount
from fl_tensor.extend.numpy import TO_NUMPY, Number, memory
from fl_tensor.graph import Value, interrupts

if TYPE_CHECKING:
    from fl_jit.planning.plan import Plan, Step


def made(plan: Plan, leaves: list[Any]) -> StaticProgram | None:
    """The program of a plan. None where a step updates rows of an input, which the plan itself does
    in place."""
    inputs = {values[0] for values in plan.inputs}
    for step in plan.steps:
        if isinstance(step, Scatter) and not inputs.isdisjoint(step.in_place_roots):
            return None
    return StaticProgram(plan, leaves)


class StaticProgram:
    """See the module. It is made for the layouts of ``leaves``, and for those of them that may be
    overwritten or that are prepacked. ``run`` returns False for others."""

    def __init__(self, plan: Plan, leaves: list[Any]) -> None:
        self._may_overwrite = donated(leaves)  # first: a variable would be another reference
        # Eager code before may have held some of the first leaves.
        self._early_runs, self._is_stale = 3, False
        self._plan = plan
        self._lock = threading.Lock()
        self._environment = _environment()
        self._values = Values(plan.constants)
        packed = set()
        for leaf, (value, _, prepack) in zip(leaves, plan._leaves, strict=True):
            if prepack is not None and prepack(leaf).__class__ is PrepackedArray:
                packed.add(value)
        self._packed = packed
        self._strides = {
            value: strides_of(leaf.array)
            for leaf, (value, is_number, _) in zip(leaves, plan._leaves, strict=True)
            if not is_number
        }
        self._arrays: dict[Value, Callable[[], Any]] = {}
        self._build(plan, leaves, packed)

    # ---- building ----------------------------------------------------------------------------

    def _build(self, plan: Plan, leaves: list[Any], packed: set[Value]) -> None:
        native = [_native(step, packed) for step in plan.steps]
        places = Places(plan, leaves, self._may_overwrite, native)
        self._fresh = places.fresh
        #: Results that take the memory of an input.
        self._in_place = places.in_place
        self._overwrites = set(places.in_place.values())
        calls_of_steps = [[] if step is None else list(map(Call, step.parts)) for step in native]
        calls = [call for of_step in calls_of_steps for call in of_step]
        scratch = max((call.part.call.nbytes for call in calls), default=0)
        self._block, self._start = _aligned(places.size + scratch)
        addresses = self._values.addresses
        for root, offset in places.offsets.items():
            addresses[root] = at = self._start + offset
            if places.is_read_by_numpy(root):
                self._values[root] = _array(self._block, at, root)
        workspace = self._start + places.size
        self._arguments = CallArguments(calls, addresses, plan.numbers, plan.constants, workspace)
        for root, source in self._in_place.items():
            self._arguments.share(root, source)
        self._aligned = {
            root for call in calls if call.part.aligned for root, _ in call.part.operands
        }
        #: Of inputs that are overwritten: the segment that does.
        self._overwritten_by: dict[Value, int] = {}
        self._segments: list[tuple[Callable[[], object] | None, Step | None]] = []
        self._merge(plan.steps, native, calls_of_steps)
        #: Inputs whose arrays NumPy or the results read.
        self._inputs_read = [places.is_read_by_numpy(value) for value, *_ in plan._leaves]
        #: What is forgotten after a run.
        self._forgotten = [
            *(root for root, _ in places.fresh),
            *places.in_place,
            *(value for value, *_ in plan._leaves),
            *(v for step, n in zip(plan.steps, native) if n is None for v in _outputs(step)),
        ]

    def _merge(
        self, steps: list[Step], native: list[NativeStep | None], calls: list[list[Call]]
    ) -> None:
        # The segments: functions that run native calls, and steps that NumPy computes.
        waiting: list[Any] = []

        def flush() -> None:
            if waiting:
                self._segments.append((NativeCalls(waiting), None))
                waiting.clear()

        for step, bound, of_step in zip(steps, native, calls, strict=True):
            if bound is None:
                flush()
                self._segments.append((None, step))
                continue
            for call in of_step:
                made = call.part.call
                if made.entries:
                    waiting.append(made)
                    continue
                flush()
                self._segments.append((made.run, None))
            last = len(self._segments) - (not waiting)
            for root, _ in bound.writes:
                if root in self._in_place:
                    self._overwritten_by[self._in_place[root]] = last
        flush()

    # ---- running -----------------------------------------------------------------------------

    def run(self, leaves: list[Any], results: list[Any]) -> bool:
        """Store the arrays of the ``results``. False where the program does not fit the leaves, or
        runs already in another thread: nothing has happened then. If it fails, overwritten
        ``leaves`` become ``Overwritten``."""
        if observers.watchers or observed or registry.watchers or not self.is_current:
            return False
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if not self._accepts(leaves):
                return False
            self._run(leaves, results)
            return True
        finally:
            values = self._values
            for value in self._forgotten:
                values.pop(value, None)
            self._lock.release()

    @property
    def is_current(self) -> bool:
        """Whether a new one would be no better: kernels and number of threads are those that it was
        made for, and it overwrites all inputs that it may."""
        return not self._is_stale and self._environment == _environment()

    def _accepts(self, leaves: list[Any]) -> bool:
        # Checks what may be overwritten, and reads the inputs.
        values, plan, may_overwrite = self._values, self._plan, donated(leaves)
        if self._early_runs:
            self._early_runs -= 1
            self._is_stale = sum(may_overwrite) > sum(self._may_overwrite)
        for leaf, donates, (value, is_number, prepack), is_read in zip(
            leaves, may_overwrite, plan._leaves, self._inputs_read, strict=True
        ):
            if is_number:
                self._read_number(leaf, value)
                continue
            overwrites = value in self._overwrites
            if overwrites and not (donates and _array_references(leaf) <= _ALONE):
                return False
            array = leaf.array if prepack is None else prepack(leaf)
            if prepack is not None:
                is_packed = array.__class__ is PrepackedArray
                if is_packed is not (value in self._packed):
                    return False
                if is_packed:
                    values[value] = array
                    self._arguments.move(value, array.address)
                    continue
            if is_read or overwrites:
                values[value] = array
            known = self._arrays.get(value)
            if known is None or known() is not array:
                if strides_of(array) != self._strides[value]:
                    return False
                if overwrites and not is_writable(array):
                    return False
                self._arrays[value] = weakref.ref(array)
                self._arguments.move(value, address(array))
        return not self._is_stale

    def _read_number(self, leaf: Any, value: Value) -> None:
        if leaf.__class__ is Stream:
            words = map(_signed, leaf)
            found = dict(zip(self._plan._stream_words[value], words, strict=True))
        else:
            found = {value: leaf.number if leaf.__class__ is Number else leaf.array[()]}
        self._values.update(found)
        for root, number in found.items():
            self._arguments.set_number(root, number)

    def _run(self, leaves: list[Any], results: list[Any]) -> None:
        values = self._values
        for root, dtype in self._fresh:
            made = memory.empty(root.shape, dtype)
            if root in self._aligned and address(made) % ALIGNMENT:
                block, start = _aligned(made.nbytes)
                made = _array(block, start, root)
            values[root] = made
            self._arguments.move(root, address(made))
        for root, source in self._in_place.items():
            values[root] = values[source]
            values.addresses[root] = values.addresses[source]
        self._arguments.write()
        if self._overwrites:
            interrupts.hold()
        blas.yield_to_openmp()
        begun = 0
        try:
            for run, step in self._segments:
                begun += 1
                if run is not None:
                    run()
                elif step is not None:
                    self._by_numpy(step)
            for result, read in self._plan._readers:
                results[result].array = read(values)
        except BaseException:
            for i, (value, *_) in enumerate(self._plan._leaves):
                if self._overwritten_by.get(value, begun) < begun:
                    leaves[i] = Overwritten(leaves[i])
            raise

    def _may_be_overwritten(self, made: Any) -> bool:
        # Whether it is a view of memory that later steps write to.
        if made.flags.owndata:
            return False
        if 0 <= address(made) - self._start < self._block.nbytes:
            return True
        return any(np.may_share_memory(made, self._values[v]) for v in self._overwrites)

    def _by_numpy(self, step: Step) -> None:
        values = self._values
        # What stays inside a step of two parts is elsewhere each time, too.
        for value in (v for node in step.nodes for v in node.outputs):
            values.addresses.pop(value, None)
        step(values)
        for root in _outputs(step):
            values.addresses.pop(root, None)  # a step of two parts looks it up itself
            made = values[root]
            if root.shape or made.__class__ is np.ndarray:
                if self._may_be_overwritten(made):
                    values[root] = made = memory.cast(made, made.dtype)
                self._arguments.move(root, address(made))
        self._arguments.write()


def _native(step: Step, packed: set[Value]) -> NativeStep | None:
    native = getattr(step, "native", None)
    found: NativeStep | None = None if native is None else native(packed)
    return found


def _outputs(step: Step) -> list[Value]:
    made = {v for node in step.nodes for v in node.outputs}
    return [root for root in dict.fromkeys(step.roots) if root in made]


def _environment() -> tuple[Any, ...]:
    library, version = registry.active_library(), extensions.current().version
    return library, version, KernelLibrary.generation, threads.limit()


def _aligned(nbytes: int) -> tuple[Any, int]:
    block = memory.empty((nbytes + ALIGNMENT,), np.dtype(np.uint8))
    return block, -(-address(block) // ALIGNMENT) * ALIGNMENT


def _array(block: Any, at: int, root: Value) -> Any:
    dtype = TO_NUMPY[root.dtype]
    offset = at - address(block)
    nbytes = math.prod(root.shape) * dtype.itemsize
    return block[offset : offset + nbytes].view(dtype).reshape(root.shape)


def _array_references(leaf: Any) -> int:
    return getrefcount(leaf.array)


#: The count of ``_array_references`` where only the leaf refers to its array.
_ALONE = count_if_alone(
    _array_references, lambda: SimpleNamespace(array=object()), lambda leaf: leaf.array
)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
