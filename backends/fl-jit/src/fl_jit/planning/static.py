"""The plan of a whole graph: what ``ft.compile`` runs on this backend.

A plan is made for the strides of its inputs, so there is one for each layout of the state. Numbers
that change from call to call are leaves, and so are positions of random streams. The second run of
a plan gives it fixed memory (``static_program``).

A generated gather reads where its indices say. Indices that are inputs are checked at each call, as
they are without ``ft.compile``. Those that the graph computes are brought into range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fl_jit.eager.views import strides_of
from fl_jit.extensions import registry
from fl_jit.planning import static_program
from fl_jit.planning.plan import Plan
from fl_jit.planning.static_program import StaticProgram
from fl_jit.planning.translate import Translation
from fl_jit.steps import lower
from fl_jit.traces.invalidated import Overwritten
from fl_jit.traces.lazy import Stream, invalid
from fl_jit.traces.tracing import Type, graph_of
from fl_memory import current
from fl_tensor import CPU, dtypes
from fl_tensor.errors import IndexingError
from fl_tensor.extend import operation_attributes
from fl_tensor.extend.numpy import adapt
from fl_tensor.graph import Constant, Graph, Node, Value
from fl_tensor.graph.control import CONTROL, scan
from fl_tensor.graph.host_numbers import HostExpression, evaluator
from fl_tensor.graph.inline import inline
from fl_tensor.graph.strides import VIEWS

__all__ = ["prepare"]

#: Their results have the same elements as their operand, or some of these.
_ELEMENTS_STAY = VIEWS | {"cast"}


def prepare(
    eager: Any, graph: Graph, names: Sequence[str]
) -> Callable[..., tuple[Any, ...]] | None:
    """A function of the inputs, as a list of adapters, and of the numbers ``names``. Inputs that
    only the list refers to may be overwritten. None where the graph has operations that no plan
    has."""
    translation = _StaticTranslation(eager, inline(graph, _unrolled))
    return None if translation.is_foreign else _StaticExecutable(eager, translation, names)


#: Steps of a recurrence, and operations of all steps of a scan, up to which these become operations
#: of the graph. They run without Python between them. Making a plan takes about a millisecond an
#: operation.
_MOST_STEPS, _MOST_OPERATIONS = 128, 4096


def _unrolled(node: Node) -> Graph | None:
    """The operations of all steps of a loop with a known number of them."""
    types = [Type(v.shape, v.dtype) for v in node.operands]
    given = dict(node.parameters)
    if node.op == "recurrent" and types[0].shape[0] <= _MOST_STEPS:

        def steps(ops: Any, operands: Sequence[Any]) -> list[Any]:
            x, state, weight, *bias = operands
            return [ops.recurrent(x, state, weight, bias[0] if bias else None, **given)]

        return graph_of(steps, types)
    if node.op == "scan" and node.inputs[1] is None:  # the number of steps does not depend on data
        body = given["body"] = inline(given["body"], _unrolled)
        if not body.constants and given["steps"] * len(body.nodes) <= _MOST_OPERATIONS:
            return graph_of(lambda ops, xs: scan(ops, xs, None, **given), types, every=True)
    return None


class _Result:
    """Takes the array of a result, or why there is none."""

    __slots__ = ("array", "trace")


class _StaticExecutable:
    donates = True

    def __init__(self, eager: Any, translation: _StaticTranslation, names: Sequence[str]) -> None:
        self.eager, self.translation = eager, translation
        sources = [source for leaf in translation.numbers for source in leaf.sources]
        self.numbers = evaluator(sources, names)
        self.arrays = translation.arrays
        self.checks = translation.checks
        self.dtypes = [value.dtype for value in translation.graph.outputs]
        self._plans: dict[Any, _Runs] = {}
        self._last: StaticProgram | None = None

    def __call__(self, inputs: list[Any], numbers: Sequence[Any]) -> tuple[Any, ...]:
        for number, size, node in self.checks:
            _check(inputs[number].array, size, node)
        values = iter(self.numbers(*numbers))
        inputs += [leaf.made(self.eager, values) for leaf in self.translation.numbers]
        results: list[Any] = [_Result() for _ in self.dtypes]
        try:
            program = self._last
            if program is None or not program.run(inputs, results):
                runs = self._runs(inputs)
                runs(inputs, results)
                self._last = runs.program
        except BaseException:
            inputs[:] = [invalid(x) if x.__class__ is Overwritten else x for x in inputs]
            raise
        return tuple([adapt(r.array, d) for r, d in zip(results, self.dtypes, strict=True)])

    def _runs(self, leaves: list[Any]) -> _Runs:
        strides = [strides_of(leaf.array) for leaf in leaves[: self.arrays]]
        key = tuple(strides), registry.current().version
        runs = self._plans.get(key)
        if runs is None:
            plan = Plan(self.translation, leaves, self.eager, lower.fusible, small_kernels=True)
            runs = self._plans[key] = _Runs(plan)
        return runs


class _Runs:
    """A plan, and its program on fixed memory from the second run on."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.program: StaticProgram | None = None
        self._count = 0

    def __call__(self, leaves: list[Any], results: list[Any]) -> None:
        self._count += 1
        if self._count > 1 and (self.program is None or not self.program.is_current):
            self.program = None
            # Its block stays, so memory that eager steps left behind must not stay beside it.
            current().release_cached()
            self.program = static_program.made(self.plan, leaves)
        if self.program is None or not self.program.run(leaves, results):
            self.plan.run(leaves, results)


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
