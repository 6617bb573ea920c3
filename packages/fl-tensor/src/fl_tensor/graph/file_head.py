"""Reader of the head of a graph file.

The head is untrusted. Every entry is compared with the size of the file, with the contract of the
operations, and with the other entries. Arrays and functions are made after that.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError
from fl_tensor.graph import expressions, trees
from fl_tensor.graph.ir import Graph, Node, Value
from fl_tensor.graph.pytree import Structure
from fl_tensor.graph.serialize import _decode, _Reader
from fl_tensor.graph.verify import Verifier, expressions_of

__all__ = ["ALIGNMENT", "VERSION", "Content", "Head", "Number", "Stored"]

VERSION, ALIGNMENT = 1, 64
#: Characters of a name; constants up to so many bytes are copied out of the file.
_NAME, _SMALL = 500, 4096


class Stored(NamedTuple):
    """An array of a file: its bytes are in C order of the axes ``order``."""

    shape: tuple[int, ...]
    dtype: DType
    order: tuple[int, ...]
    data: memoryview


class Number(NamedTuple):
    """A number of the host that is state."""

    name: str
    value: Any


class Content(NamedTuple):
    """The content of a file.

    name       of the function
    arguments  the structure of its arguments: positional, by keyword
    result     the structure of its result
    graph      inputs: arrays of the arguments, then ``inputs``; outputs: arrays of the result,
               ``written``, and ``assumed`` flags, which it takes for true
    tensors    the state, by name
    numbers    host numbers of the state, by their symbols
    updates    sources of their new values, by symbol
    guards     values that expressions must have
    """

    name: str
    arguments: Structure
    result: Structure
    graph: Graph
    inputs: tuple[str, ...]
    written: tuple[str, ...]
    tensors: dict[str, Stored]
    numbers: dict[str, Number]
    updates: dict[str, str]
    guards: dict[str, Any]
    assumed: int = 0

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of all host numbers: those of arguments, then those of the state."""
        return *_argument_symbols(self.arguments), *self.numbers


def _argument_symbols(arguments: Structure) -> tuple[str, ...]:
    return tuple([f"n{i}" for i in range(trees.count(arguments)[1])])


class Head(_Reader):
    """Reads a head. ``place`` says where it is."""

    def __init__(self, size: int, view: Callable[[int, int], memoryview]) -> None:
        super().__init__()
        self.size, self.view = size, view
        self.place = "the head"
        self.spans: list[tuple[int, int]] = []
        self.verifier = Verifier()

    def content(self, head: Any) -> Content:
        if head["version"] != VERSION:
            raise ArgumentError(
                f"it has version {head['version']!r}, and {VERSION} is read here: a newer "
                f"fl-tensor wrote it"
            )
        if head["byteorder"] != sys.byteorder:
            raise ArgumentError(f"its bytes are {head['byteorder']!r}-endian")
        if head["size"] != self.size:
            raise ArgumentError(f"{self.size} bytes of data follow, and were {head['size']!r}")
        arguments, result = self.structures(head)
        tensors = self.tensors(head["tensors"])
        graph = self.graph(head["graph"])
        self.place = "its state"
        inputs, written = (self.names(head[key], key) for key in ("inputs", "written"))
        self.check_inputs(graph, arguments, inputs, tensors)
        self.check_outputs(graph, result, written, tensors, head["assumed"])
        self.check_spans()
        numbers = self.numbers(head["numbers"], arguments)
        updates, guards = self.expressions(head, graph, numbers, arguments, result)
        name = self.name(head["name"])
        return Content(
            name,
            arguments,
            result,
            graph,
            inputs,
            written,
            tensors,
            numbers,
            updates,
            guards,
            head["assumed"],
        )

    # ---- structures and state -----------------------------------------------------------------

    def structures(self, head: Any) -> tuple[Structure, Structure]:
        self.place = "the structure of its arguments"
        arguments = trees.read(head["arguments"])
        parts = getattr(arguments.tree, "parts", ())
        kinds = [getattr(part, "kind", None) for part in parts]
        if kinds != [tuple, dict] or trees.expressions(arguments):
            raise ArgumentError("these are no positional ones and keywords")
        self.place = "the structure of its result"
        result = trees.read(head["result"])
        if trees.count(result)[1]:
            raise ArgumentError("a float has no value")
        return arguments, result

    def name(self, name: Any) -> str:
        if not isinstance(name, str) or len(name) > _NAME or not name.isprintable():
            raise ArgumentError(f"{str(name)[:60]!r} is no name")
        return name

    def names(self, names: Any, what: str) -> tuple[str, ...]:
        found = tuple([self.name(name) for name in names])
        if len(set(found)) != len(found):
            raise ArgumentError(f"{what} names a tensor twice")
        return found

    def tensors(self, entries: Any) -> dict[str, Stored]:
        found: dict[str, Stored] = {}
        for entry in entries:
            self.place = "its tensors"
            name = self.name(entry["name"])
            self.place = f"tensor {name!r}"
            if name in found:
                raise ArgumentError("it is there twice")
            shape, order = tuple(entry["shape"]), tuple(entry["order"])
            if not all(type(n) is int and n >= 0 for n in (*shape, *order)):
                raise ArgumentError("its shape and order are not counts")
            if sorted(order) != list(range(len(shape))):
                raise ArgumentError(f"its order is no order of {len(shape)} axes")
            dtype = dtypes.ALL[entry["dtype"]]
            value = Value(0, shape, dtype, None)  # type: ignore[arg-type]
            self.verifier.value(value)
            found[name] = Stored(shape, dtype, order, self.bytes(entry["offset"], value))
        return found

    def bytes(self, start: Any, value: Value) -> memoryview:
        """The bytes of an array. Raises ArgumentError where the file has not so many there."""
        size = math.prod(value.shape) * value.dtype.itemsize
        if type(start) is not int or start < 0 or start % ALIGNMENT or start + size > self.size:
            raise ArgumentError(
                f"{size} bytes from {str(start)[:24]} of {self.size}: the file was cut, or this is "
                f"no multiple of {ALIGNMENT} in it"
            )
        if size:
            self.spans.append((start, start + size))
        data = self.view(start, size)
        if value.dtype is dtypes.bool and bytes(data).strip(b"\0\1"):
            raise ArgumentError("it is bool and has bytes other than 0 and 1")
        return data

    def check_spans(self) -> None:
        end = 0
        for start, stop in sorted(self.spans):
            if start < end:
                raise ArgumentError(f"two arrays have byte {start} of the data")
            end = stop

    # ---- the graph ----------------------------------------------------------------------------

    def graph(self, data: Any) -> Graph:
        self.place = "the graph"
        made = super().graph(data)
        for value in made.inputs:
            self.verifier.value(value)
        self.place = "the graph"
        if made.reads or made.fixed:
            raise ArgumentError("it looks at data, or is of one step alone")
        return made

    def content_of(self, value: Value, data: Any) -> Any:
        self.place = f"constant {value.id}"
        self.verifier.value(value)
        found = self.bytes(data["offset"], value)
        return bytes(found) if len(found) <= _SMALL else found

    def node(self, data: Any) -> Node:
        self.place = f"operation {str(data['op'])[:40]!r} of value {_first_output(data)}"
        made = super().node(data)
        self.verifier.node(made)
        return made

    def check_inputs(
        self,
        graph: Graph,
        arguments: Structure,
        inputs: tuple[str, ...],
        tensors: Mapping[str, Stored],
    ) -> None:
        count = trees.count(arguments)[0]
        if len(graph.inputs) != count + len(inputs):
            raise ArgumentError(
                f"the graph has {len(graph.inputs)} inputs, for {count} arrays among the arguments "
                f"and {len(inputs)} of the state"
            )
        for name, value in zip(inputs, graph.inputs[count:], strict=True):
            _check_type(name, tensors[name], value)

    def check_outputs(
        self,
        graph: Graph,
        result: Structure,
        written: tuple[str, ...],
        tensors: Mapping[str, Stored],
        assumed: Any,
    ) -> None:
        count = trees.count(result)[0]
        end = count + len(written)
        if type(assumed) is not int or assumed < 0 or len(graph.outputs) != end + assumed:
            raise ArgumentError(
                f"the graph has {len(graph.outputs)} outputs, for {count} arrays of the result and "
                f"{len(written)} of the state"
            )
        if any(v.shape or v.dtype is not dtypes.bool for v in graph.outputs[end:]):
            raise ArgumentError("a flag that the graph takes for true is no single bool")
        for name, value in zip(written, graph.outputs[count:], strict=False):
            if name in tensors:
                _check_type(name, tensors[name], value)

    # ---- numbers ------------------------------------------------------------------------------

    def numbers(self, entries: Any, arguments: Structure) -> dict[str, Number]:
        self.place = "its numbers"
        found: dict[str, Number] = {}
        taken = set(_argument_symbols(arguments))
        for symbol, name, encoded in entries:
            value = _decode(encoded)
            if symbol in taken or expressions.names_in(symbol) != {symbol}:
                raise ArgumentError(f"{symbol[:40]!r} is no symbol of a number, or there twice")
            if type(value) not in (int, float) or (type(value) is int and abs(value) >> 64):
                raise ArgumentError(f"{symbol} is no float and no int of 64 bits")
            taken.add(symbol)
            found[symbol] = Number(self.name(name), value)
        if len({number.name for number in found.values()}) != len(found):
            raise ArgumentError("two numbers have one name")
        return found

    def expressions(
        self,
        head: Any,
        graph: Graph,
        numbers: Mapping[str, Number],
        arguments: Structure,
        result: Structure,
    ) -> tuple[dict[str, str], dict[str, Any]]:
        self.place = "the expressions of its numbers"
        given = _argument_symbols(arguments)
        names = {*given, *numbers}
        updates: dict[str, str] = {}
        for symbol, source in head["updates"]:
            if symbol not in numbers or symbol in updates:
                raise ArgumentError(f"there is no number {str(symbol)[:40]!r} to update, or twice")
            updates[symbol] = expressions.check(source, names, names)
        values = dict.fromkeys(given, 0.0) | {s: number.value for s, number in numbers.items()}
        floats = expressions.floats_of(values, updates)
        guards: dict[str, Any] = {}
        for source, encoded in head["guards"]:
            value = guards[expressions.check(source, names, floats)] = _decode(encoded)
            if type(value) not in (bool, int, float, complex):
                raise ArgumentError(f"a guard is a {type(value).__name__}")
        sources = [s for n in graph.nodes for p in n.parameters.values() for s in expressions_of(p)]
        for source in (*updates.values(), *sources, *trees.expressions(result)):
            expressions.check(source, names, floats)
        return updates, guards


def _first_output(data: Any) -> Any:
    return data["outputs"][0]["id"] if data["outputs"] else "none"


def _check_type(name: str, tensor: Stored, value: Value) -> None:
    if (tensor.shape, tensor.dtype) != (value.shape, value.dtype):
        raise ArgumentError(
            f"tensor {name!r} is {tensor.dtype}{tensor.shape}, and the graph has {value.type} there"
        )
