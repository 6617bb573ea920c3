"""The experiments of Kahn et al., "Flashlight: enabling innovation in tools for machine learning"
(ICML 2022), case study 5.2.1, and one more: what research on graphs of millions of nodes changes in
an autograd. Each from outside, with public names alone."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_autograd import extend
from fl_tensor.testing import needs


def reachable(y: Any) -> int:
    """The number of nodes behind a variable, leaves included."""
    seen, stack = set(), [y._node] if y._node is not None else []
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += [n for n in node.ins or () if n is not None]
    return len(seen)


# ---- on-the-fly pruning of sparse graphs ---------------------------------------------------------

log_add = extend.defop(
    "log_add",
    lambda ops, x, y: ops.logaddexp(x, y),
    x=lambda ops, g, out, x: ops.multiply(g, ops.exp(ops.subtract(x, out))),
    y=lambda ops, g, out, y: ops.multiply(g, ops.exp(ops.subtract(y, out))),
)


class PruneBeam(extend.Recorder):
    """Forgets a branch of ``log_add`` that is ``beam`` below the sum: its gradient is e^-beam."""

    def __init__(self, beam: float) -> None:
        self.beam = beam
        self.pruned = 0

    def recorded(self, node: Any, result: Any) -> Any:
        if node.name != "log_add":
            return node
        total = result.item()
        weak = [
            name
            for name in ("x", "y")
            if (kept := node.saved_value(name)) is not None
            and ft.Tensor(kept, node.base).item() < total - self.beam
        ]
        self.pruned += len(weak)
        return extend.prune(node, *weak) if weak else node


def lattice(scores: Any, steps: int) -> Any:
    """log of the sum over all paths of a two-state lattice, score by score."""
    a, b = scores[0] * 1.0, scores[1] * 1.0
    for _ in range(steps):
        a, b = log_add(a + scores[0], b + scores[2]), log_add(a + scores[1], b + scores[3])
    return log_add(a, b)


def test_sparse_graphs_are_pruned_while_they_grow(leaf: Any, close: Any) -> None:
    def run() -> tuple[Any, int]:
        scores = [leaf(v) for v in (0.0, -20.0, -25.0, -9.0)]
        y = lattice(scores, 50)
        nodes = reachable(y)
        y.backward()
        return [0.0 if s.grad is None else s.grad.item() for s in scores], nodes

    want, all_nodes = run()
    with PruneBeam(beam=15.0) as beam:
        found, few_nodes = run()
    assert beam.pruned > 50
    assert few_nodes < 0.6 * all_nodes
    assert all(abs(a - b) < 60 * math.exp(-15.0) for a, b in zip(found, want))
    assert run()[1] == all_nodes  # the block is over


def test_pruned_branches_are_freed_at_once(leaf: Any) -> None:
    class Forget(extend.Recorder):
        def recorded(self, node: Any, result: Any) -> Any:
            return extend.prune(node, "y") if node.name == "add" else node

    class Marked(extend.Node):
        __slots__ = ("__weakref__",)

    class Mark(extend.Recorder):
        seen: list[Any] = []

        def recorded(self, node: Any, result: Any) -> Any:
            made = node.copy(Marked)
            self.seen.append(weakref.ref(made))
            return made

    x = leaf(1.0)
    with Mark() as mark:
        branch = ft.exp(x)
    with Forget():
        y = x * 2.0 + branch
    del branch
    assert mark.seen[0]() is None
    y.backward()
    assert x.grad.item() == 2.0


def test_pruning_everything_gives_a_constant(leaf: Any) -> None:
    class Cut(extend.Recorder):
        def recorded(self, node: Any, result: Any) -> Any:
            return extend.prune(node, 0, 1) if node.name == "concatenate" else node

    x = leaf([1.0])
    with Cut():
        y = ft.concatenate([x, x * 2.0])
        assert not y.requires_grad
        with pytest.raises(ag.GradError, match=r"\[multiply\] has no differentiable operand 'z'"):
            extend.prune((x * x).grad_fn, "z")


# ---- pre-fused gradients -------------------------------------------------------------------------


def log_sigmoid_slope(ops: Any, g: Any, out: Any) -> Any:
    return ops.multiply(g, ops.subtract(ops.constant(1.0, out), ops.exp(out)))


def test_sequences_of_operations_get_one_node(leaf: Any, close: Any) -> None:
    x = leaf([-800.0, 0.3, 2.0])
    with extend.fuse("sigmoid", "log", x=log_sigmoid_slope):
        y = ft.log(ft.sigmoid(x))
    assert y.grad_fn.name == "sigmoid+log"
    assert y.grad_fn.ins == (x._node,)
    assert len(y.grad_fn.saved) == 1
    fused = ag.grad(y.sum(), x)
    close(fused[1:], 1.0 - ft.sigmoid(x.detach())[1:])
    assert fused[0].item() == 1.0  # where the two steps one by one give 0 / 0
    ag.check_grads(fused_log_sigmoid, [x[1:].detach()], order=2)


def fused_log_sigmoid(x: Any) -> Any:
    with extend.fuse("sigmoid", "log", x=log_sigmoid_slope):
        return ft.log(ft.sigmoid(x))


def test_products_and_sums(normal: Any, close: Any) -> None:
    a, b, c = normal(2, 3), normal(3), normal(2, 3)
    multiply_add = extend.fuse(
        "multiply",
        "add",
        x=lambda ops, g, y: ops.multiply(g, y),
        y=lambda ops, g, x: ops.multiply(g, x),
        then_y=lambda ops, g: g,
    )

    def f() -> Any:
        return ((a * b + c) * (b * b + a)).sum()

    want = ag.grad(f(), [a, b, c])
    with multiply_add:
        y = f()
        assert reachable(y) == 3 + 4  # leaves; two pairs, their product and the sum
    for x, z in zip(ag.grad(y, [a, b, c]), want):
        close(x, z, rtol=1e-12)


def test_values_in_between_keep_their_own_gradient(leaf: Any, close: Any) -> None:
    x = leaf([0.5])
    with extend.fuse("sigmoid", "log", x=log_sigmoid_slope):
        s = ft.sigmoid(x)
        y = ft.log(s) + s
    s0 = 1 / (1 + math.exp(-0.5))
    close(ag.grad(y, x), [1 - s0 + s0 * (1 - s0)])


def test_values_in_between_with_a_hook_keep_their_node(leaf: Any, close: Any) -> None:
    x, seen = leaf([0.5]), []
    with extend.fuse("sigmoid", "log", x=log_sigmoid_slope):
        s = ft.sigmoid(x)
        s.register_hook(seen.append)
        y = ft.log(s)
    assert y.grad_fn.name == "log"
    y.backward()
    close(seen[0], [1 / s.item()])


def test_checkpoints_keep_their_nodes_apart(leaf: Any, close: Any) -> None:
    # What the first one keeps is computed again: there is nothing yet to take over.
    x = leaf([0.5])
    with extend.fuse("exp", "negative", x=lambda ops, g, out: ops.multiply(g, out)):
        assert (-ft.exp(x)).grad_fn.name == "exp+negative"
        y = ag.checkpoint(lambda v: -ft.exp(v), x)
    assert y.grad_fn.name == "negative"
    close(ag.grad(y, x), [-math.exp(0.5)])


def test_second_orders_need_a_history(leaf: Any, close: Any) -> None:
    x = leaf([0.5])
    with extend.fuse(
        "exp",
        "log",
        x=lambda ops, g, first_out, then_x: ops.multiply(g, ops.divide(first_out, then_x)),
    ):
        y = ft.log(ft.exp(x))
    close(ag.grad(y, x, retain_graph=True), [1.0])
    with pytest.raises(ag.GradError, match=r"\[exp\+log\] the pre-fused gradient keeps a value"):
        ag.grad(y, x, create_graph=True)


def test_what_cannot_be_fused_is_reported(leaf: Any) -> None:
    with pytest.raises(ag.GradError, match="'tan' has no gradient rule"):
        extend.fuse("tan", "log", x=log_sigmoid_slope)
    with pytest.raises(ag.GradError, match="expected functions for x, got"):
        extend.fuse("exp", "log", z=log_sigmoid_slope)
    with pytest.raises(ag.GradError, match=r"expected functions for x, then_y"):
        extend.fuse("exp", "add", x=log_sigmoid_slope)
    with extend.fuse("exp", "log", x=lambda ops, g, x: g), pytest.raises(ag.GradError, match="'x'"):
        ft.log(ft.exp(leaf([1.0])))


# ---- custom node lifetime ------------------------------------------------------------------------


class Lasting(extend.Node):
    """A node that backward passes leave as it is."""

    __slots__ = ()

    def release(self) -> None:
        pass


class Trunk(extend.Recorder):
    """What is recorded in the block serves any number of backward passes, until ``free``."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []

    def recorded(self, node: Any, result: Any) -> Any:
        self.nodes.append(node.copy(Lasting))
        return self.nodes[-1]

    def free(self) -> None:
        for node in self.nodes:
            extend.Node.release(node)
        self.nodes.clear()


def test_a_trunk_outlives_the_passes_of_its_heads(leaf: Any, close: Any) -> None:
    x = leaf([0.5, -1.0])
    with Trunk() as trunk:
        h = ft.tanh(x * 2.0)
    slopes = []
    for scale in (1.0, 10.0):
        head = (h * h * scale).sum()
        head.backward()  # no retain_graph: the head is freed, the trunk is not
        assert head.grad_fn.ins is None
        slopes.append(x.grad.numpy().copy())
        x.zero_grad()
    close(slopes[1], 10 * slopes[0])
    trunk.free()
    with pytest.raises(ag.GraphFreedError):
        (h * 1.0).sum().backward()


class Scope(extend.Recorder):
    """Frees what was recorded in the block when it ends, whoever still holds results."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []

    def recorded(self, node: Any, result: Any) -> Any:
        self.nodes.append(node)
        return node

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for node in self.nodes:
            node.release()
        self.nodes.clear()


def test_nodes_die_with_a_scope(leaf: Any) -> None:
    x = leaf([1.0])
    with Scope():
        y = ft.exp(x)
        ag.grad(y, x, retain_graph=True)
    assert y.grad_fn.saved is None
    with pytest.raises(ag.GraphFreedError):
        y.backward()


# ---- a whole alternative tape --------------------------------------------------------------------


class List(extend.Recorder):
    """Wengert's list (1964): nodes in the order in which they were made, so that going backwards
    needs no sorting."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []

    def recorded(self, node: Any, result: Any) -> Any:
        self.nodes.append(node)
        return node

    def gradients(self, y: Any, *inputs: Any) -> list[Any]:
        ops = ft.ops_for(y.backend)
        found = {y._node: ops.full(y.shape, 1.0, y.dtype, y.device)}
        for node in reversed(self.nodes):
            g = found.get(node)
            if g is None:
                continue
            for source, part in zip(node.ins, node.rule.backward(ops, g, node.saved, node.ins)):
                if source is not None:
                    held = found.get(source)
                    found[source] = part if held is None else ops.add(held, part)
        return [ft.Tensor(found[x._node], x.backend) for x in inputs]


def test_a_list_in_place_of_a_graph_search(leaf: Any, close: Any) -> None:
    x, w = leaf([1.0, 2.0]), leaf([0.3, 0.7])
    with List() as tape:
        y = ft.tanh(x * w) * x + ft.exp(w)
        z = (y * y).sum()
    found = tape.gradients(z, x, w)
    for a, b in zip(found, ag.grad(z, [x, w])):
        close(a, b)


class RoundedTape(extend.Tape):
    """Products see their operands as bfloat16 has them; the gradient passes straight through."""

    def matmul(self, x: Any, y: Any) -> Any:
        return super().matmul(self.rounded(x), self.rounded(y))

    def rounded(self, x: Any) -> Any:
        low = self.cast(self.cast(x, ft.bfloat16), x.dtype)
        return self.add(x, ag.Variable(low.tensor - x.tensor))


@needs("bfloat16")
def test_a_tape_that_computes_something_else(leaf: Any, close: Any) -> None:
    x, w = leaf([[1.001, 2.003]]), leaf([[3.007], [4.009]])
    exact = x @ w
    with extend.using(RoundedTape):
        y = x @ w
        assert ft.einsum("ij,jk->ik", x, w).item() == y.item()  # compositions, too
        with ag.detect_anomaly():  # a recorder with no tape of its own
            assert (x @ w).item() == y.item()
        with ag.no_grad():
            assert (x @ w).item() == exact.item()  # nothing is recorded
    assert y.item() == 1.0 * 3.0 + 2.0 * 4.0
    y.backward()
    close(x.grad, [[3.0, 4.0]])
    assert (x @ w).item() == exact.item()


# ---- recorders -----------------------------------------------------------------------------------


def test_recorders_nest_and_see_what_is_recorded_alone(leaf: Any) -> None:
    x = leaf([1.0])
    seen: list[str] = []

    class Note(extend.Recorder):
        def __init__(self, name: str) -> None:
            self.name = name

        def recorded(self, node: Any, result: Any) -> Any:
            seen.append(f"{self.name} {node.name} {result.item():g}")
            return node

    with Note("a"), Note("b"):
        y = x + 2.0
        ft.exp(ag.Variable([1.0]))
        with ag.no_grad():
            x * 1.0
            with ag.enable_grad():
                x * 5.0
        x.to("float32")
    assert seen == ["b add 3", "a add 3", "b multiply 5", "a multiply 5", "b cast 1", "a cast 1"]
    with ag.no_grad(), Note("c"):
        x * 1.0
    assert len(seen) == 6
    assert y.requires_grad
    a, b = Note("a"), Note("b")
    a.__enter__()
    b.__enter__()
    with pytest.raises(ag.GradError, match="not the innermost"):
        a.__exit__(None, None, None)
    b.__exit__(None, None, None)
    a.__exit__(None, None, None)


def test_experiments_leave_nothing_behind(leaf: Any) -> None:
    gc.collect()
    x = leaf([1.0])
    y = x * x + x
    assert y.grad_fn.name == "add"
    assert type(y.grad_fn) is extend.Node
