"""``ft.compile``: a function captured once as a graph, and run without its Python code.

A call with arguments of a new kind runs the function itself: it checks values, and it makes state
that is made at first use. The second such call captures the function (``capture``), and later ones
run the graph. Its kind is all that decides which operations run: shapes, dtypes, plain arguments,
the backend, and settings such as the default dtype.

A function without a graph runs as it is, and ``explain()`` gives the reason.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from fl_tensor import dtypes, interrupts
from fl_tensor.arguments import flag_of, function_of, int_of
from fl_tensor.arrays.array import Array
from fl_tensor.arrays.tensor import Tensor
from fl_tensor.derived_ops import DerivedOps
from fl_tensor.dispatch import registry
from fl_tensor.dispatch.stack import current
from fl_tensor.errors import ArgumentError, CaptureError
from fl_tensor.graph import pytree
from fl_tensor.graph.capture import (
    Capture,
    NumberSlot,
    State,
    TensorSlot,
    capture,
    placeholder,
)
from fl_tensor.graph.closures import places
from fl_tensor.graph.host_numbers import evaluator
from fl_tensor.graph.ir import Graph
from fl_tensor.graph.source import compiled_source
from fl_tensor.random import defaults
from fl_tensor.random.generator import Generator
from fl_tensor.reproducible import is_reproducible

__all__ = ["SETTINGS", "Compiled", "compile", "generator_slots"]

R = TypeVar("R")
#: So many graphs of one function are kept; further kinds of arguments run without one.
MOST = 8
_MOST_KINDS = 1024
#: Of other packages: what decides, beside arguments and state, which operations a function runs.
SETTINGS: list[Callable[[], Hashable]] = []


class Stateless(State):
    """The state of a function of its arguments alone: where the random streams are."""

    owned: tuple[type, ...] = (Generator,)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._found: list[Generator] | None = None

    def _generators(self) -> list[Generator]:
        if self._found is None:
            reached = (place.value for place in places(self._function, self.owned))
            self._found = list({id(x): x for x in reached if isinstance(x, Generator)}.values())
        default = defaults.default_generator()
        return [*(x for x in self._found if x is not default), default]

    def signature(self) -> Hashable:
        return tuple(map(id, self._generators()))

    def slots(self) -> tuple[list[TensorSlot], list[NumberSlot]]:
        slots: list[NumberSlot] = []
        for i, generator in enumerate(self._generators()):
            slots += generator_slots(f"generator{i}", generator)
        return [], slots

    @contextmanager
    def preserved(self) -> Iterator[None]:
        before = [(generator, generator.state()) for generator in self._generators()]
        try:
            yield
        finally:
            for generator, state in before:
                generator.set_state(state)

    def made(self, written: Collection[str]) -> tuple[list[TensorSlot], Callable[[], None]]:
        return [], lambda: None


def generator_slots(name: str, generator: Generator) -> list[NumberSlot]:
    """The seed of a generator, and its place in the stream."""
    return [
        NumberSlot(
            f"{name}.{part}",
            functools.partial(getattr, generator, part),
            functools.partial(setattr, generator, part),
        )
        for part in ("seed", "offset")
    ]


class _Executable:
    """A capture, and its graph as a function over one backend."""

    def __init__(self, captured: Capture, backend: Any, state: State) -> None:
        self.capture, self.backend = captured, backend
        self.tensors, self.numbers = state.slots()
        self.closure = [
            (place.get, tuple(place.value.shape), place.value.dtype) for place in captured.closure
        ]
        self.holds = captured.is_right()
        updates = [source for _, source in captured.updates]
        results = [expression.source for expression in captured.result.expressions]
        self.new_numbers = evaluator([*updates, *results], captured.names)
        self.count = len(captured.graph.outputs) - len(captured.written)
        self.updated = [self.numbers[i] for i, _ in captured.updates]
        self.run = _prepared(captured.graph, backend, captured.names)
        #: Of the inputs of ``run``: slots whose tensors are taken out for the call, and what is in
        #: their place meanwhile.
        self.taken: list[tuple[int, TensorSlot, Tensor]] = []
        if getattr(self.run, "donates", False):
            first = len(captured.graph.inputs) - len(self.tensors) - len(self.closure)
            replaced = {slot.name for slot in captured.written}
            self.taken = [
                (first + i, slot, _absent(slot.get()))
                for i, slot in enumerate(self.tensors)
                if slot.name in replaced
            ]

    def fits(self, numbers: list[Any]) -> bool:
        """Whether it is right for these numbers, and for the arrays around the function."""
        if not self.holds(*numbers):
            return False
        for get, shape, dtype in self.closure:
            try:
                x = get()
                if x._backend is not self.backend or (tuple(x.shape), x.dtype) != (shape, dtype):
                    return False
            except (AttributeError, LookupError, NameError, ValueError):
                return False
        return True

    def __call__(self, arrays: list[Any], numbers: list[Any]) -> Any:
        backend, count = self.backend, self.count
        inputs = [x._tensor().adapter for x in arrays]
        inputs += [slot.get().adapter for slot in self.tensors]
        inputs += [get()._tensor().adapter for get, _, _ in self.closure]
        values = self.new_numbers(*numbers)
        interrupts.hold()
        try:
            try:
                for _, slot, absent in self.taken:
                    slot.put(absent)
                outputs = self.run(inputs, numbers)
            except BaseException:
                for i, slot, _ in self.taken:
                    slot.put(Tensor(inputs[i], backend))
                raise
            interrupts.hold()  # all of the state is replaced, or none
            self.capture.clear()
            for slot, adapter in zip(self.capture.written, outputs[count:], strict=True):
                slot.put(Tensor(adapter, backend))
            for number, value in zip(self.updated, values, strict=False):
                number.put(value)
        finally:
            interrupts.release()
        results = [Tensor(adapter, backend) for adapter in outputs[:count]]
        return self.capture.result.filled(results, values[len(self.updated) :])


def _absent(x: Tensor) -> Tensor:
    # Of the shape and dtype of ``x``, without data.
    return Tensor(placeholder(x).adapter, x._backend)


def _prepared(graph: Graph, backend: Any, names: tuple[str, ...]) -> Callable[..., Any]:
    # Of its own class: a derived one may compute something differently.
    prepare = type(backend).__dict__.get("prepare")
    made = None if prepare is None else prepare(backend, graph, names)
    return made or compiled_source(graph, backend, names)


@functools.cache
def own_operations(backend: Hashable) -> frozenset[str]:
    """The derived operations that a backend writes itself: they stay whole in its graphs."""
    names = (name for name in vars(DerivedOps) if not name.startswith("_"))
    return frozenset(n for n in names if getattr(backend, n) is not getattr(DerivedOps, n))


class Compiled(Generic[R]):
    """A compiled function: see ``compile``.

    calls, compiled_calls   how often it was called, and how often a graph ran
    """

    def __init__(
        self, function: Callable[..., R], state: State, check_every: int = 0, strict: bool = False
    ) -> None:
        self._function, self._state = function_of("compile", function), state
        self._check_every = int_of("compile", check_every, "check_every")
        self._strict = flag_of("compile", strict, "strict")
        if check_every < 0:
            raise ArgumentError(f"[compile] check_every {check_every}: expected 0 or more")
        functools.update_wrapper(self, function)
        self._kinds: set[Hashable] = set()
        self._executables: dict[Hashable, list[_Executable]] = {}
        self._refused: dict[Hashable, str] = {}
        self._log: list[str] = []
        self.calls = self.compiled_calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        self.calls += 1
        if current() is not None:  # layers see every operation of the function itself
            return self._eager(args, kwargs)
        leaves, structure = pytree.flatten((args, kwargs))
        arrays = [x for x in leaves if isinstance(x, Array)]
        backend = arrays[0]._backend if arrays else registry.current_backend()
        try:
            kind = self._kind(arrays, structure, backend)
            key = kind, self._state.signature()
            refused = key in self._refused
        except TypeError as error:  # an argument without a hash
            self._note(f"an argument cannot be compared: {error}")
            return self._eager(args, kwargs)
        if kind not in self._kinds or refused or not backend.has_values:
            if len(self._kinds) < _MOST_KINDS:
                self._kinds.add(kind)
            return self._eager(args, kwargs)
        if self._check_every and self.calls % self._check_every == 0:
            return self._eager(args, kwargs)
        _, slots = self._state.slots()
        numbers = [x for x in leaves if type(x) is float] + [slot.get() for slot in slots]
        executable = self._executable(key, args, kwargs, backend, numbers)
        if executable is None:
            return self._eager(args, kwargs)
        self.compiled_calls += 1
        return executable(arrays, numbers)

    def _eager(self, args: Any, kwargs: Any) -> R:
        result = self._function(*args, **kwargs)
        leaves, structure = pytree.flatten(result)
        values = [x._tensor() if isinstance(x, Array) else x for x in leaves]
        return pytree.unflatten(structure, values)

    def _kind(self, arrays: list[Any], structure: Any, backend: Any) -> Hashable:
        kind = (
            structure,
            tuple([(x._adapter.shape, x._adapter.dtype, x._adapter.device) for x in arrays]),
            backend,
            registry.current_backend(),
            dtypes.default_float(),
            is_reproducible(),
            tuple([setting() for setting in SETTINGS]),
        )
        hash(kind)
        return kind

    def _executable(
        self, key: Hashable, args: Any, kwargs: Any, backend: Any, numbers: list[Any]
    ) -> _Executable | None:
        known = self._executables.setdefault(key, [])
        for executable in known:
            if executable.fits(numbers):
                return executable
        if sum(map(len, self._executables.values())) >= MOST:
            self._note(f"there are {MOST} graphs of other arguments or numbers already", warn=True)
            return None
        try:
            executable = self._captured(args, kwargs, backend)
            if not executable.fits(numbers):
                raise CaptureError("its guards do not hold for its own numbers and variables")
        except Exception as error:
            reason = f"{type(error).__name__}: {error}{_line(error, self._function)}"
            if self._strict:
                name = _name(self._function)
                raise CaptureError(f"[compile] {name} has no graph: {reason}") from error
            self._refused[key] = reason
            self._note(reason)
            return None
        known.append(executable)
        return executable

    def _captured(self, args: Any, kwargs: Any, backend: Any) -> _Executable:
        began = time.perf_counter()
        for x in pytree.flatten((args, kwargs))[0]:
            if isinstance(x, Array) and x._backend is not backend:
                raise CaptureError(
                    f"an argument is on backend {x._backend.name!r}, another one on "
                    f"{backend.name!r}"
                )
        whole = own_operations(backend.__class__)
        captured = capture(self._function, (args, kwargs), self._state, whole)
        executable = _Executable(captured, backend, self._state)
        took = time.perf_counter() - began
        inputs = ", ".join(value.type for value in captured.graph.inputs[:3])
        self._log.append(
            f"captured {len(captured.graph.nodes)} operations in {1e3 * took:.0f} ms for {inputs}"
            f"{', ...' if len(captured.graph.inputs) > 3 else ''}"
        )
        return executable

    def _note(self, reason: str, warn: bool = False) -> None:
        line = f"not compiled: {reason}"
        if line not in self._log:
            self._log.append(line)
            if warn:
                warnings.warn(
                    f"[compile] {_name(self._function)}: {reason}. Other calls run the function "
                    f"itself: pad the arguments to few shapes, or pass what varies as a float",
                    stacklevel=4,
                )

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph for such arguments: its inputs are their arrays and the tensors of the state.
        Raises CaptureError where there is none."""
        leaves, _ = pytree.flatten((args, kwargs))
        arrays = [x for x in leaves if isinstance(x, Array)]
        backend = arrays[0]._backend if arrays else registry.current_backend()
        self._state.signature()  # looks where the state is now
        whole = own_operations(backend.__class__)
        return capture(self._function, (args, kwargs), self._state, whole).graph

    def explain(self) -> str:
        """What was captured, for which arguments, and why something was not."""
        head = f"{_name(self._function)}: {self.compiled_calls} of {self.calls} calls ran a graph"
        return "\n".join([head, *self._log])


def compile(
    function: Callable[..., R], *, check_every: int = 0, strict: bool = False
) -> Compiled[R]:
    """``function``, of tensors, with its operations recorded once and run without its code:

        f = ft.compile(lambda x, y: ft.sum(ft.exp(x) * y))
        f(x, y)                                 # runs the function
        f(x, y)                                 # captures it and runs the graph
        print(f.explain())

    Arguments and results are arrays, and tuples, lists and dicts of them; other arguments, but for
    floats, select a graph of their own. Results are Tensors: a compiled function has no gradient
    outside, and may take gradients inside (``nn.compile`` for a training step).

    check_every  run the function itself at each call of such a number: it checks values, such as
                 class numbers that are too large, as a graph does not
    strict       raise CaptureError where there is no graph; otherwise the function runs as it is,
                 and ``explain()`` says why

    There is no graph of a function that looks at data (``item()``, ``if x > 0:``, printing values),
    or that changes other objects, such as a list or a counter: all that is taken back, and the
    function runs as it is. Arrays in variables around it are read at each call. Under
    ``ft.override`` and wrappers the function itself runs. As ``torch.compile(fullgraph=True)`` and
    ``jax.jit``. Raises DTypeError for what cannot be called.
    """
    return Compiled(function, Stateless(function), check_every, strict)


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _line(error: BaseException, function: Any) -> str:
    # Where in the file of the function an error came up.
    code = getattr(function, "__code__", None)
    found = ""
    trace = error.__traceback__
    while trace is not None and code is not None:
        if trace.tb_frame.f_code.co_filename == code.co_filename:
            found = f" ({code.co_filename}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found
