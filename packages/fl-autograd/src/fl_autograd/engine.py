"""The backward pass: iterative; nodes are freed and leaves finished as early as possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fl_autograd.errors import GradError, GraphFreedError
from fl_autograd.mode import enable_grad
from fl_autograd.node import Hooks, Leaf, Node
from fl_autograd.pieces import Pieces
from fl_autograd.rows import RowGradient
from fl_autograd.variable import Variable, variable
from fl_tensor.array import Array
from fl_tensor.dispatch import ops_for
from fl_tensor.errors import DTypeError, ShapeError

if TYPE_CHECKING:
    from fl_autograd.rules.table import Rule

_FREED = (
    "this graph was freed by an earlier backward pass; pass retain_graph=True to the earlier one, "
    "or compute the result again"
)


def backward(root: Variable, grad: Any, retain_graph: bool, create_graph: bool) -> None:
    """``Variable.backward``."""
    propagate([root], [grad], None, retain_graph, create_graph)


def propagate(
    outputs: Sequence[Variable],
    grads: Sequence[Any],
    wanted: set[Node] | None,
    retain_graph: bool,
    create_graph: bool,
) -> dict[Node, Variable]:
    """Propagate ``grads`` from ``outputs``. With ``wanted`` return the gradients of those nodes
    that are reached, and touch no leaf; without it accumulate into the leaves."""
    pending: dict[Node, Any] = {}
    for output, grad in zip(outputs, grads, strict=True):
        if output._node is None:
            raise GradError(
                "this variable requires no gradient: no operand required one, or it was computed "
                "under no_grad() or by an operation that has no gradient"
            )
        seed = _seed(output, grad)
        if create_graph:
            _add(pending, output._node, seed, _namespace(seed._backend, True))
        else:
            _add(pending, output._node, seed._adapter, ops_for(seed._backend))
    needed = None if wanted is None else _leading_to(list(pending), wanted)
    if not create_graph:
        return _run(pending, wanted, needed, retain_graph, False)
    with enable_grad():
        return _run(pending, wanted, needed, True, True)


def _run(
    pending: dict[Node, Any],
    wanted: set[Node] | None,
    needed: set[Node] | None,
    retain_graph: bool,
    create_graph: bool,
) -> dict[Node, Variable]:
    waiting = _count_uses(list(pending), needed)
    ready = [node for node in pending if node not in waiting]
    gradients: list[Any] = [pending.pop(node) for node in ready]
    found: dict[Node, Variable] = {}
    base: Any = None
    ops: Any = None
    while ready:
        node = ready.pop()
        g = gradients.pop()
        rule = node.rule
        if g is not None:
            if node.base is not base:
                base = node.base
                ops = _namespace(base, create_graph)
            if node.hooks is not None:
                g = _before(node.hooks, node, g, create_graph)
            if wanted is None:
                if rule is None:
                    _accumulate(node, g, ops)
            elif node in wanted:
                found[node] = _as_variable(g, base)
        ins = node.ins
        if ins is None:
            raise GraphFreedError(_FREED)
        if not ins:
            continue
        if needed is not None:
            ins = tuple([n if n in needed else None for n in ins])
            if not any(ins):
                continue
        results: Sequence[Any]
        if g is None or rule is None:
            results = (None,) * len(ins)
        else:
            saved = node.saved
            while saved.__class__ is not tuple:
                saved = saved.restore()
            if create_graph:
                saved = _lift(node, rule, saved)
            results = rule.backward(ops, g, saved, ins)
            if node.hooks is not None and node.hooks.after:
                results = [r.whole(ops) if r.__class__ is Pieces else r for r in results]
                results = _after(node.hooks, node, ins, results, g, ops, create_graph)
        if not retain_graph:
            if node.__class__ is Node:
                node.ins = node.saved = None
            else:
                node.release()
        for source, result in zip(ins, results):
            if source is None:
                continue
            if result is not None and result.shape != source.shape:
                result = _sum_to(ops, result, source.shape, node)
            left = waiting[source]
            if left != _ONCE:
                held = pending.get(source)
                if held is None:
                    held = result
                elif result is not None:
                    there = ops if source.base is base else _namespace(source.base, create_graph)
                    if held.__class__ in _NO_ARRAYS or result.__class__ in _NO_ARRAYS:
                        held = _sum_of_others(held, result, there, source)
                    else:
                        held = there.add(held, result)
                if left != _LAST:
                    waiting[source] = left - 1
                    if held is not None:
                        pending[source] = held
                    continue
                pending.pop(source, None)
                result = held
            if result.__class__ is Pieces:
                result = result.whole(
                    ops if source.base is base else _namespace(source.base, create_graph)
                )
            ready.append(source)
            gradients.append(result)
    return found


def _namespace(base: Any, create_graph: bool) -> Any:
    if not create_graph:
        return ops_for(base)
    from fl_autograd.tape import tape_for

    return tape_for(base)


def _seed(output: Variable, grad: Any) -> Variable:
    if grad is None and output.size != 1:
        raise GradError(
            f"[backward] the output has shape {output.shape}: a gradient starts from one number. "
            f"Reduce it (sum, mean) or pass a gradient of that shape"
        )
    if grad is None or isinstance(grad, (int, float)):
        value = 1.0 if grad is None else float(grad)
        ops = ops_for(output._backend)
        seed = ops.full(output.shape, value, output.dtype, output.device)
        return variable(seed, output._backend, None)
    if not isinstance(grad, Array):
        raise DTypeError(f"[backward] the gradient is a {type(grad).__name__}: expected a Variable")
    given = grad if isinstance(grad, Variable) else Variable(grad)
    if given.shape != output.shape:
        raise ShapeError(f"[backward] the gradient is {given.shape}, the output {output.shape}")
    if given.dtype is not output.dtype:
        raise DTypeError(f"[backward] the gradient is {given.dtype}, the output {output.dtype}")
    if given._backend is not output._backend:
        raise GradError(
            f"[backward] the gradient is on backend {given._backend.name!r}, the output on "
            f"{output._backend.name!r}"
        )
    return given


def _add(pending: dict[Node, Any], node: Node, g: Any, ops: Any) -> None:
    held = pending.get(node)
    pending[node] = g if held is None else ops.add(held, g)


#: What ``_count_uses`` says of a node that gets one gradient, and of one that has several to add up
#: and waits for the last of them (for two: one more, and so on).
_ONCE, _LAST = 1, 2


def _count_uses(roots: list[Node], needed: set[Node] | None) -> dict[Node, int]:
    # How many gradients each node waits for. A node becomes ready with the last of them, so that a
    # leaf is finished (and its hooks called) as soon as nothing can reach it any more.
    uses: dict[Node, int] = {}
    seen = set(roots)
    stack = list(seen)
    while stack:
        ins = stack.pop().ins
        if ins is None:
            raise GraphFreedError(_FREED)
        for node in ins:
            if node is None or (needed is not None and node not in needed):
                continue
            count = uses.get(node)
            if count is not None:
                uses[node] = count + (2 if count == _ONCE else 1)
            elif node in seen:  # it has a gradient to begin with
                uses[node] = _LAST
            else:
                uses[node] = _ONCE
                stack.append(node)
    return uses


def _leading_to(roots: list[Node], wanted: set[Node]) -> set[Node]:
    # The nodes from which a wanted one can be reached (depth first, children before parents).
    needed: set[Node] = set()
    entered: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(node, False) for node in roots]
    while stack:
        node, left = stack.pop()
        if left:
            if node in wanted or any(n in needed for n in node.ins or () if n is not None):
                needed.add(node)
        elif node not in entered:
            entered.add(node)
            if node.ins is None:
                raise GraphFreedError(_FREED)
            stack.append((node, True))
            stack.extend((n, False) for n in node.ins if n is not None and n not in entered)
    return needed


#: In ``Rule.lifts``: neither an operand nor the result.
_INTERMEDIATE = -2


def _lift(node: Node, rule: Rule, kept: tuple[Any, ...]) -> tuple[Any, ...]:
    # What the rule kept, as variables that are part of the graph again.
    saved = list(kept)
    ins = (*(node.ins or ()), None)
    for position, number in rule.lifts:
        if number == _INTERMEDIATE:
            raise GradError(
                f"[{rule.name}] the pre-fused gradient keeps a value between its operations, whose "
                f"history is gone: record without extend.fuse where create_graph is needed"
            )
        if saved[position] is not None:
            origin = node if number < 0 else ins[number]
            saved[position] = variable(saved[position], node.base, origin)
    return tuple(saved)


def _sum_to(ops: Any, g: Any, shape: tuple[int, ...], node: Node) -> Any:
    # Undo broadcasting: sum over axes that were added or repeated.
    extra = len(g.shape) - len(shape)
    padded = (1,) * max(extra, 0) + shape
    axes = tuple(i for i, (n, m) in enumerate(zip(g.shape, padded)) if n != m)
    if extra < 0 or any(padded[i] != 1 for i in axes):
        name = node.rule.name if node.rule else "leaf"
        raise ShapeError(
            f"[{name}] its gradient rule returned {tuple(g.shape)} for an operand of shape {shape}"
        )
    if axes:
        g = ops.sum(g, axes, True)
    return ops.reshape(g, shape) if extra else g


def _before(hooks: Hooks, node: Node, g: Any, create_graph: bool) -> Any:
    value = _as_variable(g, node.base)
    for hook in list(hooks.before.values()):
        replaced = hook(value)
        if replaced is None:
            continue
        if not isinstance(replaced, Variable) or replaced.shape != node.shape:
            raise GradError(
                f"a gradient hook returned {_describe(replaced)}: expected None or a Variable of "
                f"shape {node.shape}"
            )
        value = replaced
    return value if create_graph else _raw(value)


def _after(
    hooks: Hooks,
    node: Node,
    ins: Sequence[Node | None],
    results: Sequence[Any],
    g: Any,
    ops: Any,
    create_graph: bool,
) -> Sequence[Any]:
    # The hooks see what arrives at the operands: summed to their shapes.
    def shown(result: Any, source: Node | None) -> Variable | None:
        if result is None or source is None:
            return None
        if result.shape != source.shape:
            result = _sum_to(ops, result, source.shape, node)
        return _as_variable(result, source.base)

    values = tuple([shown(result, source) for result, source in zip(results, ins)])
    given = _as_variable(g, node.base)
    for hook in list(hooks.after.values()):
        replaced = hook(values, given)
        if replaced is None:
            continue
        if not isinstance(replaced, tuple) or [_shape(v) for v in replaced] != [
            _shape(v) for v in values
        ]:
            raise GradError(
                f"[{node.name}] a hook returned {_describe(replaced)}: expected None or a tuple of "
                f"gradients of shapes {', '.join(str(_shape(v)) for v in values)}"
            )
        values = replaced
    return values if create_graph else [v if v is None else _raw(v) for v in values]


# Gradients on their way are adapters, or variables where they are recorded; those of rows are
# variables always.


def _as_variable(g: Any, base: Any) -> Variable:
    return g if isinstance(g, Variable) else variable(g, base, None)


def _raw(g: Variable) -> Any:
    return g if isinstance(g, RowGradient) else g._adapter


#: Gradients that are no arrays: of parts, and of rows, which only leaves get.
_NO_ARRAYS = frozenset({Pieces, RowGradient})


def _sum_of_others(held: Any, g: Any, ops: Any, source: Node) -> Any:
    if source.rule is None and RowGradient in (held.__class__, g.__class__):
        held, g = (v.whole(ops) if v.__class__ is Pieces else v for v in (held, g))
        return _sum_of_rows(held, g, source)
    return held.plus(g, ops) if held.__class__ is Pieces else g.plus(held, ops)


def _sum_of_rows(held: Any, g: Any, leaf: Node) -> Any:
    total = _as_variable(held, leaf.base) + _as_variable(g, leaf.base)  # one of them is of rows
    recorded = isinstance(held, Variable) and isinstance(g, Variable)
    return total if recorded else total._adapter


def _shape(value: Any) -> Any:
    return value.shape if isinstance(value, Variable) else value


def _describe(value: Any) -> str:
    return f"a Variable of shape {value.shape}" if isinstance(value, Variable) else repr(value)


def _accumulate(leaf: Node, g: Any, ops: Any) -> None:
    if not isinstance(leaf, Leaf):
        raise GradError("internal: only leaves accumulate")
    if g.dtype is not leaf.dtype:
        raise DTypeError(f"a gradient of {g.dtype} reached a leaf of {leaf.dtype}: check its rule")
    held = leaf.grad
    if held is not None and held.dtype is not g.dtype:  # float32 beside a leaf in half precision
        wide = isinstance(g, RowGradient)
        g = g.with_values(g.values.astype(held.dtype)) if wide else ops.cast(g, held.dtype)
    if held is None:
        leaf.grad = _as_variable(g, leaf.base)
    elif isinstance(held, RowGradient):
        leaf.grad = held + _as_variable(g, leaf.base)
    elif isinstance(g, RowGradient):
        leaf.grad = g + held
    elif isinstance(g, Variable):
        leaf.grad = ops.add(held, g)
    elif held._node is None:
        held._adapter = ops.add(
            held._adapter, g
        )  # the same handle: whoever holds .grad sees the sum
    else:
        leaf.grad = variable(ops.add(held._adapter, g), leaf.base, None)
