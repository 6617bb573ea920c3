"""``ft.load_graph``: a graph from a file, called as the function that it was recorded of."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any

from fl_tensor.arrays.array import Array
from fl_tensor.arrays.tensor import Tensor, frombytes
from fl_tensor.backend import TensorBackend
from fl_tensor.dispatch import registry
from fl_tensor.dispatch.frontend import supported
from fl_tensor.dispatch.stack import current, ops_for
from fl_tensor.errors import ArgumentError, FileError, FlError
from fl_tensor.files import AnyPath
from fl_tensor.functions.creation import asarray
from fl_tensor.graph import file, trees
from fl_tensor.graph.file_head import Content, Number, Stored
from fl_tensor.graph.host_numbers import evaluator
from fl_tensor.graph.ir import Graph
from fl_tensor.graph.source import compiled_source, prepared

__all__ = ["LoadedGraph", "load_graph"]


def load_graph(path: AnyPath, backend: registry.BackendLike | None = None) -> LoadedGraph:
    """The graph that ``save`` of a compiled function wrote, as a function:

        step = nn.compile(train_step)                     # in one program
        ...
        step.save("step.flgraph", x, y)

        step = ft.load_graph("step.flgraph", "numpy")     # in another one, without the model
        loss = step(x, y)

    It takes arguments of the structure, shapes and dtypes that the graph was saved for, and gives
    Tensors; see ``LoadedGraph``. Neither the function nor its packages are needed. Parameters and
    other state stay in the file, mapped into memory, where the backend reads such memory.

    backend  a name, a backend or its class; by default the one that creates tensors here

    Raises FileError for a file that is missing or no sound graph, as ``get_backend`` for a backend
    that is not there, DTypeError for a dtype that the backend has not. Nothing of a file is
    executed but operations of the contract and arithmetic of numbers.
    """
    found = registry.get_backend(backend)
    return LoadedGraph(path, file.read(path), found)


class _Numbers(MutableMapping[str, Any]):
    """Numbers of the state by name. A new value takes the kind of the old one."""

    def __init__(self, numbers: Mapping[str, Number]) -> None:
        self.held = {number.name: number.value for number in numbers.values()}

    def __getitem__(self, name: str) -> Any:
        return self.held[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self.held:
            known = ", ".join(self.held) or "none"
            raise ArgumentError(f"[load_graph] there is no number {name!r}; there are: {known}")
        if type(value) not in (int, float):
            raise ArgumentError(f"[load_graph] {name} {value!r}: expected a number")
        self.held[name] = type(self.held[name])(value)

    def __delitem__(self, name: str) -> None:
        raise ArgumentError(f"[load_graph] number {name!r} is part of the graph")

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)

    def __repr__(self) -> str:
        return repr(self.held)


class LoadedGraph:
    """A graph from a file, with its state, on a backend.

    graph    the ``graph.Graph``: its inputs are the arrays of the arguments, then tensors of the
             state; its outputs those of the result, then the tensors that take their place
    state    tensors by name: parameters, buffers, what an optimizer keeps. A call replaces those
             that a call of the function replaces; the file stays as it is
    numbers  learning rates, step counts and seeds by name. A call replaces some; all can be set
    """

    graph: Graph

    def __init__(self, path: AnyPath, content: Content, backend: TensorBackend) -> None:
        self._path, self._content, self._backend = os.fspath(path), content, backend
        self.graph = content.graph
        for dtype in {v.dtype for v in _values(self.graph)}:
            supported("load_graph", dtype, backend)
        self._tensors = {name: _tensor(x, backend) for name, x in content.tensors.items()}
        self.state: Mapping[str, Tensor] = MappingProxyType(self._tensors)
        self.numbers = _Numbers(content.numbers)
        self._updated = [content.numbers[symbol].name for symbol in content.updates]
        arrays = trees.count(content.arguments)[0]
        self._types = [(value.shape, value.dtype) for value in self.graph.inputs[:arrays]]
        self._is_plain = trees.is_plain(content.arguments)
        results = trees.expressions(content.result)
        symbols = content.symbols
        self._values = evaluator([*content.updates.values(), *results], symbols)
        self._guards = evaluator(content.guards, symbols)
        self._wanted = tuple(content.guards.values())
        self._run = self._guarded(lambda: prepared(self.graph, backend, symbols))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result for such arguments. Raises ArgumentError for others."""
        inputs, floats = self._inputs(args, kwargs)
        numbers = [*floats, *self.numbers.held.values()]
        run = self._run
        if current() is not None:  # layers see every operation
            run = compiled_source(self.graph, ops_for(self._backend), self._content.symbols)
        return self._guarded(lambda: self._called(run, inputs, numbers))

    def _called(self, run: Callable[..., Any], inputs: list[Any], numbers: list[Any]) -> Any:
        if self._wanted and self._guards(*numbers) != self._wanted:
            raise self._misses(numbers)
        values = self._values(*numbers)
        updated = len(self._updated)
        if updated:
            _check_numbers(self._updated, values)
        content, tensors, backend = self._content, self._tensors, self._backend
        inputs += [tensors[name]._adapter for name in content.inputs]
        outputs = run(inputs, numbers)
        end = len(outputs) - content.assumed
        if not all(Tensor(flag, backend).item() for flag in outputs[end:]):
            raise ArgumentError(
                "[load_graph] a check of values that the graph takes for true is false, such as "
                "of infinite gradients: only the function itself can go on. The state is as before"
            )
        count = end - len(content.written)
        for name, adapter in zip(content.written, outputs[count:end], strict=True):
            tensors[name] = Tensor(adapter, backend)
        for name, value in zip(self._updated, values, strict=False):
            self.numbers.held[name] = value
        results = [Tensor(adapter, backend) for adapter in outputs[:count]]
        return content.result.filled(results, values[updated:])

    def _guarded(self, compute: Callable[[], Any]) -> Any:
        # A backend may refuse what only a file from elsewhere asks for, in words of its own.
        try:
            return compute()
        except FlError:
            raise
        except Exception as error:
            reason = f"its graph cannot be computed ({type(error).__name__}: {error})"
            raise FileError(errno.EINVAL, reason, self._path) from error

    def _misses(self, numbers: list[Any]) -> ArgumentError:
        found = self._guards(*numbers)
        wrong = [
            f"{source} is {value!r}, and was {wanted!r}"
            for (source, wanted), value in zip(self._content.guards.items(), found, strict=True)
            if value != wanted
        ]
        symbols = [f"{s} is {n.name}" for s, n in self._content.numbers.items()]
        return ArgumentError(
            f"[load_graph] the function decides by its numbers, and has another graph for these: "
            f"{'; '.join(wrong[:4])} ({', '.join(symbols[:8]) or 'floats of the arguments'}): save "
            f"that one, too"
        )

    def _inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        backend = self._backend
        if self._is_plain and not kwargs and len(args) == len(self._types):  # the short way
            found = []
            for i, (x, (shape, dtype)) in enumerate(zip(args, self._types, strict=True)):
                if x.__class__ is Tensor and x._backend is backend:
                    adapter = x._adapter
                    if adapter.shape == shape and adapter.dtype is dtype:
                        found.append(adapter)
                        continue
                found.append(self._adapter(f"argument {i}", x, shape, dtype))
            return found, []
        given, floats = trees.leaves_of(self._content.arguments, args, kwargs)
        pairs = zip(given, self._types, strict=True)
        return [self._adapter(place, x, *wanted) for (place, x), wanted in pairs], floats

    def _adapter(self, place: str, x: Any, shape: Any, dtype: Any) -> Any:
        if not isinstance(x, Array):
            x = asarray(x, backend=self._backend)
        x = x._tensor()
        if x.backend is not self._backend:
            raise ArgumentError(
                f"[load_graph] {place} is on backend {x.backend.name!r}, the graph is on "
                f"{self._backend.name!r}: move it with x.to({self._backend.name!r})"
            )
        if (tuple(x.shape), x.dtype) != (shape, dtype):
            raise ArgumentError(
                f"[load_graph] {place} is {x.dtype}{tuple(x.shape)}, the graph was saved for "
                f"{dtype}{shape}"
            )
        return x._adapter

    def __repr__(self) -> str:
        size = sum(x.data.nbytes for x in self._content.tensors.values())
        return (
            f"LoadedGraph({self._path!r}: {self._content.name}, {len(self._types)} arrays in, "
            f"{len(self.graph.nodes)} operations, {len(self._tensors)} tensors of "
            f"{size / 1e6:.3g} MB, on {self._backend.name})"
        )

    def explain(self) -> str:
        """Arguments, results, state and numbers, with shapes and sizes."""
        content, graph = self._content, self.graph
        count = len(graph.outputs) - len(content.written) - content.assumed
        lines = [repr(self)]
        lines += [f"argument {i}: {v.type}" for i, v in enumerate(graph.inputs[: len(self._types)])]
        lines += [f"result {i}: {v.type}" for i, v in enumerate(graph.outputs[:count])]
        for name, x in content.tensors.items():
            does = "replaced by each call" if name in content.written else "read"
            lines.append(f"state {name}: {x.dtype}{x.shape}, {x.data.nbytes:,} bytes, {does}")
        for symbol, number in content.numbers.items():
            becomes = f", then {content.updates[symbol]}" if symbol in content.updates else ""
            lines.append(f"number {number.name} ({symbol}): {self.numbers[number.name]}{becomes}")
        return "\n".join(lines)


def _values(graph: Graph) -> Iterator[Any]:
    yield from graph.inputs
    yield from (each.value for each in graph.constants)
    for node in graph.nodes:
        yield from node.outputs


def _check_numbers(names: list[str], values: tuple[Any, ...]) -> None:
    for name, value in zip(names, values, strict=False):
        if type(value) not in (int, float) or (type(value) is int and abs(value) >> 64):
            raise ArgumentError(f"[load_graph] number {name} is no float and no int of 64 bits")


def _tensor(x: Stored, backend: TensorBackend) -> Tensor:
    """A tensor over the file, where the backend reads such memory, else of a copy."""
    place = backend.devices()[0]
    if type(backend).from_dlpack is not TensorBackend.from_dlpack and x.data.nbytes:
        from fl_tensor.exchange.dlpack import Lent
        from fl_tensor.exchange.mapped import array

        adapter = backend.from_dlpack(Lent(array(x.data, x.shape, x.dtype, x.order)), place)
        if adapter is not None:
            return Tensor(adapter, backend)
    data: Any = x.data
    if x.order != tuple(range(len(x.shape))):
        from fl_tensor.exchange.arrays import to_bytes
        from fl_tensor.exchange.mapped import array

        data = to_bytes(array(x.data, x.shape, x.dtype, x.order))
    return frombytes(data, x.shape, x.dtype, place, backend)
