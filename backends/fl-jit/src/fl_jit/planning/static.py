"""The plan of a whole graph: what ``ft.compile`` runs on this backend.

A plan is made for the strides of its inputs, so there is one for each layout of the state. Numbers
that change from call to call are leaves, and so are positions of random streams.

A generated gather reads where its indices say. Indices that are inputs are checked at each call, as
they are without ``ft.compile``. Those that the graph computes are brought into range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fl_jit.eager.views import strides_of
from fl_jit.extensions import registry
from fl_jit.planning.plan import Plan
from fl_jit.planning.translate import Translation
from fl_jit.steps import lower
from fl_jit.traces.lazy import Stream
from fl_tensor import CPU, dtypes
from fl_tensor.dispatch.stack import CONTROL
from fl_tensor.errors import IndexingError
from fl_tensor.extend import operation_attributes
from fl_tensor.extend.numpy import adapt
from fl_tensor.graph import Constant, Graph, Node, Value
from fl_tensor.graph.host_numbers import HostExpression, evaluator
from fl_tensor.graph.strides import VIEWS

__all__ = ["prepare"]

#: Their results have the same elements as their operand, or some of these.
_ELEMENTS_STAY = VIEWS | {"cast"}


def prepare(
    eager: Any, graph: Graph, names: Sequence[str]
) -> Callable[..., tuple[Any, ...]] | None:
    """A function of adapters, one for each input, and of the numbers ``names``. None where the
    graph has operations that no plan has."""
    translation = _StaticTranslation(eager, graph)
    return None if translation.is_foreign else _StaticExecutable(eager, translation, names)


class _Result:
    """Takes the array of a result."""

    __slots__ = ("array",)


class _StaticExecutable:
    def __init__(self, eager: Any, translation: _StaticTranslation, names: Sequence[str]) -> None:
        self.eager, self.translation = eager, translation
        sources = [source for leaf in translation.numbers for source in leaf.sources]
        self.numbers = evaluator(sources, names)
        self.arrays = translation.arrays
        self.checks = translation.checks
        self.dtypes = [value.dtype for value in translation.graph.outputs]
        self._plans: dict[Any, Plan] = {}

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        count = self.arrays
        leaves = list(inputs[:count])
        for number, size, node in self.checks:
            _check(leaves[number].array, size, node)
        values = iter(self.numbers(*inputs[count:]))
        del inputs
        leaves += [leaf.made(self.eager, values) for leaf in self.translation.numbers]
        key = tuple([strides_of(leaf.array) for leaf in leaves[:count]]), registry.current().version
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = Plan(self.translation, leaves, self.eager, lower.fusible)
        results: list[Any] = [_Result() for _ in self.dtypes]
        plan.run(leaves, results)
        return tuple([adapt(r.array, d) for r, d in zip(results, self.dtypes, strict=True)])


def _check(indices: Any, size: int, node: str) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        raise IndexingError(f"[{node}] an index is out of range for an axis of {size}")


class _NumberLeaf:
    """A number beside arrays."""

    def __init__(self, source: str, dtype: dtypes.DType) -> None:
        self.sources, self.dtype = [source], dtype

    def made(self, eager: Any, values: Any) -> Any:
        return eager.scalar(next(values), self.dtype, CPU)


class _StreamLeaf:
    """The position of a random stream."""

    def __init__(self, seed: Any, offset: Any) -> None:
        self.sources = [str(x) for x in (seed, offset)]

    def made(self, eager: Any, values: Any) -> Any:
        return Stream(int(next(values)), int(next(values)))


class _StaticTranslation(Translation):
    """As ``Translation``, of a graph."""

    def __init__(self, eager: Any, graph: Graph) -> None:
        self.eager, self.source = eager, graph
        self.arrays = len(graph.inputs)
        self.inputs: list[tuple[Value, ...]] = [(value,) for value in graph.inputs]
        self.numbers: list[Any] = []
        self.checks: list[tuple[int, int, str]] = []
        self.is_foreign = False
        self._constants = list(graph.constants)
        self._nodes: list[Node] = []
        self._known: dict[Any, Value] = {}
        self._made = {value: node for node in graph.nodes for value in node.outputs}
        for node in graph.nodes:
            self._add(node)
        self.outputs = list(range(len(graph.outputs)))
        self.first_result = min((v.id for n in graph.nodes for v in n.outputs), default=0)
        self.call_count = len(graph.nodes)
        inputs = [value for values in self.inputs for value in values]
        self.graph = Graph(inputs, self._constants, self._nodes, graph.outputs)

    def _add(self, node: Node) -> None:
        if node.op == "full":
            self._full(node)
        elif node.op == "arange" and not _varies(node):
            arguments = [node.parameters[name] for name in operation_attributes("arange")]
            made = self.eager.arange(*arguments)
            self._constants.append(Constant(node.outputs[0], made.array.tobytes()))
        elif node.op == "random_bits":
            self._random_bits(node)
        elif node.op in CONTROL or len(node.outputs) != 1 or _varies(node):
            self.is_foreign = True
        elif node.op == "slice_update":
            starts = [self._number(start, dtypes.int64) for start in node.parameters["starts"]]
            steps = {"steps": node.parameters["steps"]}
            self._nodes.append(Node(node.op, (*node.operands, *starts), steps, node.outputs))
        elif node.op in ("gather", "scatter"):
            self._indexed(node)
        else:
            self._nodes.append(node)

    def _number(self, value: Any, dtype: dtypes.DType) -> Value:
        # A number as a value, the same one for equal numbers.
        varies = isinstance(value, HostExpression)
        key = (value.source if varies else repr(value), dtype)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.source.value((), dtype)
            if varies:
                self.inputs.append((found,))
                self.numbers.append(_NumberLeaf(value.source, dtype))
            else:
                data = self.eager.full((), value, dtype, CPU).array.tobytes()
                self._constants.append(Constant(found, data))
        return found

    def _full(self, node: Node) -> None:
        (made,) = node.outputs
        number = self._number(node.parameters["value"], made.dtype)
        if made in self.source.outputs:
            spread = self.source.value(made.shape, made.dtype)
            self._nodes.append(Node("broadcast_to", (number,), {"shape": made.shape}, (spread,)))
            self._nodes.append(Node("cast", (spread,), {"dtype": made.dtype}, (made,)))
        else:
            self._nodes.append(Node("broadcast_to", (number,), {"shape": made.shape}, (made,)))

    def _random_bits(self, node: Node) -> None:
        place = node.parameters["seed"], node.parameters["offset"]
        words = tuple([self.source.value((), dtypes.int64) for _ in place])
        self.inputs.append(words)
        self.numbers.append(_StreamLeaf(*place))
        self._nodes.append(Node("random_bits", words, {}, node.outputs))

    def _indexed(self, node: Node) -> None:
        table, indices, *updates = node.operands
        size = table.shape[node.parameters["axis"]]
        origin = self._origin(indices)
        if origin in self.source.inputs:
            self.checks.append((self.source.inputs.index(origin), size, node.op))
        elif size:
            indices = self._within(indices, size)
        self._nodes.append(Node(node.op, (table, indices, *updates), node.parameters, node.outputs))

    def _origin(self, value: Value) -> Value:
        # The array that has the elements of ``value``.
        node = self._made.get(value)
        while node is not None and node.op in _ELEMENTS_STAY and value.dtype.is_integer:
            (value,) = node.operands
            node = self._made.get(value)
        return value

    def _within(self, indices: Value, size: int) -> Value:
        for op, bound in (("maximum", 0), ("minimum", size - 1)):
            limit = self._number(bound, indices.dtype)
            made = self.source.value(indices.shape, indices.dtype)
            spread = self.source.value(indices.shape, indices.dtype)
            self._nodes.append(Node("broadcast_to", (limit,), {"shape": indices.shape}, (spread,)))
            self._nodes.append(Node(op, (indices, spread), {}, (made,)))
            indices = made
        return indices


def _varies(node: Node) -> bool:
    def contains(setting: Any) -> bool:
        if isinstance(setting, HostExpression):
            return True
        return type(setting) is tuple and any(map(contains, setting))

    return any(map(contains, node.parameters.values()))
