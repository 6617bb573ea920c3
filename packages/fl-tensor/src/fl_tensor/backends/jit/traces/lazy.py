"""Values that are not computed yet, and the trace of the calls that will compute them.

A ``Lazy`` value is a ``NumpyAdapter`` whose array is missing until somebody asks for it; so what
the NumPy backend can do, it can do with lazy values, and only the operations worth it are put off.

A trace belongs to one thread, and keeps what its thread has put off since it last ran: calls in
order, as plain tuples that name their operands by number. These tuples are the structure of the
computation, equal from one training step to the next, while the ``leaves`` (arrays that were there
before, numbers, positions of random streams) are its data.
"""

from __future__ import annotations

import math
import os
import threading
import traceback
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any, NamedTuple

from fl_memory import selection
from fl_memory.selection import current as current_manager
from fl_tensor.backends.jit.traces import interrupts
from fl_tensor.backends.jit.traces.alone import Alone, Failed, part_of
from fl_tensor.backends.jit.traces.gone import Gone, sort_out
from fl_tensor.backends.jit.traces.recording import Call, Recording, Recordings
from fl_tensor.backends.numpy import kept as keeping
from fl_tensor.backends.numpy.adapter import Number, NumpyAdapter
from fl_tensor.backends.numpy.kept import held
from fl_tensor.dtypes import DType
from fl_tensor.reproducible import is_reproducible, reproducible

if TYPE_CHECKING:
    from fl_tensor.backends.jit.traces.template import Template


class Stream(NamedTuple):
    """Where random bits come from; a leaf, as it changes with every draw."""

    seed: int
    offset: int


class Lazy(NumpyAdapter):
    """The result of a call in ``trace``, at place ``number``; when the call has run, ``trace`` is
    None and ``array`` is there. ``Alone``: its computation failed, and is tried again when
    it is read; ``Failed``, ``Gone``: that would be in vain."""

    __slots__ = ("number", "shape", "trace")

    trace: Trace | Alone | Failed | Gone | None
    shape: tuple[int, ...]
    number: int

    def __getattr__(self, name: str) -> Any:
        if name != "array":
            raise AttributeError(f"a value of backend 'jit' has no attribute {name!r}")
        while (trace := self.trace) is not None:  # again where another thread ran it, and failed
            trace.compute(self)
        return _array_of(self)


class KeptLazy(keeping.OnDemand, Lazy):
    """One that has run, and is kept packed."""

    __slots__ = ()


keeping.register(Lazy, KeptLazy)

#: The array as it is, without a search for one that is missing.
_array_of: Callable[[Lazy], Any] = NumpyAdapter.__dict__["array"].__get__


# Less Python than a constructor would take: these are called for every operation of a program.
_new, _tuple = object.__new__, tuple.__new__


def _references(values: list[Any]) -> list[int]:
    return [getrefcount(x) for x in values]


#: How many references ``_references`` finds to a value that only its list has.
_ALONE = _references([object.__new__(Lazy)])[0]


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return 0


#: Run a trace when it has so many calls, or when so many bytes are in operands that it alone keeps
#: alive and in results that somebody waits for: a quarter of the machine's memory, 2 GiB at least.
MOST_CALLS = 16384
MOST_BYTES = max(2 << 30, _memory() // 4)
#: After so many calls it is looked how many bytes there are, and then whenever there are twice
#: as many: a look goes over all of them.
LOOK = 512


class Trace:
    """The calls that one thread has put off.

    ``execute(trace, seen)`` computes the arrays of the results in ``trace.results`` that ``seen``
    marks: those which somebody besides the trace can see. ``interpret``, likewise, runs the calls
    one by one.
    """

    failed = False

    def __init__(
        self,
        execute: Callable[[Trace, list[bool]], None],
        interpret: Callable[[Any, list[bool]], None],
    ) -> None:
        self.execute, self.interpret = execute, interpret
        self.lock = threading.RLock()
        self.manager: Any = None
        self.reproducible = False
        self._recordings = Recordings()
        self._clear()

    def _clear(self) -> None:
        self.calls: list[Call] = []
        self._begun: Recording | None = None  # which is the same so far
        self._before: tuple[Call, ...] = ()  # its calls
        self.results: list[Lazy | None] = []  # None: of a call that nobody sees
        self.leaves: list[Any] = []
        self._places: dict[int, int] = {}
        self._bytes = 0  # of operands
        self._most = MOST_BYTES  # bytes of operands at which to look again
        self._enough = LOOK  # calls at which to look again

    def record(
        self,
        op: str,
        operands: tuple[Any, ...],
        parameters: tuple[Any, ...],
        shape: tuple[int, ...],
        dtype: DType,
    ) -> Lazy:
        """Put a call off. Its operands are values, or streams of random bits."""
        with self.lock:
            if self._is_over():
                self._anew()
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
                    self._begun, self._before = None, ()
                    call = _tuple(Call, call)
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
        """Put the calls of a composition off; its result, or results, as it returns them."""
        given = (*operands, *template.numbers)
        with self.lock:
            if self._is_over():
                self._anew()
            numbers = self._numbers(given)
            if numbers is not None:
                first = len(self.calls)
                self._extend(template.at(first, numbers))
                made = [given[~i] if i < 0 else self._shown(first + i) for i in template.results]
                if self._bytes > self._most or len(self.calls) >= self._enough:
                    self._look()
                return template.returned(made)
        self._fetch(operands)
        return self.replay(template, operands)

    def _extend(self, more: tuple[Call, ...]) -> None:
        # Results that nobody sees need no more than a place.
        first = len(self.calls)
        if not first and more:
            self._begin(more[0])
        if self._before:
            before = self._before[first : first + len(more)]
            if before == more:
                more = before
            else:
                self._begun, self._before = None, ()
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
        # How calls name these operands; None where one is of another thread.
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
                    nbytes += held(x).nbytes
            found.append(place)
        self._bytes += nbytes
        return tuple(found)

    def _is_over(self) -> bool:
        # What was put off under another manager lies in its blocks.
        return (
            current_manager() is not self.manager
            or is_reproducible() is not self.reproducible
            or len(self.calls) >= MOST_CALLS
        )

    def _anew(self) -> None:
        self.run()
        self.manager, self.reproducible = current_manager(), is_reproducible()

    def _begin(self, call: Any) -> None:
        self._begun = begun = self._recordings.beginning(call)
        self._before = () if begun is None else begun.calls

    def _fetch(self, operands: Sequence[Any]) -> None:
        # Those of another thread, whose lock is not asked for under ours.
        for x in operands:
            trace = x.trace if x.__class__ is Lazy else None
            if trace is not None and trace is not self:
                trace.compute(x)  # also where the array is there, and the trace about to say so

    def _look(self) -> None:
        # Which operands others have, too, and which results nobody sees, takes a while to find out.
        kept = 0
        for count, x in zip(_references(self.leaves), self.leaves, strict=True):
            if count == _ALONE and x.__class__ is not Stream:
                kept += held(x).nbytes
        for call, is_seen in zip(self.calls, self.seen(), strict=True):
            if is_seen:
                kept += math.prod(call.shape) * call.dtype.itemsize
        if kept > MOST_BYTES:
            self.run()
        else:
            self._most = self._bytes + MOST_BYTES - kept
            self._enough = 2 * len(self.calls)

    def reads(self, x: Any) -> bool:
        """Whether what was put off needs this value, which is there."""
        return id(x) in self._places

    def recording(self) -> Recording:
        """What was put off, one object for the same calls again."""
        self._begun = found = self._recordings.of(self.calls, self._begun)
        self._before = found.calls
        return found

    def seen(self) -> list[bool]:
        """Which results somebody else holds."""
        seen = [False] * len(self.results)
        for x in filter(None, self.results):  # of compositions most are None
            if getrefcount(x) > _ALONE:
                seen[x.number] = True
        return seen

    def compute(self, x: Lazy) -> None:
        """Compute what was put off, ``x`` among it. Raises the error if ``x`` needs what failed; if
        it does not, it is to be computed alone."""
        error, left = self.run(), x.trace
        try:
            if error is not None and left is not None and left.failed:
                raise error
        finally:
            del error, left  # which are of a cycle with this frame

    def run(self) -> Exception | None:
        """Compute what was put off. An error is returned, and the trace empty after it: each value
        that is missing is tried again when it is read. What is no ``Exception``, as Control-C is
        not, is raised, and the trace keeps what it has not computed."""
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
                self._part(error)
                traceback.clear_frames(error.__traceback__)  # which hold arrays
                return error
            finally:
                interrupts.release()
        return None

    def _part(self, error: Exception) -> None:
        # Values that are missing go on without the trace.
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
        if self.manager is selection.current() and self.reproducible is is_reproducible():
            self.execute(self, seen)
        else:
            with selection.use(self.manager), reproducible(self.reproducible):
                self.execute(self, seen)
        for x in filter(None, self.results):
            x.trace = None
        self._clear()
