"""The intermediate representation: values, nodes, inputs and outputs.

A graph is in single assignment form: every value has a number and is made once, by a node, or is
an input or a constant; nodes stand in an order in which they can run. Operations are those of the
tensor contract, called with the arguments of their signatures there: arrays in ``inputs``, all else
by name in ``parameters``. Writing in place is no part of the meaning: ``donate`` is never recorded.

Values and nodes are not changed once made; passes make new graphs and leave theirs as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from fl_tensor.cached import cached_property
from fl_tensor.device import CPU, Device
from fl_tensor.dtypes import DType
from fl_tensor.roles import Shape


class Value:
    """A result that is known but for its data. ``id`` is unique in its graph."""

    __slots__ = ("device", "dtype", "id", "name", "shape")

    def __init__(self, id: int, shape: Shape, dtype: DType, device: Device, name: str = "") -> None:
        self.id = id
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.name = name

    def __str__(self) -> str:
        return f"%{self.name or self.id}"

    @property
    def type(self) -> str:
        """``float32(2, 3)``."""
        return f"{self.dtype}{self.shape}"


#: An array argument: a value, None where it is absent, several for a sequence of arrays.
Ref: TypeAlias = Value | None | tuple[Value, ...]


class Node:
    """One call of an operation.

    op          its name in the contract
    inputs      its array arguments, in the order of the signature
    parameters  its other arguments by name: ints, floats, bools, strings, tuples, DType, Device
    outputs     its results, in order
    """

    __slots__ = ("inputs", "op", "outputs", "parameters")

    def __init__(
        self,
        op: str,
        inputs: tuple[Ref, ...],
        parameters: Mapping[str, Any],
        outputs: tuple[Value, ...],
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.parameters = parameters
        self.outputs = outputs

    @property
    def operands(self) -> list[Value]:
        """The values that it reads."""
        found: list[Value] = []
        for ref in self.inputs:
            if isinstance(ref, Value):
                found.append(ref)
            elif ref is not None:
                found += ref
        return found

    def __str__(self) -> str:
        from fl_tensor.graph import text

        return text.node(self)


class Constant(NamedTuple):
    """A value with its bytes, in C order and native endianness."""

    value: Value
    data: bytes


class Fixed(NamedTuple):
    """A number that a program computes anew for every step, with the value that it had while the
    graph was recorded: a bias correction, a scheduled rate, the offset of a random stream."""

    name: str
    value: float

    def __str__(self) -> str:
        return f"{self.name} = {self.value:.7g}"


class Graph:
    """A computation from ``inputs`` to ``outputs``; ``reads`` are values whose data Python looked
    at while it was recorded: what came after may depend on it. ``fixed`` are the numbers of that
    one step: where there are any, running the graph again is not the next step."""

    def __init__(
        self,
        inputs: Iterable[Value] = (),
        constants: Iterable[Constant] = (),
        nodes: Iterable[Node] = (),
        outputs: Iterable[Value] = (),
        reads: Iterable[Value] = (),
        fixed: Iterable[Fixed] = (),
    ) -> None:
        self.inputs = list(inputs)
        self.constants = list(constants)
        self.nodes = list(nodes)
        self.outputs = list(outputs)
        self.reads = list(reads)
        self.fixed = list(fixed)

    def value(self, shape: Shape, dtype: DType, device: Device = CPU) -> Value:
        """A new value, for a node that a pass adds: its number is nobody else's in this graph, nor
        in what is made of it by adding such values."""
        return Value(next(self._numbers), shape, dtype, device)

    @cached_property
    def _numbers(self) -> Iterator[int]:
        made = (v.id for node in self.nodes for v in node.outputs)
        given = (v.id for v in (*self.inputs, *(c.value for c in self.constants)))
        return itertools.count(1 + max(itertools.chain(made, given), default=-1))

    def run(self, ops: Any, inputs: Sequence[Any], *, constants: bool = False) -> list[Any]:
        """The outputs for these inputs, computed in the namespace ``ops``: a backend and adapters,
        a tape and variables. See ``graph.execute``.

        constants  run a graph that has ``fixed`` numbers, with these; ArgumentError otherwise
        """
        from fl_tensor.graph import execute

        return execute.run(self, ops, inputs, constants)

    def __call__(self, *inputs: Any, constants: bool = False) -> list[Any]:
        """The outputs for Tensors or Variables, on their backend and through what is active here;
        gradients flow through. ``constants`` as in ``run``."""
        from fl_tensor.graph import execute

        return execute.call(self, inputs, constants)

    def replace(self, **parts: Iterable[Any]) -> Graph:
        """This graph with other ``inputs``, ``constants``, ``nodes``, ``outputs``, ``reads`` or
        ``fixed``; what is not given stays."""
        kept = ("inputs", "constants", "nodes", "outputs", "reads", "fixed")
        return Graph(**{**{name: getattr(self, name) for name in kept}, **parts})

    def prune(self, outputs: Iterable[Value] | None = None) -> Graph:
        """A graph for ``outputs`` (default: this one's) without what they do not need. Inputs stay,
        used or not: they are how the graph is called."""
        from fl_tensor.graph import dce

        return dce.dce(self, self.outputs if outputs is None else list(outputs))

    def extract(self, feeds: Iterable[str | Value], fetches: Iterable[str | Value]) -> Graph:
        """The part that computes ``fetches`` from ``feeds``, as a graph with these inputs and
        outputs, in this order:

            part = graph.extract(feeds=["hidden", "v"], fetches=["logits"])
            (logits,) = part(hidden, v)

        Values are given by name (``ft.named``, names of inputs and of state) or as they are. A feed
        may be any value, and what only it needs is left out. All other inputs that the fetches need
        have to be fed, too.

        Raises ArgumentError for an unknown name, or one of several values; for a fetch that needs
        an input which is not fed; and for a part with numbers that change from call to call.
        """
        from fl_tensor.graph import extract

        return extract.extract(self, feeds, fetches)

    def to_json(self) -> str:
        """The graph as text; constants in base64."""
        from fl_tensor.graph import serialize

        return serialize.to_json(self)

    @staticmethod
    def from_json(text: str) -> Graph:
        """What ``to_json`` wrote; ArgumentError for anything that is no sound graph."""
        from fl_tensor.graph import serialize

        return serialize.from_json(text)

    def to_dot(self) -> str:
        """The graph in Graphviz' language."""
        from fl_tensor.graph import dot

        return dot.dot(self)

    def __str__(self) -> str:
        from fl_tensor.graph import text

        return text.graph(self)
