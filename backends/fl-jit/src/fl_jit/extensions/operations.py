"""Custom operations: compositions that a deferred backend may record as one call.

An ``Operation`` is a composition with a name. On other backends, on variables, and under overrides
and wrappers, the composition runs. Deferred execution records the operation as one call, so that
one kernel can compute it (``kernels.py``). Without such a kernel, the graph of the composition
replaces it.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from fl_jit.kernels.registration import function
from fl_jit.traces.cache_keys import exact
from fl_jit.traces.tracing import Type, graph_of
from fl_tensor import TensorAdapter, errors, get_backend, ops_for
from fl_tensor.errors import ArgumentError, DTypeError, FlError
from fl_tensor.extend import Preconditions, apply_operation, through
from fl_tensor.graph import Graph

_NAME = re.compile(r"[a-z]\w*(\.\w+)+", re.ASCII)
_ROLES = "APNFIZQRS"

Parameters: TypeAlias = "tuple[tuple[str, Any], ...]"


class Operation:
    """``compose(ops, x, ..., *, parameter=...)``: a function of adapters with one adapter as
    result, written with the operations of ``ops``. Parameters before the star are arrays, those
    behind it are plain hashable values.

    name   as in nodes, the package first: ``acme.swiglu``
    roles  a letter for each array (``fl_tensor.roles``): P, the default, for those that are
           promoted to one dtype, F or S for those that become floating where they are integers,
           A for those that keep their dtype
    run    ``run(ops, x, ...)``, for callers with a namespace and adapters: gradient rules, other
           compositions. ``operation(x, ...)`` takes Tensors and Variables

    For operands of new shapes and dtypes, the composition first runs without data. If one of its
    operations rejects its operands, that is a DTypeError or ShapeError of this operation. A
    composition that reads data is checked operation by operation, every time.
    """

    def __init__(self, name: str, compose: Callable[..., Any], roles: str = "") -> None:
        if not _NAME.fullmatch(name):
            raise ArgumentError(
                f"[operation] {name!r}: expected the name of a package, a dot, a name, such as "
                f"'acme.swiglu'"
            )
        function(f"[operation] the composition of {name}", compose)
        _, *given = inspect.signature(compose).parameters.values()
        plain = [p for p in given if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
        named = [p for p in given if p.kind is p.KEYWORD_ONLY]
        if not plain or len(plain) + len(named) != len(given):
            raise ArgumentError(
                f"[operation] {name}: expected compose(ops, x, ..., *, parameter=...), arrays "
                f"before the star and plain values after it"
            )
        self.name = name
        self.compose = compose
        self.roles = roles or "P" * len(plain)
        self._defaults = {p.name: p.default for p in named}
        if len(self.roles) != len(plain) or not set(self.roles) <= set(_ROLES):
            raise ArgumentError(
                f"[operation] {name}: roles {roles!r} of {len(plain)} arrays: expected a letter of "
                f"{_ROLES!r} for each (fl_tensor.roles)"
            )
        self._names = [p.name for p in plain]

        @functools.wraps(compose)  # with its signature, which gradient rules use
        def run(ops: Any, *operands: Any, **parameters: Any) -> Any:
            return self._run(ops, *operands, **parameters)

        run.roles = self.roles  # type: ignore[attr-defined]
        self.run = run
        self._trace = functools.lru_cache(maxsize=1024)(self._traced)

    def __call__(self, *arrays: Any, **parameters: Any) -> Any:
        operands, given = self._bound(arrays, parameters)
        run = functools.partial(self._run, **dict(given))
        return apply_operation(self.name, self.roles, run, *operands)

    def _run(self, ops: Any, *arguments: Any, **parameters: Any) -> Any:
        operands, given = self._bound(arguments, parameters)
        trace = self._cached_trace(operands, given)
        # A deferred backend with no layer above it has this method.
        record = getattr(type(ops), "_record_operation", None)
        recorded = None if record is None else record(ops, self, operands, given)
        if recorded is not None:
            return recorded
        if trace.complete:
            return self.compose(ops, *operands, **dict(given))
        layer = Preconditions()
        namespace = through(layer, ops)
        if namespace is not None:
            return self.compose(namespace, *operands, **dict(given))
        with layer:  # a tape, which takes the backend's operations when it is called
            return self.compose(ops, *operands, **dict(given))

    def _bound(
        self, arguments: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Parameters]:
        # The arrays, and the other arguments in order, which may be positional, too.
        count = len(self.roles)
        values = {**self._defaults, **dict(zip(self._defaults, arguments[count:])), **named}
        missing = [name for name, value in values.items() if value is inspect.Parameter.empty]
        too_many = len(arguments) > count + len(self._defaults)
        if len(arguments) < count or too_many or missing or len(values) > len(self._defaults):
            expected = str(inspect.signature(self.compose)).partition(", ")[2]
            raise ArgumentError(
                f"[{self.name}] {len(arguments)} arguments and {sorted(named)} by name: expected "
                f"({expected}"
            )
        return arguments[:count], exact(tuple(values.items()))

    def result(self, operands: Sequence[Any], parameters: Parameters) -> Type | None:
        """The type of the result, or None if the operation cannot be recorded as one call. Raises
        the errors of the composition for such operands."""
        graph = self._cached_trace(operands, parameters).graph
        return None if graph is None else Type(graph.outputs[0].shape, graph.outputs[0].dtype)

    def body(self, operands: Sequence[Any], parameters: Mapping[str, Any]) -> Graph | None:
        """The graph of the composition for such operands, or None.

        None: the operation cannot be recorded as one call, since its result or its errors may
        depend on the time at which it runs.
        """
        return self._cached_trace(operands, self._bound(tuple(operands), parameters)[1]).graph

    def _cached_trace(self, operands: Sequence[Any], parameters: Parameters) -> _Trace:
        # The trace of the composition for such operands, which is cached.
        types = tuple([Type(x.shape, x.dtype) for x in operands])
        try:
            return self._trace(types, parameters)
        except FlError as error:
            raise self._with_operands(error, types) from error
        except TypeError:
            self._check_hashable(parameters)
            raise

    def _traced(self, types: tuple[Type, ...], parameters: Parameters) -> _Trace:
        complete = False

        def compute(_: Any, operands: Sequence[Any]) -> Sequence[Any]:
            nonlocal complete
            with Preconditions():
                ops = ops_for(get_backend("null"))
                result = self.compose(ops, *operands, **dict(parameters))
            if not isinstance(result, TensorAdapter):
                raise ArgumentError(
                    f"its composition gave a {type(result).__name__}: expected one result"
                )
            complete = True
            return (result,)

        return _Trace(graph_of(compute, types), complete)

    def _with_operands(self, error: FlError, types: Sequence[Type]) -> FlError:
        # The same error, naming the operation and its operands.
        if type(error).__module__ != errors.__name__:
            return error  # from another package, whose constructor may differ
        given = [f"{n} {t.dtype}{t.shape}" for n, t in zip(self._names, types)]
        out = ""
        if isinstance(error, DTypeError):
            out = "; cast operands with astype, or give the operation roles (ft.jit.operation)"
        return type(error)(f"[{self.name}] {', '.join(given)}: {error}{out}")

    def _check_hashable(self, parameters: Parameters) -> None:
        for name, value in parameters:
            try:
                hash(value)
            except TypeError as error:
                raise ArgumentError(
                    f"[{self.name}] {name} is a {type(value).__name__}, which has no hash: "
                    f"expected a plain value, such as a number, a string or a tuple of these"
                ) from error


class _Trace(NamedTuple):
    # A trace of a composition without data. ``graph`` is None if the operation cannot be recorded
    # as one call. ``complete``: the whole composition ran, so that all operands and parameters are
    # valid.
    graph: Graph | None
    complete: bool


_operations: dict[str, Operation] = {}


def operation(name: str, compose: Callable[..., Any], roles: str = "") -> Operation:
    """A new ``Operation`` with these parameters.

    Raises ArgumentError for a name without a dot, or one that another composition has. A module
    that is reloaded replaces its own. Also raises ArgumentError for a composition with parameters
    of other kinds, and for unknown roles.
    """
    made = Operation(name, compose, roles)
    before = _operations.get(name)
    if before is not None and _origin(before.compose) != _origin(compose):
        raise ArgumentError(f"[operation] {name!r} is taken by {_origin(before.compose)}")
    _operations[name] = made
    return made


def find(name: str) -> Operation | None:
    """The custom operation of that name, or None."""
    return _operations.get(name) if "." in name else None


def _origin(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
