"""Operations that come from outside: compositions that a deferred backend may keep whole.

An ``Operation`` is a composition with a name. On every backend, on variables, and under overrides
and wrappers it is what it is made of. Deferred execution records it as one call, so that a kernel
can do it as a whole (``kernels.py``); where none does, its graph takes its place.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from fl_tensor import dispatch, frontend, rules
from fl_tensor.backends.jit.codegen import instructions
from fl_tensor.backends.null import NullAdapter
from fl_tensor.device import CPU
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, NoDataError
from fl_tensor.graph.ir import Graph
from fl_tensor.graph.layout import VIEWS
from fl_tensor.graph.reductions import REDUCTIONS
from fl_tensor.wrappers.trace import trace

#: What may be in a composition that is kept whole: results do not depend on when it runs, and no
#: error on data.
_WHOLE = (
    frozenset(instructions.ELEMENTWISE)
    | VIEWS
    | REDUCTIONS
    | frozenset("where cast full concatenate pad matmul conv max_pool avg_pool".split())
)
_NAME = re.compile(r"[a-z]\w*(\.\w+)+", re.ASCII)


class Type(NamedTuple):
    """What is known of an array before it is computed."""

    shape: tuple[int, ...]
    dtype: DType


Parameters: TypeAlias = "tuple[tuple[str, Any], ...]"


class Operation:
    """``compose(ops, x, ..., *, parameter=...)``: adapters in, one adapter out, written with the
    operations of ``ops``. What stands before the star are arrays, what comes after it are plain
    values that can be hashed. Raises ArgumentError for a name without a dot or one that is taken
    (names begin with the package's: ``acme.swiglu``), and for parameters of other kinds.

    name        as nodes have it
    run         ``run(ops, x, ...)``, for those who have a namespace and adapters: gradient rules,
                other compositions
    operation(x, ...)  on Tensors and Variables
    """

    def __init__(self, name: str, compose: Callable[..., Any]) -> None:
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
        self.arity = len(plain)
        self._defaults = {p.name: p.default for p in named if p.default is not p.empty}
        self._parameters = [p.name for p in named]

        @functools.wraps(compose)  # with its signature, which gradient rules go by
        def run(ops: Any, *operands: Any, **parameters: Any) -> Any:
            return self._run(ops, *operands, **parameters)

        self.run = run
        self._graph = functools.lru_cache(maxsize=1024)(self._traced)

    def __call__(self, *arrays: Any, **parameters: Any) -> Any:
        made = frontend.operands_of(self.name, "P" * len(arrays), *arrays)
        lead = made[0]
        return lead._wrap(self.run(lead._ops(), *[x._raw for x in made], **parameters))

    def _run(self, ops: Any, *operands: Any, **parameters: Any) -> Any:
        keep = getattr(type(ops), "keep_whole", None)  # a deferred backend with nothing above it
        if keep is not None:
            kept = keep(ops, self, operands, self._given(parameters))
            if kept is not None:
                return kept
        return self.compose(ops, *operands, **parameters)

    def result(self, operands: Sequence[Any], parameters: Parameters) -> Type | None:
        """The type of the result, None where the operation cannot be kept whole. Raises what the
        composition raises for such operands."""
        graph = self._graph(tuple([Type(x.shape, x.dtype) for x in operands]), parameters)
        return None if graph is None else Type(graph.outputs[0].shape, graph.outputs[0].dtype)

    def body(self, operands: Sequence[Any], parameters: Mapping[str, Any]) -> Graph | None:
        """The composition for operands like these; None where the operation cannot be kept whole:
        what it gives, or the errors that it raises, may depend on when it runs."""
        types = tuple([Type(x.shape, x.dtype) for x in operands])
        return self._graph(types, self._given(parameters))

    def _given(self, parameters: Mapping[str, Any]) -> Parameters:
        found = {**self._defaults, **parameters}
        return tuple([(name, found[name]) for name in self._parameters if name in found])

    def _traced(self, types: tuple[Type, ...], parameters: Parameters) -> Graph | None:
        # In a context of its own: what is active here is no part of the composition.
        return contextvars.Context().run(self._trace, types, parameters)

    def _trace(self, types: tuple[Type, ...], parameters: Parameters) -> Graph | None:
        operands = [NullAdapter(rules.Spec(t.shape, t.dtype, CPU)) for t in types]
        with trace() as graph:
            graph.inputs += [graph.add(x) for x in operands]
            try:
                ops = dispatch.ops_for(dispatch.null_backend())
                result = self.compose(ops, *operands, **dict(parameters))
            except NoDataError:  # it looks at data
                return None
            if not isinstance(result, NullAdapter):
                raise ArgumentError(
                    f"[{self.name}] its composition gave a {type(result).__name__}: expected one "
                    f"result"
                )
            graph.outputs.append(graph.find(result) or graph.add(result))
        small = graph.prune()
        whole = all(
            node.op in _WHOLE and not (node.op == "power" and node.outputs[0].dtype.is_integer)
            for node in small.nodes
        )
        return small if whole and not small.constants else None


_operations: dict[str, Operation] = {}


def operation(name: str, compose: Callable[..., Any]) -> Operation:
    """A new operation of that name. Raises ArgumentError as ``Operation`` does, and where the name
    is taken by another composition; what is registered twice (a module loaded again) is replaced.
    """
    made = Operation(name, compose)
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
