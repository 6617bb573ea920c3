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

from fl_jit.traces import loop_detection, loop_execution
from fl_jit.traces.failure_isolation import Failed, IsolatedValue, subtrace_of
from fl_jit.traces.invalidated import InvalidatedValue, Overwritten, detach
from fl_jit.traces.prepacked import PrepackedArray, storage_of
from fl_jit.traces.recording import Call, Recording, Recordings
from fl_memory import current as current_manager
from fl_memory import free_after_fork, selection
from fl_memory.causes import CURRENT, Cause, observed
from fl_memory.tags import RESULT, tagged
from fl_tensor import reproducible
from fl_tensor.dtypes import DType
from fl_tensor.extend import count_if_alone, getrefcount, is_reproducible
from fl_tensor.extend.numpy import Number, NumpyAdapter
from fl_tensor.graph import interrupts

if TYPE_CHECKING:
    from fl_jit.traces.template import Template


class Stream(NamedTuple):
    """The position of a random stream; a leaf, as it changes with every draw."""

    seed: int
    offset: int


class Lazy(NumpyAdapter):
    """The result of call ``number`` in ``trace``. After the call has run, ``trace`` is None and
    ``array`` is stored. ``IsolatedValue``: the computation failed, and a read tries it again.
    ``Failed`` and ``InvalidatedValue``: a read raises an error. ``PrepackedArray``: the value was
    computed, and its array is packed; a read restores it."""

    __slots__ = ("number", "shape", "trace")

    trace: Trace | IsolatedValue | Failed | InvalidatedValue | PrepackedArray | None
    shape: tuple[int, ...]
    number: int

    def __getattr__(self, name: str) -> Any:
        if name != "array":
            raise AttributeError(f"a value of backend 'jit' has no attribute {name!r}")
        while (trace := self.trace) is not None:  # again where another thread ran it, and failed
            trace.compute(self)
        return _array_of(self)


def computed(array: Any, dtype: DType) -> Lazy:
    """A value that has its array. Unlike a ``NumpyAdapter`` it may be prepacked."""
    made = _new(Lazy)
    made.array, made.dtype, made.shape, made.trace = array, dtype, array.shape, None
    return made


def invalid(x: Overwritten) -> Lazy:
    """A value that was overwritten: a read raises an error."""
    made = _new(Lazy)
    made.dtype, made.shape, made.trace = x.dtype, x.shape, InvalidatedValue(x)
    return made


#: Access to the array without ``__getattr__``.
_array_of: Callable[[Lazy], Any] = NumpyAdapter.__dict__["array"].__get__


# Cheaper than constructors: these are called for every operation of a program.
_new, _tuple = object.__new__, tuple.__new__


def _references(values: Iterable[Any]) -> list[int]:
    return [getrefcount(x) for x in values]


#: The references that ``_references`` counts for a value that only its list refers to.
_SOLE_REFERENCE = count_if_alone(
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
FIRST_BYTES_CHECK = 512


class Trace:
    """The deferred calls of one thread.

    ``execute(trace, live)`` computes the arrays of the results in ``trace.results`` that ``live``
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
        self._match: Recording | None = None  # equal to the calls so far
        self._matched_calls: tuple[Call, ...] = ()  # its calls
        self.results: list[Lazy | None] = []  # None: dead
        self.leaves: list[Any] = []
        self._leaf_numbers: dict[int, int] = {}
        self._end = MOST_CALLS  # calls after which it may be over
        self._bytes = 0  # of operands
        self._bytes_limit = MOST_BYTES  # bytes of operands at which to look again
        # The numbers of calls at which to look again: for bytes, for loops.
        self._next_checks = FIRST_BYTES_CHECK, loop_detection.FIRST_LOOK
        self._next_check = min(self._next_checks)
        #: The causes of calls that were recorded while memory was observed (``fl_memory.observe``),
        #: by number. They are no part of the structure.
        self.causes: dict[int, Cause] = {}
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
                self._begin_next(loop_detection.head(op, parameters, shape, dtype))
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
                before = self._matched_calls
                if number < len(before) and before[number] == call:
                    call = before[number]
                else:
                    call = _tuple(Call, call)
                    if self._match is not None:
                        self._diverge(self._match, (call,))
                try:
                    self.results.append(made)
                    calls.append(call)
                except BaseException:  # Control-C between them
                    del self.results[number:], calls[number:]
                    raise
                if observed and (cause := CURRENT.get()):
                    self.causes[number] = cause
                if self._bytes > self._bytes_limit or len(calls) >= self._next_check:
                    self._check_size()
                return made
        self._fetch(operands)
        return self.record(op, operands, parameters, shape, dtype)

    def replay(self, template: Template, operands: Sequence[Any]) -> Any:
        """Defer the calls of a composition. Returns its result or results, as the composition
        does."""
        given = (*operands, *template.numbers)
        with self.lock:
            if self._is_over():
                self._begin_next(template.head)
            numbers = self._numbers(given)
            if numbers is not None:
                first = len(self.calls)
                self._extend(template.at(first, numbers))
                self.templates.append((first, len(self.calls), numbers))
                if observed and (cause := CURRENT.get()):
                    self.causes.update(dict.fromkeys(range(first, len(self.calls)), cause))
                made = [given[~i] if i < 0 else self._result(first + i) for i in template.results]
                if self._bytes > self._bytes_limit or len(self.calls) >= self._next_check:
                    self._check_size()
                return template.returned(made)
        self._fetch(operands)
        return self.replay(template, operands)

    def _extend(self, more: tuple[Call, ...]) -> None:
        # Dead results need no more than a place.
        first = len(self.calls)
        if not first and more:
            self._begin(more[0])
        if self._matched_calls:
            before = self._matched_calls[first : first + len(more)]
            if before == more:
                more = before
            elif self._match is not None:
                self._diverge(self._match, more)
        unseen = [None] * len(more)  # before the two lists grow, which Control-C must not part
        self.calls += more
        self.results += unseen

    def _result(self, number: int) -> Lazy:
        made = self.results[number]
        if made is None:
            made, call = _new(Lazy), self.calls[number]
            made.trace, made.number = self, number
            made.shape, made.dtype = call.shape, call.dtype
            self.results[number] = made
        return made

    def _numbers(self, operands: Sequence[Any]) -> tuple[int, ...] | None:
        # The operand numbers in calls; None where an operand belongs to another thread.
        numbers, leaf_numbers, leaves, nbytes = [], self._leaf_numbers, self.leaves, 0
        for x in operands:
            kind, storage = x.__class__, None
            if kind is Lazy and (trace := x.trace) is not None:
                if trace is self:
                    numbers.append(x.number)
                    continue
                if trace.__class__ is not PrepackedArray:
                    return None
                storage = trace
            key = id(x)
            number = leaf_numbers.get(key)
            if number is None:
                number = leaf_numbers[key] = ~len(leaves)
                leaves.append(x)
                if kind is not Number and kind is not Stream:
                    nbytes += (x.array if storage is None else storage).nbytes
            numbers.append(number)
        self._bytes += nbytes
        return tuple(numbers)

    def _is_over(self) -> bool:
        # Values deferred under another manager are allocated by that manager.
        return (
            current_manager() is not self.manager
            or is_reproducible() is not self.reproducible
            or len(self.calls) >= self._end
        )

    def _begin_next(self, head: Any) -> None:
        # ``head``: of the next call.
        manager, exactly = current_manager(), is_reproducible()
        same = manager is self.manager and exactly is self.reproducible
        match = self._match
        if same and len(self.calls) < MOST_CALLS and match is not None:
            if match.ends_before != head:  # no other iteration begins
                self._set_match(self._recordings.other(match, self.calls, ()))
                return
        self._finish()
        if exactly is not self.reproducible:
            self._recordings.forget_periods()
        self.manager, self.reproducible = manager, exactly

    def _begin(self, call: Any) -> None:
        self._set_match(self._recordings.beginning(call))

    def _diverge(self, match: Recording, more: Sequence[Call]) -> None:
        # The recorded calls differ from those of ``begun`` here.
        self._set_match(self._recordings.other(match, self.calls, more))

    def _set_match(self, match: Recording | None) -> None:
        self._match = match
        self._matched_calls = () if match is None else match.calls
        is_period = match is not None and match.ends_before is not None
        self._end = len(self._matched_calls) if is_period else MOST_CALLS

    def _fetch(self, operands: Sequence[Any]) -> None:
        # Values of another thread, whose lock is not acquired while this trace's lock is held.
        for x in operands:
            trace = x.trace if x.__class__ is Lazy else None
            if trace is not None and trace is not self:
                trace.compute(x)  # also if stored, with ``trace`` about to be None

    def _check_size(self) -> None:
        count = len(self.calls)
        bytes_check, loop_check = self._next_checks
        if count >= loop_check:
            loop_check = 2 * count
            # A repeated recording is no loop, or is already split into periods.
            if self._match is None:
                within = {i for first, end, _ in self.templates for i in range(first + 1, end)}
                loop = loop_detection.find(self.calls, self.leaves, within, self.live_results)
                if loop is not None:
                    loop_execution.run(self, loop)
                    return
        if count >= bytes_check or self._bytes > self._bytes_limit:
            if self._retained_bytes() > MOST_BYTES:
                self.run()
                return
            bytes_check = 2 * count
        self._next_checks = bytes_check, loop_check
        self._next_check = min(bytes_check, loop_check)

    def _retained_bytes(self) -> int:
        # Shared operands and dead results take a while to find.
        retained = 0
        for count, x in zip(_references(self.leaves), self.leaves, strict=True):
            if count == _SOLE_REFERENCE and x.__class__ is not Stream:
                retained += storage_of(x).nbytes
        for call, is_live in zip(self.calls, self.live_results(), strict=True):
            if is_live:
                retained += math.prod(call.shape) * call.dtype.itemsize
        self._bytes_limit = self._bytes + MOST_BYTES - retained
        return retained

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
        return self._result(number) if is_read else None

    def leaf(self, x: Any) -> int:
        """The operand number of a value that is not a result of this trace."""
        number = self._leaf_numbers.get(id(x))
        if number is None:
            number = self._leaf_numbers[id(x)] = ~len(self.leaves)
            self.leaves.append(x)
            if x.__class__ is not Stream:
                self._bytes += math.prod(x.shape) * x.dtype.itemsize
        return number

    def close(self, head: Any) -> Exception | None:
        """Run the deferred calls. From now on the same calls run as soon as a call with this
        ``head`` follows them. Returns the error, as ``run`` does."""
        self._recordings.add_period(self.recording(), head)
        self.is_once = True
        try:
            return self._compute()
        finally:
            self.is_once = False

    def reads(self, x: Any) -> bool:
        """Whether the deferred calls read this computed value."""
        return id(x) in self._leaf_numbers

    def recording(self) -> Recording:
        """The recording of the deferred calls; the same object for equal calls."""
        self._match = recording = self._recordings.of(self.calls, self._match)
        self._matched_calls = recording.calls
        return recording

    def live_results(self) -> list[bool]:
        """Which results are live: referenced outside the trace."""
        live = [False] * len(self.results)
        # Most results of compositions are None. The counting function is the calibrated one.
        counts = _references(filter(None, self.results))
        for x, count in zip(filter(None, self.results), counts, strict=True):
            if count > _SOLE_REFERENCE:
                live[x.number] = True
        return live

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
                detach(self.calls, self.results, self.leaves)
                if not isinstance(error, Exception):
                    self._leaf_numbers = {id(x): ~i for i, x in enumerate(self.leaves)}
                    raise
                self.isolate(error)
                traceback.clear_frames(error.__traceback__)  # frames hold references to arrays
                return error
        return None

    def isolate(self, error: Exception) -> None:
        """Detach the missing values from the trace, which is empty afterwards."""
        is_out_of_memory = isinstance(error, MemoryError)
        live, isolated = self.live_results(), []
        for x in filter(None, self.results):
            failed = x.trace is not self
            if live[x.number] and (is_out_of_memory or not failed):
                subtrace = subtrace_of(x.number, self.calls, self.leaves)
                context = self.interpret, self.manager, self.reproducible
                isolated.append((x, IsolatedValue(subtrace, *context, failed)))
        for x, pending in isolated:
            x.trace = pending
        self._clear()

    def _run(self) -> None:
        live = self.live_results()
        outer = CURRENT.get() if observed else None
        try:
            with tagged(RESULT):  # not that of the layer which happens to need a value first
                if self.manager is selection.current() and self.reproducible is is_reproducible():
                    self.execute(self, live)
                else:
                    with selection.use(self.manager), reproducible(self.reproducible):
                        self.execute(self, live)
        finally:
            if observed:  # each call, or step, has set its own
                CURRENT.set(outer)
        for x in filter(None, self.results):
            x.trace = None
        self._clear()
