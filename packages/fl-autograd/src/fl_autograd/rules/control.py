"""The rules of ``cond``, ``while_loop`` and ``scan``: gradients of graphs are graphs.

``vjp(body)`` is the trace, without data, of the tape's backward pass through the body: all rules of
operations serve again, and a gradient of a gradient is one more trace. A scan is differentiated by
a scan the other way, which computes each body again from the carry before it (Griewank & Walther,
"Evaluating Derivatives", 2008, chapter 12). A while loop is a scan over so many steps as it made
trips. A cond is one of the branches' gradients.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import fl_tensor as ft
from fl_autograd.mode import untold
from fl_tensor.extend import under
from fl_tensor.graph import Graph
from fl_tensor.graph.bodies import whole_names

__all__ = ["VJPS", "vjp", "with_carry"]

Places = Sequence[tuple[int, int, tuple[int, ...]]]
#: Graphs that were made of a graph.
_MADE: weakref.WeakKeyDictionary[Graph, dict[Any, Graph]] = weakref.WeakKeyDictionary()


def _cond(
    ops: Any,
    g: Any,
    needs: Sequence[bool],
    xs: Sequence[Any],
    predicate: Any,
    places: Places,
    then: Graph,
    other: Graph,
) -> list[Any]:
    wrt = tuple([i for i, needed in enumerate(needs) if needed])
    of = tuple([i for i, _, _ in places])
    back = [vjp(branch, wrt, of) for branch in (then, other)]
    found = ops.cond(predicate, [*xs, *_parts(ops, g, places).values()], *back)
    return _spread(len(xs), wrt, found)


def _scan(
    ops: Any,
    g: Any,
    needs: Sequence[bool],
    xs: Sequence[Any],
    count: Any,
    places: Places,
    body: Graph,
    carries: int,
    scanned: int,
    steps: int,
    reverse: bool,
    before: Sequence[Any],
) -> list[Any]:
    first = len(xs) - scanned
    fixed, rows = list(xs[carries:first]), list(xs[first:])
    given = _parts(ops, g, places)
    if type(xs[0]) is not type(before[0] if before else xs[0]):
        # To be differentiated again: the carries with their history.
        kept = with_carry(body, carries)
        found = ops.scan(xs, count, kept, carries, scanned, steps, reverse)
        before = found[len(body.outputs) :]
    of_carry = [i for i in range(carries) if body.outputs[i].dtype.kind in "fc"]
    of_steps = [i for i in given if i >= carries]
    of_fixed = [i for i in range(carries, first) if needs[i]]
    of_rows = [i for i in range(first, len(xs)) if needs[i]]
    back = _step_back(body, carries, of_carry, of_steps, of_fixed, of_rows)
    state = [given.get(i) for i in of_carry]
    state = [_zeros(ops, xs[i]) if x is None else x for i, x in zip(of_carry, state)]
    state += [_zeros(ops, xs[i]) for i in of_fixed]
    scans = [*rows, *before, *(given[i] for i in of_steps)]
    found = ops.scan(
        [*state, *fixed, *scans], count, back, len(state), len(scans), steps, not reverse
    )
    gradients = _spread(len(xs), [*of_carry, *of_fixed, *of_rows], found)
    return [x if needed else None for x, needed in zip(gradients, needs)]


def _step_back(
    body: Graph,
    carries: int,
    of_carry: list[int],
    of_steps: list[int],
    of_fixed: list[int],
    of_rows: list[int],
) -> Graph:
    """One step back: (gradients of the carry, sums for fixed values; fixed values; rows, the carry
    before, gradients of the values of the step) -> (gradients of the carry before, sums; gradients
    of the rows)."""
    wrt = (*of_carry, *of_fixed, *of_rows)
    back = vjp(body, wrt, (*of_carry, *of_steps))
    inputs = body.inputs
    fixed = len(inputs) - carries

    def step(*xs: Any) -> list[Any]:
        remaining = iter(xs)

        def take(n: int) -> list[Any]:
            return [next(remaining) for _ in range(n)]

        d_carry, sums = take(len(of_carry)), take(len(of_fixed))
        rest, before, d_steps = take(fixed), take(carries), take(len(of_steps))
        found = back(*before, *rest, *d_carry, *d_steps) if wrt else []
        split = len(of_carry)
        added = [a + b for a, b in zip(sums, found[split:])]
        return [*found[:split], *added, *found[split + len(sums) :]]

    outputs = body.outputs
    types = [outputs[i] for i in of_carry] + [inputs[i] for i in of_fixed]
    types += [*inputs[carries:], *inputs[:carries], *(outputs[i] for i in of_steps)]
    key = "step", carries, *map(tuple, (of_carry, of_steps, of_fixed, of_rows))
    return _made(body, key, lambda: traced(step, types))


def vjp(graph: Graph, wrt: Sequence[int], of: Sequence[int]) -> Graph:
    """The graph of (inputs, gradients of the outputs numbered ``of``) -> gradients of the inputs
    numbered ``wrt``. Of complex numbers they are what rules compute with."""
    inputs, outputs = graph.inputs, graph.outputs
    count = len(inputs)

    def back(*xs: Any) -> list[Any]:
        from fl_autograd.functional import grad
        from fl_autograd.mode import Recorder, isolated_recording
        from fl_autograd.sparse import to_dense
        from fl_autograd.variable import Variable

        with isolated_recording(Recorder(), None):
            given = [Variable(x, requires_grad=i in wrt) for i, x in enumerate(xs[:count])]
            found = graph(*given) if given else graph()
            seeds = zip([found[i] for i in of], xs[count:])
            tracked = [(y, Variable(_conjugate(g))) for y, g in seeds if y.requires_grad]
            wanted = [given[i] for i in wrt]
            if not tracked:
                return [ft.zeros_like(x.tensor) for x in wanted]
            results, gradients = zip(*tracked)
            made = grad(results, wanted, gradients, create_graph=False, allow_unused=True)
        return [
            ft.zeros_like(x.tensor) if g is None else _conjugate(to_dense(g).tensor)
            for x, g in zip(wanted, made)
        ]

    types = [*inputs, *(outputs[i] for i in of)]
    return _made(graph, ("vjp", tuple(wrt), tuple(of)), lambda: traced(back, types))


def with_carry(body: Graph, carries: int) -> Graph:
    """The body of a scan that gives the carry before each step, too."""
    return _made(
        body,
        ("with_carry", carries),
        lambda: body.replace(outputs=[*body.outputs, *body.inputs[:carries]]),
    )


def traced(function: Callable[..., Sequence[Any]], types: Sequence[Any]) -> Graph:
    """The graph of a function of Tensors of these types."""
    null = ft.get_backend("null")
    whole = whole_names()
    with under(None), untold(), ft.use(null):
        given = [ft.zeros(tuple(v.shape), v.dtype, backend=null) for v in types]
    with under(None), untold(), ft.use(null), ft.trace(whole) as graph:
        for x in given:
            graph.input(x)
        graph.output(*function(*given))
        outputs = list(graph.outputs)
    return Graph(graph.inputs, graph.constants, graph.nodes, outputs).prune()


def _made(graph: Graph, key: Any, make: Callable[[], Graph]) -> Graph:
    whole = whole_names()
    key = (*key, whole if isinstance(whole, bool) else frozenset(whole))
    known = _MADE.setdefault(graph, {})
    found = known.get(key)
    if found is None:
        found = known[key] = make()
    return found


def _parts(ops: Any, g: Any, places: Places) -> dict[int, Any]:
    # The gradients of results by their numbers.
    found = {}
    for i, start, shape in places:
        flat = ops.slice(g, (start,), (math.prod(shape),), (1,))
        found[i] = ops.reshape(flat, shape)
    return found


def _spread(count: int, numbers: Sequence[int], found: Sequence[Any]) -> list[Any]:
    made: list[Any] = [None] * count
    for i, x in zip(numbers, found):
        made[i] = x
    return made


def _zeros(ops: Any, x: Any) -> Any:
    return ops.full(tuple(x.shape), 0, x.dtype, x.device)


def _conjugate(x: Any) -> Any:
    return ft.conj(x) if x.dtype.kind == "c" else x


VJPS: dict[str, Callable[..., list[Any]]] = {"cond": _cond, "scan": _scan}
