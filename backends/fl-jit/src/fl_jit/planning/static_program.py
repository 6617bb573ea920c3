"""A plan on fixed memory: its launches are prepared once, and one call runs many of them.

A plan finds addresses, allocates results and calls each kernel from Python at every run: some eight
microseconds a step. A compiled training step runs the same plan on the same parameters again and
again. So intermediate results get fixed places in one block (by their lifetimes), parameters are
overwritten in place, and arguments of kernels are written once. At a call, only the arguments
change whose arrays or numbers have changed.

Steps that NumPy computes run between the native ones; their results are new arrays each time.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections import defaultdict
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
from fl_jit.planning.memory_assignment import Interval, assign_offsets
from fl_jit.reports import observers
from fl_jit.steps.donation import Values, donated
from fl_jit.steps.indexing import Scatter
from fl_jit.steps.native import NativePart, NativeStep
from fl_jit.traces.invalidated import Overwritten
from fl_jit.traces.lazy import Stream
from fl_jit.traces.prepacked import PrepackedArray
from fl_memory.causes import observed
from fl_tensor.extend import count_if_alone, getrefcount, interrupts
from fl_tensor.extend.numpy import TO_NUMPY, Number, memory
from fl_tensor.graph import Value

if TYPE_CHECKING:
    from fl_jit.planning.plan import Plan, Step

_ALIGNMENT = 64


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
        # Eager code before may have held some of the first leaves.
        self._donated, self._early_runs, self._is_stale = sum(donated(leaves)), 3, False
        self._numbers: dict[Value, Any] = {}
        self._arrays: dict[Value, Callable[[], Any]] = {}
        #: Of numbers that kernels read from memory.
        self._number_arrays: dict[Value, Any] = {}
        self._calls: list[_Call] = []
        self._readers: defaultdict[Value, list[tuple[_Call, int, int]]] = defaultdict(list)
        self._scalar_readers: defaultdict[Value, list[tuple[_Call, int]]] = defaultdict(list)
        self._dirty: dict[_Call, None] = {}
        self._build(plan, leaves, packed)

    # ---- building ----------------------------------------------------------------------------

    def _build(self, plan: Plan, leaves: list[Any], packed: set[Value]) -> None:
        native = [_native(step, packed) for step in plan.steps]
        places = _Places(plan, leaves, native)
        self._fresh = places.fresh
        #: Results that take the memory of an input.
        self._in_place = places.in_place
        self._overwrites = set(places.in_place.values())
        calls_of_steps = [
            [] if step is None else [self._call(part) for part in step.parts] for step in native
        ]
        scratch = max((call.part.call.nbytes for call in self._calls), default=0)
        size = places.size
        self._block, self._start = _aligned(size + scratch)
        self._workspace = self._start + size
        for root, offset in places.offsets.items():
            at = self._start + offset
            self._values.addresses[root] = at
            if places.is_read_by_numpy(root):
                self._values[root] = _array(self._block, at, root)
        for value, constant in plan.constants.items():
            if value.shape:
                self._values.addresses[value] = address(constant)
        for root in self._number_arrays:
            self._values.addresses[root] = address(self._number_arrays[root])
        for call in self._calls:
            for i, (root, offset) in enumerate(call.part.operands):
                known = self._values.addresses.get(root)
                self._readers[root].append((call, i, offset))
                call.addresses[i] = 0 if known is None else known + offset
            for i, root in enumerate(call.part.scalars):
                self._scalar_readers[root].append((call, i))
                if root in plan.constants:
                    call.scalars[i] = plan.constants[root]
            self._dirty[call] = None
        for root, source in self._in_place.items():
            self._readers[source] += self._readers[root]
        self._aligned = {
            root for call in self._calls if call.part.aligned for root, _ in call.part.operands
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

    def _call(self, part: NativePart) -> _Call:
        call = _Call(part)
        self._calls.append(call)
        for root, _ in part.operands:
            if root in self._plan.numbers and root not in self._number_arrays:
                self._number_arrays[root] = made = np.empty((), TO_NUMPY[root.dtype])
                if root in self._plan.constants:
                    made[...] = self._plan.constants[root]
        return call

    def _merge(
        self, steps: list[Step], native: list[NativeStep | None], calls: list[list[_Call]]
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
            self._is_stale = sum(may_overwrite) > self._donated
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
            if overwrites and not _is_writable(array):
                return False
            if prepack is not None:
                is_packed = array.__class__ is PrepackedArray
                if is_packed is not (value in self._packed):
                    return False
                if is_packed:
                    values[value] = array
                    self._move(value, array.address)
                    continue
            if is_read or overwrites:
                values[value] = array
            known = self._arrays.get(value)
            if known is None or known() is not array:
                if strides_of(array) != self._strides[value]:
                    return False
                self._arrays[value] = weakref.ref(array)
                self._move(value, address(array))
        return not self._is_stale

    def _read_number(self, leaf: Any, value: Value) -> None:
        if leaf.__class__ is Stream:
            for word, number in zip(self._plan._stream_words[value], leaf, strict=True):
                self._set_number(word, _signed(number))
        elif leaf.__class__ is Number:
            self._set_number(value, leaf.number)
        else:
            self._set_number(value, leaf.array[()])

    def _set_number(self, value: Value, number: Any) -> None:
        self._values[value] = number
        before = self._numbers.get(value)
        if before is not None and before == number and number:  # 0.0 is not -0.0
            return
        self._numbers[value] = number
        if value in self._number_arrays:
            self._number_arrays[value][...] = number
        for call, i in self._scalar_readers.get(value, ()):
            call.scalars[i] = number
            self._dirty[call] = None

    def _move(self, root: Value, at: int) -> None:
        # The array of a root is at another address.
        values = self._values
        if values.addresses.get(root) == at:
            return
        values.addresses[root] = at
        for call, i, offset in self._readers.get(root, ()):
            call.addresses[i] = at + offset
            self._dirty[call] = None

    def _run(self, leaves: list[Any], results: list[Any]) -> None:
        values = self._values
        for root, dtype in self._fresh:
            made = memory.empty(root.shape, dtype)
            if root in self._aligned and address(made) % _ALIGNMENT:
                block, start = _aligned(made.nbytes)
                made = _array(block, start, root)
            values[root] = made
            self._move(root, address(made))
        for root, source in self._in_place.items():
            values[root] = values[source]
            values.addresses[root] = values.addresses[source]
        self._write()
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

    def _write(self) -> None:
        workspace = self._workspace
        for call in self._dirty:
            call.write(workspace)
        self._dirty.clear()

    def _by_numpy(self, step: Step) -> None:
        values = self._values
        for root in _outputs(step):
            values.addresses.pop(root, None)
        step(values)
        for root in _outputs(step):
            made = values[root]
            if root.shape or made.__class__ is np.ndarray:
                if self._may_be_overwritten(made):
                    values[root] = made = memory.cast(made, made.dtype)
                self._move(root, address(made))
        self._write()


class _Call:
    """A native call, and its arguments."""

    def __init__(self, part: NativePart) -> None:
        self.part = part
        self.addresses = [0] * len(part.operands)
        self.scalars: list[Any] = [0] * len(part.scalars) + part.constant

    def write(self, workspace: int) -> None:
        self.part.call.write(self.addresses, self.scalars, workspace)


class _Places:
    """Where results are.

    offsets   of those in the block, and ``size``
    fresh     those that are new arrays at every run, as the results of the program are
    in_place  results of the program that take the memory of an input
    """

    def __init__(
        self,
        plan: Plan,
        leaves: list[Any],
        native: list[NativeStep | None],
    ) -> None:
        results = {plan.layouts[v].root for v in plan.results}
        last = {root: number for number, step in enumerate(plan.steps) for root in step.roots}
        free_inputs = {
            value
            for leaf, donates, (value, is_number, prepack) in zip(
                leaves, donated(leaves), plan._leaves, strict=True
            )
            if not is_number and prepack is None and donates and _is_writable(leaf.array)
        }
        self._numpy = {
            root
            for step, bound in zip(plan.steps, native, strict=True)
            if bound is None
            for root in step.roots
        }
        self._results = results
        self.fresh: list[tuple[Value, Any]] = []
        self.in_place: dict[Value, Value] = {}
        self._aliases: dict[Value, Value] = {}  # of a result in the place of another one
        intervals: dict[Value, Interval] = {}
        taken: set[Value] = set()
        for number, bound in enumerate(native):
            if bound is None:
                continue
            for root, candidates in bound.writes:
                fitting = [c for c in candidates if c.shape == root.shape and c not in taken]
                if root in results:
                    over = next((c for c in fitting if c in free_inputs), None)
                    if over is None:
                        self.fresh.append((root, TO_NUMPY[root.dtype]))
                        continue
                    self.in_place[root] = over
                else:
                    over = next((c for c in fitting if c in intervals), None)
                    end = last.get(root, number)
                    if over is None:
                        intervals[root] = Interval(number, end, _nbytes(root))
                        continue
                    self._aliases[root] = over
                    home = self._home(over)
                    intervals[home] = intervals[home]._replace(end=end)
                    intervals[root] = Interval(number, end, 0)
                taken.add(over)
        self.offsets, self.size = assign_offsets(
            {root: interval for root, interval in intervals.items() if interval.nbytes}
        )
        for root in self._aliases:
            self.offsets[root] = self.offsets[self._home(root)]

    def _home(self, root: Value) -> Value:
        while root in self._aliases:
            root = self._aliases[root]
        return root

    def is_read_by_numpy(self, root: Value) -> bool:
        """Whether its array must be known, beside its address."""
        return root in self._numpy or root in self._results


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


def _nbytes(root: Value) -> int:
    nbytes = max(math.prod(root.shape), 1) * root.dtype.itemsize
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _aligned(nbytes: int) -> tuple[Any, int]:
    block = memory.empty((nbytes + _ALIGNMENT,), np.dtype(np.uint8))
    return block, -(-address(block) // _ALIGNMENT) * _ALIGNMENT


def _array(block: Any, at: int, root: Value) -> Any:
    dtype = TO_NUMPY[root.dtype]
    offset = at - address(block)
    nbytes = math.prod(root.shape) * dtype.itemsize
    return block[offset : offset + nbytes].view(dtype).reshape(root.shape)


def _is_writable(array: Any) -> bool:
    return bool(array.flags.carray) and array.base.__class__ is not np.ndarray


def _array_references(leaf: Any) -> int:
    return getrefcount(leaf.array)


#: The count of ``_array_references`` where only the leaf refers to its array.
_ALONE = count_if_alone(
    _array_references, lambda: SimpleNamespace(array=object()), lambda leaf: leaf.array
)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
