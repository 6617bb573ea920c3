"""The backward pass: iterative, with early release of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fl_autograd.causes import set_cause
from fl_autograd.dispatch import tape_for
from fl_autograd.errors import GradError, GraphFreedError
from fl_autograd.gradients import (
    NON_DENSE,
    accumulate,
    add_non_dense,
    as_variable,
    conjugated,
    sum_to,
)
from fl_autograd.graph_search import FREED_MESSAGE, LAST, ONCE, count_dependencies, nodes_leading_to
from fl_autograd.hooks import call_after, call_before
from fl_autograd.mode import enable_grad, note_cut
from fl_autograd.node import Node
from fl_autograd.operation_errors import explain
from fl_autograd.slice_gradients import SliceGradients
from fl_autograd.variable import Variable, variable
from fl_memory.causes import CURRENT, observed
from fl_memory.tags import GRADIENT, tagged
from fl_tensor import Array, ops_for
from fl_tensor.arguments import SCALARS, scalar
from fl_tensor.array_classes import VALUES, Answers, answer
from fl_tensor.errors import BackendError, DTypeError, FlError, ShapeError

if TYPE_CHECKING:
    from fl_autograd.rules.table import Rule


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
    if not create_graph:
        note_cut("a gradient without create_graph")
    pending: dict[Node, Any] = {}
    for output, grad in zip(outputs, grads, strict=True):
        if output._node is None:
            raise GradError(
                "this variable requires no gradient: no operand required one, or it was computed "
                "under no_grad() or by an operation that has no gradient"
            )
        seed = _seed(output, grad)
        if seed.dtype.kind == "c":
            with enable_grad():
                seed = conjugated(seed, seed._backend)
        if create_graph:
            _add(pending, output._node, seed, _namespace(seed._backend, True))
        else:
            _add(pending, output._node, seed._adapter, ops_for(seed._backend))
    needed = None if wanted is None else nodes_leading_to(list(pending), wanted)
    outer = CURRENT.get() if observed else None
    try:
        with tagged(GRADIENT):
            if not create_graph:
                return _run(pending, wanted, needed, retain_graph, False)
            with enable_grad():
                return _run(pending, wanted, needed, True, True)
    finally:
        if observed:  # each node has set its own
            CURRENT.set(outer)


def _run(
    pending: dict[Node, Any],
    wanted: set[Node] | None,
    needed: set[Node] | None,
    retain_graph: bool,
    create_graph: bool,
) -> dict[Node, Variable]:
    waiting = count_dependencies(list(pending), needed)
    ready = [node for node in pending if node not in waiting]
    gradients: list[Any] = [pending.pop(node) for node in ready]
    found: dict[Node, Variable] = {}
    base: Any = None
    ops: Any = None
    # Whether a gradient may be no array: most graphs never need to look.
    partial = any(g.__class__ in NON_DENSE for g in (*gradients, *pending.values()))
    outer = CURRENT.get() if observed else None
    while ready:
        node = ready.pop()
        g = gradients.pop()
        rule = node.rule
        if observed:
            set_cause(node, outer)
        if g is not None:
            if node.base is not base:
                base = node.base
                ops = _namespace(base, create_graph)
            if node.hooks is not None:
                g = call_before(node.hooks, node, g, create_graph)
            if wanted is None:
                if rule is None:
                    accumulate(node, g, ops)
                    if node.hooks is not None:
                        for hook in list(node.hooks.accumulated.values()):
                            hook()
            elif node in wanted:
                found[node] = as_variable(conjugated(g, base), base)
        ins = node.ins
        if ins is None:
            raise GraphFreedError(FREED_MESSAGE)
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
            try:
                results = rule.backward(ops, g, saved, ins)
            except (AttributeError, TypeError) as error:
                _raise_invalid_result(rule, base, create_graph, g, saved, ins, error)
                raise
            if rule.partial:
                partial = True
            if node.hooks is not None and node.hooks.after:
                partial = True
                results = [r.to_dense(ops) if r.__class__ is SliceGradients else r for r in results]
                results = call_after(node.hooks, node, ins, results, g, ops, create_graph)
        if not retain_graph:
            if node.__class__ is Node:
                node.ins = node.saved = None
            else:
                node.release()
        for source, result in zip(ins, results):
            if source is None:
                continue
            if result is not None:
                if result.__class__ not in VALUES and result.__class__ not in NON_DENSE:
                    assert rule is not None  # nothing else gives results
                    try:
                        answer(rule.name, base, result)
                    except BackendError as error:
                        _raise_invalid_result(rule, base, create_graph, g, saved, ins, error)
                        raise
                if result.shape != source.shape:
                    result = sum_to(ops, result, source.shape, node)
            left = waiting[source]
            if left != ONCE:
                held = pending.get(source)
                if held is None:
                    held = result
                elif result is not None:
                    there = ops if source.base is base else _namespace(source.base, create_graph)
                    if partial and (held.__class__ in NON_DENSE or result.__class__ in NON_DENSE):
                        held = add_non_dense(held, result, there, source)
                    else:
                        held = there.add(held, result)
                        if held.__class__ not in VALUES:
                            answer("add", source.base, held)
                if left != LAST:
                    waiting[source] = left - 1
                    if held is not None:
                        pending[source] = held
                    continue
                pending.pop(source, None)
                result = held
            if partial and result.__class__ is SliceGradients:
                result = result.to_dense(
                    ops if source.base is base else _namespace(source.base, create_graph)
                )
            ready.append(source)
            gradients.append(result)
    return found


def _raise_invalid_result(
    rule: Rule, base: Any, create_graph: bool, g: Any, saved: Any, ins: Any, error: Exception
) -> None:
    """Raise BackendError where, in a rule that failed with ``error``, an operation of ``base``
    gives no value; DTypeError where it is given none."""

    def again() -> None:
        rule.backward(_namespace(base, create_graph), g, saved, ins)

    try:
        with Answers():
            again()
    except BackendError:
        raise
    except Exception:
        pass  # what the rule itself raised is on its way
    if isinstance(error, FlError) and not isinstance(error, BackendError):
        return
    better = explain(rule.name, error, again)
    if better is not error:
        raise better from error


def _namespace(base: Any, create_graph: bool) -> Any:
    return tape_for(base) if create_graph else ops_for(base)


def _seed(output: Variable, grad: Any) -> Variable:
    if grad is None and output.size != 1:
        raise GradError(
            f"[backward] the output has shape {output.shape}: a gradient starts from one number. "
            f"Reduce it (sum, mean) or pass a gradient of that shape"
        )
    if grad is None and output.dtype.kind == "c":
        raise GradError(
            f"[backward] the output is {output.dtype}: a gradient starts from a real number. Take "
            f"real(x), imag(x) or absolute(x), or pass a gradient"
        )
    if grad is None or isinstance(grad, SCALARS):
        value = 1.0 if grad is None else scalar("backward", grad, output.dtype)
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
