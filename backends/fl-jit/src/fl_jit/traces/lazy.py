"""Lazy values, and the trace of the calls that compute them.

A ``Lazy`` value is a ``NumpyAdapter`` whose array is missing until it is read. So the NumPy backend
accepts lazy values in every operation, and only operations that gain from it are deferred.

A trace belongs to one thread. It holds the operations that this thread deferred since the last run:
calls in order, as plain tuples that name their operands by number. These tuples are the structure
of the computation, and are equal from one training step to the next. The ``leaves`` are its data:
arrays computed before, numbers, and positions of random streams.
"""

from __future__ import annotations

import math
import os
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fl_jit.eager import prepacked as keeping
from fl_jit.eager.prepacked import storage_of
from fl_jit.traces import interrupts, loop_detection, loop_execution
from fl_jit.traces.failure_isolation import Alone, Failed, part_of
from fl_jit.traces.invalidated import InvalidatedValue, sort_out
from fl_jit.traces.recording import Call, Recording, Recordings
from fl_memory import current as current_manager
from fl_memory import free_after_fork, selection
from fl_memory.tags import RESULT, tagged
from fl_tensor import reproducible
from fl_tensor.dtypes import DType
from fl_tensor.extend import count_if_alone, getrefcount, is_reproducible
from fl_tensor.extend.numpy import Number, NumpyAdapter

if TYPE_CHECKING:
    from fl_jit.traces.template import Template


class Stream(NamedTuple):
    """The position of a random stream; a leaf, as it changes with every draw."""

    seed: int
    offset: int


class Lazy(NumpyAdapter):
    """The result of call ``number`` in ``trace``. After the call has run, ``trace`` is None and
    ``array`` is stored. ``Alone``: the computation failed, and is tried again on a read. ``Failed``
    and ``InvalidatedValue``: a read raises an error."""

    __slots__ = ("number", "shape", "trace")

    trace: Trace | Alone | Failed | InvalidatedValue | None
    shape: tuple[int, ...]
    number: int

    def __getattr__(self, name: str) -> Any:
        if name != "array":
            raise AttributeError(f"a value of backend 'jit' has no attribute {name!r}")
        while (trace := self.trace) is not None:  # again where another thread ran it, and failed
            trace.compute(self)
        return _array_of(self)


class KeptLazy(keeping.UnpackedOnDemand, Lazy):
    """A computed lazy value whose array is prepacked."""

    __slots__ = ()


keeping.register(Lazy, KeptLazy)

#: Access to the array without ``__getattr__``.
_array_of: Callable[[Lazy], Any] = NumpyAdapter.__dict__["array"].__get__


# Cheaper than constructors: these are called for every operation of a program.
_new, _tuple = object.__new__, tuple.__new__


def _references(values: Iterable[Any]) -> list[int]:
    return [getrefcount(x) for x in values]


#: The references that ``_references`` counts for a value that only its list refers to.
_ALONE = count_if_alone(
    lambda values: _references(values)[0], lambda: [object.__new__(Lazy)], lambda values: values[0]
)


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return 0


#: A trace runs when it has this many calls, or when it holds this many bytes. Operands count that
#: only the trace keeps alive, and live results. The limit is a quarter of the machine's memory, and
#: at least 2 GiB.
MOST_CALLS = 16384
MOST_BYTES = max(2 << 30, _memory() // 4)
#: The bytes are counted after this many calls, and then whenever there are twice as many: counting
#: visits all calls.
LOOK = 512


class Trace:
    """The deferred calls of one thread.

    ``execute(trace, seen)`` computes the arrays of the results in ``trace.results`` that ``seen``
    marks: the live ones, which have references outside the trace. ``interpret`` has the same
    arguments, and runs the calls one by one.

    is_once: its set of live results is temporary (``loop_execution.py``): no plan is made for it
    """

    failed = is_once = False

    def __init__(
        self,
        execute: Callable[[Trace, list[bool]], None],
        interpret: Callable[[Any, list[bool]], None],
    ) -> None:
        self.execute, self.interpret = execute, interpret
        self.lock = free_after_fork(threading.RLock())
        self.manager: Any = None
        self.reproducible = False
        self._recordings = Recordings()
        self._clear()

    def _clear(self) -> None:
        self.calls: list[Call] = []
        self._begun: Recording | None = None  # equal to the calls so far
        self._before: tuple[Call, ...] = ()  # its calls
        self.results: list[Lazy | None] = []  # None: dead
        self.leaves: list[Any] = []
        self._places: dict[int, int] = {}
        self._end = MOST_CALLS  # calls after which it may be over
        self._bytes = 0  # of operands
        self._most = MOST_BYTES  # bytes of operands at which to look again
        self._look_at = (
            LOOK,
            loop_detection.FIRST_LOOK,
        )  # calls at which to look again: for bytes, for loops
        self._enough = min(self._look_at)
        self.templates: list[Any] = []  # begin, end and operand numbers of each

    def record(
        self,
        op: str,
        operands: tuple[Any, ...],
        parameters: tuple[Any, ...],
        shape: tuple[int, ...],
        dtype: DType,
    ) -> Lazy:
        """Defer a call. Its operands are values or random streams."""
        with self.lock:
            if self._is_over():
                self._anew(loop_detection.head(op, parameters, shape, dtype))
            numbers = self._numbers(operands)
            if numbers is not None:
                calls = self.calls
                made = _new(Lazy)
                number = len(calls)
                made.trace, made.number = self, number
                made.shape, made.dtype = shape, dtype
                call: Any = (op, numbers, parameters, shape, dtype)
                if not number:
                    self._begin(call)
                before = self._before
                if number < len(before) and before[number] == call:
                    call = before[number]
                else:
                    call = _tuple(Call, call)
                    if self._begun is not None:
                        self._part_ways(self._begun, (call,))
                try:
                    self.results.append(made)
                    calls.append(call)
                except BaseException:  # Control-C between them
                    del self.results[number:], calls[number:]
                    raise
                if self._bytes > self._most or len(calls) >= self._enough:
                    self._look()
                return made
        self._fetch(operands)
        return self.record(op, operands, parameters, shape, dtype)

    def replay(self, template: Template, operands: Sequence[Any]) -> Any:
        """Defer the calls of a composition. Returns its result or results, as the composition
        does."""
        given = (*operands, *template.numbers)
        with self.lock:
            if self._is_over():
                self._anew(template.head)
            numbers = self._numbers(given)
            if numbers is not None:
                first = len(self.calls)
                self._extend(template.at(first, numbers))
                self.templates.append((first, len(self.calls), numbers))
                made = [given[~i] if i < 0 else self._shown(first + i) for i in template.results]
                if self._bytes > self._most or len(self.calls) >= self._enough:
                    self._look()
                return template.returned(made)
        self._fetch(operands)
        return self.replay(template, operands)

    def _extend(self, more: tuple[Call, ...]) -> None:
        # Dead results need no more than a place.
        first = len(self.calls)
        if not first and more:
            self._begin(more[0])
        if self._before:
            before = self._before[first : first + len(more)]
            if before == more:
                more = before
            elif self._begun is not None:
                self._part_ways(self._begun, more)
        unseen = [None] * len(more)  # before the two lists grow, which Control-C must not part
        self.calls += more
        self.results += unseen

    def _shown(self, number: int) -> Lazy:
        made = self.results[number]
        if made is None:
            made, call = _new(Lazy), self.calls[number]
            made.trace, made.number = self, number
            made.shape, made.dtype = call.shape, call.dtype
            self.results[number] = made
        return made

    def _numbers(self, operands: Sequence[Any]) -> tuple[int, ...] | None:
        # The operand numbers in calls; None where an operand belongs to another thread.
        found, places, leaves, nbytes = [], self._places, self.leaves, 0
        for x in operands:
            kind = x.__class__
            if kind is Lazy and x.trace is not None:
                if x.trace is not self:
                    return None
                found.append(x.number)
                continue
            key = id(x)
            place = places.get(key)
            if place is None:
                place = places[key] = ~len(leaves)
                leaves.append(x)
                if kind is NumpyAdapter or kind is Lazy:
                    nbytes += x.array.nbytes
                elif kind is not Number and kind is not Stream:
                    nbytes += storage_of(x).nbytes
            found.append(place)
        self._bytes += nbytes
        return tuple(found)

    def _is_over(self) -> bool:
        # Values deferred under another manager are allocated by that manager.
        return (
            current_manager() is not self.manager
            or is_reproducible() is not self.reproducible
            or len(self.calls) >= self._end
        )

    def _anew(self, head: Any) -> None:
        # ``head``: of the next call.
        manager, exactly = current_manager(), is_reproducible()
        same = manager is self.manager and exactly is self.reproducible
        begun = self._begun
        if same and len(self.calls) < MOST_CALLS and begun is not None:
            if begun.ends_before != head:  # no other iteration begins
                self._follow(self._recordings.other(begun, self.calls, ()))
                return
        self._finish()
        if exactly is not self.reproducible:
            self._recordings.forget_periods()
        self.manager, self.reproducible = manager, exactly

    def _begin(self, call: Any) -> None:
        self._follow(self._recordings.beginning(call))

    def _part_ways(self, begun: Recording, more: Sequence[Call]) -> None:
        # The recorded calls differ from those of ``begun`` here.
        self._follow(self._recordings.other(begun, self.calls, more))

    def _follow(self, begun: Recording | None) -> None:
        self._begun = begun
        self._before = () if begun is None else begun.calls
        is_period = begun is not None and begun.ends_before is not None
        self._end = len(self._before) if is_period else MOST_CALLS

    def _fetch(self, operands: Sequence[Any]) -> None:
        # Values of another thread, whose lock is not acquired while this trace's lock is held.
        for x in operands:
            trace = x.trace if x.__class__ is Lazy else None
            if trace is not None and trace is not self:
                trace.compute(x)  # also if stored, with ``trace`` about to be None

    def _look(self) -> None:
        count = len(self.calls)
        many, again = self._look_at
        if count >= again:
            again = 2 * count
            # A repeated recording is no loop, or is already split into periods.
            if self._begun is None:
                within = {i for first, end, _ in self.templates for i in range(first + 1, end)}
                found = loop_detection.find(self.calls, self.leaves, within, self.seen)
                if found is not None:
                    loop_execution.run(self, found)
                    return
        if count >= many or self._bytes > self._most:
            if self._kept_bytes() > MOST_BYTES:
                self.run()
                return
            many = 2 * count
        self._look_at = many, again
        self._enough = min(many, again)

    def _kept_bytes(self) -> int:
        # Shared operands and dead results take a while to find.
        kept = 0
        for count, x in zip(_references(self.leaves), self.leaves, strict=True):
            if count == _ALONE and x.__class__ is not Stream:
                kept += storage_of(x).nbytes
        for call, is_seen in zip(self.calls, self.seen(), strict=True):
            if is_seen:
                kept += math.prod(call.shape) * call.dtype.itemsize
        self._most = self._bytes + MOST_BYTES - kept
        return kept

    def take(self) -> tuple[list[Call], list[Lazy | None], list[Any], list[Any]]:
        """Move all calls, results, leaves and templates out of the trace."""
        taken = self.calls, self.results, self.leaves, self.templates
        self._clear()
        return taken

    def append(self, call: Call, made: Lazy | None, is_read: bool) -> Lazy | None:
        """Defer a call whose operands are numbers of this trace. ``made`` is its result if that is
        live. Otherwise a result is made if it ``is_read`` later."""
        number = len(self.calls)
        self._extend((call,))
        if made is not None:
            made.number = number
            self.results[number] = made
        return self._shown(number) if is_read else None

    def leaf(self, x: Any) -> int:
        """The operand number of a value that is not a result of this trace."""
        place = self._places.get(id(x))
        if place is None:
            place = self._places[id(x)] = ~len(self.leaves)
            self.leaves.append(x)
            if x.__class__ is not Stream:
                self._bytes += math.prod(x.shape) * x.dtype.itemsize
        return place

    def close(self, head: Any) -> Exception | None:
        """Run the deferred calls. From now on the same calls run as soon as a call with this
        ``head`` follows them. Returns the error, as ``run`` does."""
        self._recordings.keep(self.recording(), head)
        self.is_once = True
        try:
            return self._compute()
        finally:
            self.is_once = False

    def reads(self, x: Any) -> bool:
        """Whether the deferred calls read this computed value."""
        return id(x) in self._places

    def recording(self) -> Recording:
        """The recording of the deferred calls; the same object for equal calls."""
        self._begun = found = self._recordings.of(self.calls, self._begun)
        self._before = found.calls
        return found

    def seen(self) -> list[bool]:
        """Which results are live: referenced outside the trace."""
        seen = [False] * len(self.results)
        # Most results of compositions are None. The counting function is the calibrated one.
        counts = _references(filter(None, self.results))
        for x, count in zip(filter(None, self.results), counts, strict=True):
            if count > _ALONE:
                seen[x.number] = True
        return seen

    def compute(self, x: Lazy) -> None:
        """Run the deferred calls, including the one of ``x``. Raises the error if ``x`` depends on
        the failed call. Otherwise ``x`` remains to be computed alone."""
        error, left = self.run(), x.trace
        try:
            if error is not None and left is not None and left.failed:
                raise error
        finally:
            del error, left  # breaks the reference cycle with this frame

    def run(self) -> Exception | None:
        """Run the deferred calls. An error is returned, and the trace is empty after it: each
        missing value is recomputed when it is read. Other exceptions, such as KeyboardInterrupt,
        are raised, and the trace keeps the calls that did not run."""
        if self.reproducible:  # the split into traces must not depend on earlier runs
            self._recordings.forget_periods()
        return self._finish()

    def _finish(self) -> Exception | None:
        try:
            return self._compute()
        finally:
            interrupts.release()

    def _compute(self) -> Exception | None:
        with self.lock:
            if not self.calls:
                return None
            try:
                self._run()
            except BaseException as error:
                sort_out(self.calls, self.results, self.leaves)
                if not isinstance(error, Exception):
                    self._places = {id(x): ~i for i, x in enumerate(self.leaves)}
                    raise
                self.part(error)
                traceback.clear_frames(error.__traceback__)  # frames hold references to arrays
                return error
        return None

    def part(self, error: Exception) -> None:
        """Detach the missing values from the trace, which is empty afterwards."""
        again = isinstance(error, MemoryError)
        seen, found = self.seen(), []
        for x in filter(None, self.results):
            failed = x.trace is not self
            if seen[x.number] and (again or not failed):
                part = part_of(x.number, self.calls, self.leaves)
                context = self.interpret, self.manager, self.reproducible
                found.append((x, Alone(part, *context, failed)))
        for x, alone in found:
            x.trace = alone
        self._clear()

    def _run(self) -> None:
        seen = self.seen()
        with tagged(RESULT):  # not that of the layer which happens to need a value first
            if self.manager is selection.current() and self.reproducible is is_reproducible():
                self.execute(self, seen)
            else:
                with selection.use(self.manager), reproducible(self.reproducible):
                    self.execute(self, seen)
        for x in filter(None, self.results):
            x.trace = None
        self._clear()
