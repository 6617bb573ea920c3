"""Operations that come from outside: compositions that a deferred backend may keep whole.

An ``Operation`` is a composition with a name. On every backend, on variables, and under overrides
and wrappers it is what it is made of. Deferred execution records it as one call, so that a kernel
can do it as a whole (``kernels.py``); where none does, its graph takes its place.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from fl_tensor import frontend
from fl_tensor.backends.jit.tracing import Type, graph_of
from fl_tensor.backends.null import NullAdapter
from fl_tensor.errors import ArgumentError
from fl_tensor.graph.ir import Graph

_NAME = re.compile(r"[a-z]\w*(\.\w+)+", re.ASCII)


Parameters: TypeAlias = "tuple[tuple[str, Any], ...]"


class Operation:
    """``compose(ops, x, ..., *, parameter=...)``: adapters in, one adapter out, written with the
    operations of ``ops``. What stands before the star are arrays, what comes after it are plain
    values that can be hashed.

    name   as nodes have it, the package first: ``acme.swiglu``
    roles  a letter for each array (``fl_tensor.roles``): P, the default, for those that are
           promoted to one dtype, A for those that are taken as they are
    run    ``run(ops, x, ...)``, for those who have a namespace and adapters: gradient rules, other
           compositions. ``operation(x, ...)`` takes Tensors and Variables
    """

    def __init__(self, name: str, compose: Callable[..., Any], roles: str = "") -> None:
        if not _NAME.fullmatch(name):
            raise ArgumentError(
                f"[operation] {name!r}: expected the name of a package, a dot, a name, such as "
                f"'acme.swiglu'"
            )
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
        if len(self.roles) != len(plain):
            raise ArgumentError(f"[operation] {name}: roles {roles!r} of {len(plain)} arrays")

        @functools.wraps(compose)  # with its signature, which gradient rules go by
        def run(ops: Any, *operands: Any, **parameters: Any) -> Any:
            return self._run(ops, *operands, **parameters)

        self.run = run
        self._graph = functools.lru_cache(maxsize=1024)(self._traced)

    def __call__(self, *arrays: Any, **parameters: Any) -> Any:
        operands, given = self._sorted(arrays, parameters)
        made = frontend.operands_of(self.name, self.roles, *operands)
        lead = made[0]
        return lead._wrap(self._run(lead._ops(), *[x._raw for x in made], **dict(given)))

    def _run(self, ops: Any, *arguments: Any, **parameters: Any) -> Any:
        operands, given = self._sorted(arguments, parameters)
        keep = getattr(type(ops), "keep_whole", None)  # a deferred backend with nothing above it
        kept = None if keep is None else keep(ops, self, operands, given)
        return self.compose(ops, *operands, **dict(given)) if kept is None else kept

    def _sorted(
        self, arguments: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Parameters]:
        # Arrays, and the other arguments in order; those may be given by position, too.
        count = len(self.roles)
        found = {**self._defaults, **dict(zip(self._defaults, arguments[count:])), **named}
        missing = [name for name, value in found.items() if value is inspect.Parameter.empty]
        many = len(arguments) > count + len(self._defaults)
        if len(arguments) < count or many or missing or len(found) > len(self._defaults):
            wanted = str(inspect.signature(self.compose)).partition(", ")[2]
            raise ArgumentError(
                f"[{self.name}] {len(arguments)} arguments and {sorted(named)} by name: expected "
                f"({wanted}"
            )
        return arguments[:count], tuple(found.items())

    def result(self, operands: Sequence[Any], parameters: Parameters) -> Type | None:
        """The type of the result, None where the operation cannot be kept whole. Raises what the
        composition raises for such operands."""
        graph = self._graph(tuple([Type(x.shape, x.dtype) for x in operands]), parameters)
        return None if graph is None else Type(graph.outputs[0].shape, graph.outputs[0].dtype)

    def body(self, operands: Sequence[Any], parameters: Mapping[str, Any]) -> Graph | None:
        """The composition for operands like these; None where the operation cannot be kept whole:
        what it gives, or the errors that it raises, may depend on when it runs."""
        types = tuple([Type(x.shape, x.dtype) for x in operands])
        return self._graph(types, self._sorted(tuple(operands), parameters)[1])

    def _traced(self, types: tuple[Type, ...], parameters: Parameters) -> Graph | None:
        def compute(ops: Any, operands: Sequence[Any]) -> Sequence[Any]:
            result = self.compose(ops, *operands, **dict(parameters))
            if not isinstance(result, NullAdapter):
                raise ArgumentError(
                    f"[{self.name}] its composition gave a {type(result).__name__}: expected one "
                    f"result"
                )
            return (result,)

        return graph_of(compute, types)


_operations: dict[str, Operation] = {}


def operation(name: str, compose: Callable[..., Any], roles: str = "") -> Operation:
    """A new ``Operation``. Raises ArgumentError for a name without a dot, or one that another
    composition has (a module that is loaded again replaces its own), and for a composition with
    parameters of other kinds."""
    made = Operation(name, compose, roles)
    before = _operations.get(name)
    if before is not None and _origin(before.compose) != _origin(compose):
        raise ArgumentError(f"[operation] {name!r} is taken by {_origin(before.compose)}")
    _operations[name] = made
    return made


def find(name: str) -> Operation | None:
    """The operation of that name, None for those of the contract."""
    return _operations.get(name) if "." in name else None


def _origin(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
