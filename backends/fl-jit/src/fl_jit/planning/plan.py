"""A plan: the compiled form of a trace of known structure.

A trace becomes a graph, and graph passes simplify it. Fusion groups its nodes, and every group
becomes a step: a kernel, or one operation of the NumPy backend. A plan holds no data. It runs with
the leaves of a trace, which must have the count, shapes, dtypes and strides that it was made for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from operator import itemgetter
from typing import Any, Protocol

from fl_jit.eager.views import strides_of
from fl_jit.extensions import registry
from fl_jit.kernels.layout import Packed
from fl_jit.passes import layout_assignment
from fl_jit.passes.epilogue_fusion import FusedEpilogue
from fl_jit.passes.fusion import Fusion
from fl_jit.passes.group import Group
from fl_jit.passes.reduction_forms import split, without_keepdims
from fl_jit.passes.schedule import Task, schedule
from fl_jit.planning.reserve import needed, reserve
from fl_jit.planning.translate import Translation
from fl_jit.reports import describe, drawing, observers
from fl_jit.reports.causes import NO_CAUSES, calls_of, named_steps
from fl_jit.steps import indexing, pooling
from fl_jit.steps.contraction import Contraction
from fl_jit.steps.donation import Values, donated
from fl_jit.steps.external import External
from fl_jit.steps.fused_epilogue import FusedEpilogueStep, fused_epilogues
from fl_jit.steps.lower import lower
from fl_jit.steps.operation import Operation
from fl_jit.steps.prepacking import prepack_steps
from fl_jit.steps.views import array_of
from fl_jit.traces.failure_isolation import fail
from fl_jit.traces.invalidated import Overwritten
from fl_jit.traces.lazy import Lazy, Stream
from fl_jit.traces.prepacked import PrepackedArray
from fl_memory.causes import Cause, observed
from fl_tensor.extend import cached_property
from fl_tensor.extend.numpy import Number
from fl_tensor.graph import Node, Value, cost, interrupts
from fl_tensor.graph.cse import cse
from fl_tensor.graph.strides import contiguous, layouts


class Step(Protocol):
    """Reads arrays of ``values`` and stores its results there. ``roots`` are all that it reads or
    writes, and ``dying`` those with no later reader. ``nodes`` are the nodes that it computes.
    ``in_place`` are the results that may reuse the memory of dying operands. ``kind`` names the
    implementation, for reports."""

    kind: str
    nodes: list[Node]
    roots: list[Value]
    dying: list[Value]

    @property
    def in_place(self) -> Collection[Value]: ...

    def __call__(self, values: Values) -> None: ...


class Plan:
    """See the module. ``eager`` is the NumPy backend. It runs operations that have no other
    implementation, and those for which ``fusible`` is false. ``small_kernels``: a kernel library
    also computes products that take no longer than a call from Python."""

    #: Whether the last run read prepacked weights.
    reads_prepacked = False
    _is_new = True

    def __init__(
        self,
        translation: Translation,
        leaves: list[Any],
        eager: Any,
        fusible: Callable[[Node], bool],
        small_kernels: bool = False,
    ) -> None:
        self.inputs = translation.inputs
        self.outputs = translation.outputs
        self.first_result, self.call_count = translation.first_result, translation.call_count
        numbers: set[Value] = set()
        strides, orders = {}, {}
        for leaf, values in zip(leaves, self.inputs, strict=True):
            if leaf.__class__ is Stream or not leaf.shape:
                numbers.update(values)
            else:
                strides[values[0]] = of_leaf = strides_of(leaf.array)
                if order := layout_assignment.order_of(leaf.shape, of_leaf):
                    orders[values[0]] = order
        extended = registry.current()
        kernels = extended.kernels
        graph = extended.rewritten(translation.graph, fusible)

        def preferred(node: Node) -> layout_assignment.Order | None:
            if kernels.make(node) is not None:
                return None
            return layout_assignment.preferred_order(node, small_kernels)

        graph = cse(without_keepdims(graph))
        graph = split(
            layout_assignment.reorder(graph, layout_assignment.is_elementwise, preferred, orders)
        ).prune()
        self.graph = graph
        self.results = graph.outputs
        self.constants: dict[Value, Any] = {}
        for value, data in graph.constants:
            one = eager.from_host(memoryview(data), value.shape, value.dtype, value.device)
            self.constants[value] = one.array if value.shape else one.array[()]
            numbers.update([] if value.shape else [value])
        self.layouts = layouts(graph, strides)
        registered = {node: kernels.make(node, self.layouts) for node in graph.nodes}
        fusion = Fusion(graph, self.layouts, lambda n: registered[n] is None and fusible(n))
        self.fusion = fusion
        self.live_outs = self._live_outs(fusion.groups)
        self.numbers, self.eager, self._small = numbers, eager, small_kernels
        self.steps: list[Step] = []
        results = {self.layouts[v].root for v in self.results}

        def is_builtin(node: Node) -> bool:
            return registered[node] is None

        groups = fusion.groups
        fused = fused_epilogues(groups, self.layouts, results, is_builtin, small_kernels)
        #: Of each input that may be prepacked.
        self.prepack_steps = prepack_steps(graph, self.layouts, results, is_builtin)
        products = {epilogue.product for epilogue in fused.values()}
        for group in fusion.groups:
            node = group.nodes[0]
            run = registered.get(node)
            if run is not None:
                self.steps.append(External(node, self.layouts, run))
            elif node in products:
                continue
            elif group in fused:
                self.steps.append(self._fused(fused[group], group))
            elif group.space is None:
                own = indexing.step(node, self.layouts, eager) or pooling.step(node, self.layouts)
                self.steps.append(own or self._operation(node))
            else:
                self.steps.append(self._launch(group))
            if group not in fused:
                self.steps[-1].nodes = group.nodes
        self._schedule_steps()
        self._find_last_uses()
        #: Of each live result: its number, and the function that returns its array.
        self._readers = list(zip(self.outputs, map(self._reader, self.results), strict=True))
        #: Of each leaf: its first value, whether that is a number, and its prepacking step.
        self._leaves = [(v, v in numbers, self.prepack_steps.get(v)) for v, *_ in self.inputs]
        self._stream_words = {words[0]: words for words in self.inputs if len(words) > 1}

    def _reader(self, value: Value) -> Callable[[Values], Any]:
        # The function that returns the array of a result.
        layout = root, offset, strides = self.layouts[value]
        if root is value:
            return itemgetter(value)
        whole = math.prod(root.shape) == math.prod(value.shape) and root not in self.graph.inputs
        if whole and not offset and strides == contiguous(value.shape):
            return lambda values: values[root].reshape(value.shape)  # faster than by strides
        return lambda values: array_of(values, value, layout)

    def _launch(self, group: Group) -> Step:
        from fl_jit.steps.launch import Launch

        return Launch(lower(group, self.layouts, self.live_outs, self.numbers))

    def _operation(self, node: Node) -> Operation:
        if node.op in cost.CONTRACTIONS:
            return Contraction(node, self.layouts, self.eager, self._packed(node), self._small)
        return Operation(node, self.layouts, self.eager)

    def _fused(self, fused: FusedEpilogue, group: Group) -> Step:
        product = self._operation(fused.product)
        return FusedEpilogueStep(
            fused,
            self.layouts,
            self.live_outs,
            product,
            lambda: self._launch(group),
            self._packed(fused.product),
            self._small,
        )

    def _packed(self, product: Node) -> Packed | None:
        step = self.prepack_steps.get(self.layouts[product.operands[1]].root)
        return None if step is None else step.layout

    def _live_outs(self, groups: list[Group]) -> set[Value]:
        # The roots that are read outside the group that computes them.
        home = {v: group for group in groups for node in group.nodes for v in node.outputs}
        live_outs = {self.layouts[v].root for v in self.results}
        for group in groups:
            for node in group.nodes:
                roots = {self.layouts[v].root for v in node.operands}
                live_outs |= {r for r in roots if home.get(r) is not group}
        return live_outs

    def _schedule_steps(self) -> None:
        tasks = []
        for step in self.steps:
            outputs = {v for node in step.nodes for v in node.outputs}
            roots = set(step.roots)
            tasks.append(Task(roots - outputs, roots & outputs))
        order = schedule(tasks, {self.layouts[v].root for v in self.results})
        self.steps = [self.steps[i] for i in order]
        if any(step.kind == "kernel" for step in self.steps):
            from fl_jit.steps.launch import batch_launches

            self.steps = batch_launches(self.steps, [tasks[i] for i in order])

    def _find_last_uses(self) -> None:
        used_later = {self.layouts[v].root for v in self.results}
        for step in reversed(self.steps):
            step.dying = [v for v in dict.fromkeys(step.roots) if v not in used_later]
            used_later.update(step.dying)
        #: The values freed after each step. After the last one, all values go together.
        self._freed = [*(step.dying for step in self.steps[:-1]), []]

    def run(
        self, leaves: list[Any], results: list[Lazy | None], causes: Mapping[int, Cause] = NO_CAUSES
    ) -> None:
        """Store the arrays of the live ``results``. If that fails, overwritten ``leaves`` become
        ``Overwritten``, and dependent results wait for ``Failed``. ``causes``: those of the calls
        by number, which become those of the steps."""
        values = Values(self.constants)
        is_donated = donated(leaves)
        reads_prepacked = False
        for leaf, (value, is_number, prepack), donates in zip(
            leaves, self._leaves, is_donated, strict=True
        ):
            if is_number:
                if leaf.__class__ is Number:
                    values[value] = leaf.number
                elif leaf.__class__ is Stream:
                    values.update(zip(self._stream_words[value], map(_signed, leaf)))
                else:
                    values[value] = leaf.array[()]
            elif prepack is not None:
                values[value] = weights = prepack(leaf)
                if weights.__class__ is PrepackedArray:
                    values.addresses[value] = weights.address
                    reads_prepacked = True
            else:
                values[value] = leaf.array
                if donates:
                    values.donated.add(value)
        self.reads_prepacked = reads_prepacked
        if values.donated:
            interrupts.hold()
        if self._is_new:
            self._is_new = False
            reserve(needed(self.steps, values.donated))
        step = None
        try:
            steps = observers.steps(self) if observers.watchers else self.steps
            if observed:
                steps = named_steps(self, steps, causes)
            for step, freed in zip(steps, self._freed):
                step(values)
                for value in freed:
                    del values[value]
            step = None
            for number, read in self._readers:
                if (result := results[number]) is not None:  # None: not live in this run
                    result.array = read(values)
        except BaseException as error:
            for i, (value, *_) in enumerate(self.inputs):
                if value in values.overwritten:
                    leaves[i] = Overwritten(leaves[i])
            if isinstance(error, Exception) and step is not None:
                fail(results, self._dependents(step), error)
            raise

    def _dependents(self, step: Step) -> list[int]:
        # The results that depend on a failed step. Where a step computes several arrays, it is not
        # known which of them failed.
        failed = {v for node in step.nodes for v in node.outputs}
        if len(failed.intersection(step.roots)) > 1:
            return []
        for node in self.graph.nodes:
            if not failed.isdisjoint(node.operands):
                failed.update(node.outputs)
        results = zip(self.outputs, self.results, strict=True)
        return [number for number, value in results if value in failed]

    @cached_property
    def naming_calls(self) -> list[int]:
        """The number of the recorded call that names each step, -1 where there is none."""
        return calls_of(self)

    def to_dot(self, operations: bool = False) -> str:
        """The plan in Graphviz' language: a box for each step, or a cluster of its operations."""
        return drawing.dot([self], [lambda number: ("", 0.0)], operations)

    def explain(self) -> str:
        """The values written between kernels, with reasons, and the rematerialized ones. Figures
        are in bytes: the bytes saved, and the costs as bytes that could be moved in that time."""
        return "\n".join(self.fusion.explain())

    def __str__(self) -> str:
        return describe.listing(self)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
