"""``cond``, ``while_loop`` and ``scan``: control flow that graphs can hold.

On values, the functions of the caller run as any others. While something captures (``ft.trace``,
``ft.compile``, arrays of ``null``), each is traced once, and the whole is one node of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fl_tensor import arguments, dtypes
from fl_tensor.arrays.array import Array
from fl_tensor.arrays.tensor import Tensor
from fl_tensor.dispatch.frontend import cast, converted, operands_of, raw, run
from fl_tensor.errors import ArgumentError, DTypeError, ShapeError
from fl_tensor.graph import bodies, pytree
from fl_tensor.graph.bodies import is_capturing, joined, trace_body

__all__ = ["cond", "scan", "while_loop"]

#: So many times is a body traced until the classes of its results are those of the carry.
_ROUNDS = 3


def cond(
    predicate: Any, then: Callable[..., Any], other: Callable[..., Any], *operands: Any
) -> Any:
    """``then(*operands)`` where ``predicate``, a bool or an array with one element, is true, else
    ``other(*operands)``:

        y = ft.cond(ft.sum(x) > 0, lambda x: x * 2, lambda x: -x, x)

    Operands and results are arrays, numbers, and tuples, lists and dicts of them. In a graph both
    branches are traced, one runs, and both must return results of the same structure, shapes and
    dtypes. Arrays from around a branch may be used, and have gradients. As ``jax.lax.cond``.

    Raises ShapeError for a predicate of several elements, ArgumentError, ShapeError or DTypeError
    for branches of different results, CaptureError for what no graph does.
    """
    for name, function in (("then", then), ("other", other)):
        arguments.function_of("cond", function, name)
    if not isinstance(predicate, Array):
        return (then if arguments.flag_of("cond", predicate, "predicate") else other)(*operands)
    if predicate.size != 1:
        raise ShapeError(f"[cond] the predicate has shape {tuple(predicate.shape)}: expected one")
    leaves, structure = _arrays("cond", operands)
    given = [x for x in leaves if isinstance(x, Array)]
    if not is_capturing([predicate, *given]):
        return (then if bool(predicate) else other)(*operands)

    def traced(function: Callable[..., Any]) -> bodies.Body:
        def call(*ghosts: Any) -> Any:
            return _arrays("cond", function(*_filled(structure, leaves, ghosts)))

        return trace_body("cond", call, given, _listed)

    branches = [traced(then), traced(other)]
    first, second = [body.result for body in branches]
    _same("cond", "the branches", "the first", first, "the second", second)
    graphs, closed = joined(branches, len(given))
    bodies.refuse_cut("cond", branches, [*given, *closed])
    found = _run(
        "cond", [_truth("cond", predicate), *given, *closed], lambda xs: (xs[0], xs[1:], *graphs)
    )
    return _filled(first[1], first[0], found)


def while_loop(
    test: Callable[..., Any], body: Callable[..., Any], carry: Any, most: int = 1000
) -> Any:
    """``carry = body(*carry)`` while ``test(*carry)`` is true; the last carry:

        a, b = ft.while_loop(lambda a, b: ft.all(b > eps), step, (a, b), most=100)

    carry  an array, a number, or a tuple, list or dict of them; a tuple is passed as separate
           arguments. ``body`` returns the next one: of the same structure, shapes and dtypes
    most   the largest number of trips; a gradient in a graph keeps room for so many carries

    Arrays from around both functions may be used, and have gradients. As ``jax.lax.while_loop``,
    with gradients.

    Raises ArgumentError for a loop that goes on after ``most`` trips, and for a next carry of
    another structure; ShapeError or DTypeError for one of another type; CaptureError for what no
    graph does.
    """
    arguments.function_of("while_loop", test, "test")
    arguments.function_of("while_loop", body, "body")
    most = arguments.int_of("while_loop", most, "most")
    if most < 0:
        raise ArgumentError(f"[while_loop] most {most}: expected 0 or more")
    leaves, structure = state = _arrays("while_loop", carry)
    given = [x for x in leaves if isinstance(x, Array)]
    if not is_capturing(given):
        return _while_on_values(test, body, _filled(structure, leaves, given), most)
    for _ in range(_ROUNDS):

        def tested(*ghosts: Any) -> Any:
            found = test(*_spread(_filled(structure, leaves, ghosts)))
            return _truth("while_loop", found if isinstance(found, Array) else converted(found))

        def advanced(*ghosts: Any) -> Any:
            found = body(*_spread(_filled(structure, leaves, ghosts)))
            return _next("while_loop", state, found)

        traced = [
            trace_body("while_loop", tested, given, lambda x: [x]),
            trace_body("while_loop", advanced, given, _listed),
        ]
        before, given = given, _lifted(given, _listed(traced[1].result))
        if all(map(_is, before, given)):
            break
    (goes_on, step), closed = joined(traced, len(given))
    count = len(given)
    bodies.refuse_cut("while_loop", traced[1:], [*given, *closed])
    found = _run("while_loop", [*given, *closed], lambda xs: (xs, goes_on, step, count, most))
    return _filled(structure, leaves, found)


def scan(
    body: Callable[[Any, Any], tuple[Any, Any]],
    carry: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """``carry, y = body(carry, x)`` for each ``x`` along the first axis of ``xs``; the last carry,
    and all ``y`` along a new first axis:

        (h, c), ys = ft.scan(cell, (h, c), xs)

    carry    arrays, numbers, and tuples, lists and dicts of them. ``body`` returns the next one: of
             the same structure, shapes and dtypes
    xs       as carry; None: ``body`` gets None
    length   the number of steps, where there are no ``xs``
    reverse  the last ``x`` comes first; ``ys`` are in the order of ``xs``

    Arrays from around ``body`` may be used, and have gradients. As ``jax.lax.scan``.

    Raises ArgumentError for a next carry of another structure, for ``xs`` of different lengths and
    without a length; ShapeError or DTypeError for a next carry of another type; CaptureError for
    what no graph does.
    """
    arguments.function_of("scan", body, "body")
    reverse = arguments.flag_of("scan", reverse, "reverse")
    leaves, structure = state = _arrays("scan", carry)
    columns, of_rows = _arrays("scan", xs)
    given = [x for x in leaves if isinstance(x, Array)]
    rows = [x for x in columns if isinstance(x, Array)]
    steps = _steps(rows, length)
    if steps and not is_capturing([*given, *rows]):
        start = _filled(structure, leaves, given)
        return _scan_on_values(body, start, columns, of_rows, steps, reverse)
    samples = [_like(x, bodies.placeholder(x, row=True)) for x in rows]
    count = len(given)
    for _ in range(_ROUNDS):

        def advanced(*ghosts: Any) -> Any:
            now = _filled(structure, leaves, ghosts[:count])
            found = body(now, _filled(of_rows, columns, ghosts[count:]))
            following, y = _pair(found)
            return _next("scan", state, following), _arrays("scan", y)

        traced = trace_body(
            "scan",
            advanced,
            [*given, *samples],
            lambda pair: [*_listed(pair[0]), *_listed(pair[1])],
        )
        before, given = given, _lifted(given, _listed(traced.result[0]))
        if all(map(_is, before, given)):
            break
    graph = _closed_between(traced.graph, count, len(rows))
    operands = [*given, *traced.closed, *rows]
    numbers = count, len(rows), steps, reverse
    bodies.refuse_cut("scan", [traced], operands)
    found = _run("scan", operands, lambda xs: (xs, None, graph, *numbers))
    ys, of_ys = traced.result[1]
    return _filled(structure, leaves, found[:count]), _filled(of_ys, ys, found[count:])


# ---- on values -----------------------------------------------------------------------------------


def _while_on_values(
    test: Callable[..., Any], body: Callable[..., Any], carry: Any, most: int
) -> Any:
    trips = 0
    while bool(test(*_spread(carry))):
        if trips == most:
            raise ArgumentError(
                f"[while_loop] it goes on after {most} trips: give a larger number as most"
            )
        state = _arrays("while_loop", carry)
        leaves, structure = _next("while_loop", state, body(*_spread(carry)))
        carry = pytree.unflatten(structure, leaves)
        trips += 1
    return carry


def _scan_on_values(
    body: Callable[..., Any],
    carry: Any,
    columns: list[Any],
    of_rows: Any,
    steps: int,
    reverse: bool,
) -> tuple[Any, Any]:
    from fl_tensor.functions import stack

    found: list[Any] = []
    for t in range(steps - 1, -1, -1) if reverse else range(steps):
        rows = [x[t] if isinstance(x, Array) else x for x in columns]
        following, y = _pair(body(carry, pytree.unflatten(of_rows, rows)))
        leaves, structure = _next("scan", _arrays("scan", carry), following)
        carry = pytree.unflatten(structure, leaves)
        found.append(_arrays("scan", y))
        _same("scan", "values of steps", "the first", found[0], "a later one", found[-1])
    if reverse:
        found.reverse()
    parts = zip(*[leaves for leaves, _ in found], strict=True)
    ys = [stack(list(each), 0) if isinstance(each[0], Array) else None for each in parts]
    return carry, pytree.unflatten(found[0][1], ys)


# ---- trees ---------------------------------------------------------------------------------------

_Flat = tuple[list[Any], pytree.Structure]


def _arrays(op: str, tree: Any) -> _Flat:
    # Leaves and structure, where numbers are arrays.
    leaves, structure = pytree.flatten(tree)
    lead = next((x for x in leaves if isinstance(x, Array)), None)
    for i, x in enumerate(leaves):
        if x is None or isinstance(x, Array):
            continue
        if not isinstance(x, (bool, int, float, complex)):
            raise DTypeError(f"[{op}] a {type(x).__name__}: expected arrays, numbers or None")
        leaves[i] = converted(x, lead)
    return leaves, pytree.flatten(pytree.unflatten(structure, leaves))[1]


def _filled(structure: Any, leaves: Sequence[Any], arrays: Sequence[Any]) -> Any:
    remaining = iter(arrays)
    made = [next(remaining) if isinstance(x, Array) else x for x in leaves]
    return pytree.unflatten(structure, made)


def _listed(flat: _Flat) -> list[Any]:
    return [x for x in flat[0] if isinstance(x, Array)]


def _spread(carry: Any) -> tuple[Any, ...]:
    return carry if type(carry) is tuple else (carry,)


def _pair(found: Any) -> tuple[Any, Any]:
    if type(found) is not tuple or len(found) != 2:
        raise ArgumentError(
            f"[scan] the body returned a {type(found).__name__}: expected (carry, y)"
        )
    return found


def _next(op: str, state: _Flat, found: Any) -> _Flat:
    """The next carry; numbers have the dtypes of the carry. Raises where it is another one."""
    leaves, structure = pytree.flatten(found)
    if len(leaves) == len(state[0]):
        for i, (x, before) in enumerate(zip(leaves, state[0], strict=True)):
            if isinstance(x, (bool, int, float, complex)) and isinstance(before, Array):
                number = arguments.scalar(op, x, before.dtype)
                leaves[i] = converted(number, before, before.dtype)
    structure = pytree.flatten(pytree.unflatten(structure, leaves))[1]
    _same(op, "the carry", "it", state, "the next one", (leaves, structure))
    return leaves, structure


def _same(op: str, what: str, name: str, one: _Flat, other_name: str, other: _Flat) -> None:
    if _plain(one) != _plain(other):
        raise ArgumentError(
            f"[{op}] {what}: {name} is {_shown(one)}, {other_name} {_shown(other)}: expected the "
            f"same structure"
        )
    for i, (x, y) in enumerate(zip(one[0], other[0], strict=True)):
        if isinstance(x, Array) and (tuple(x.shape), x.dtype) != (tuple(y.shape), y.dtype):
            kind = DTypeError if tuple(x.shape) == tuple(y.shape) else ShapeError
            raise kind(
                f"[{op}] {what}: array {i} of {name} is {x.dtype}{tuple(x.shape)}, of {other_name} "
                f"{y.dtype}{tuple(y.shape)}"
            )


def _plain(flat: _Flat) -> Any:
    # The tree with the same mark for every array, of whatever class.
    leaves, structure = flat
    marks = ["array" if isinstance(x, Array) else x for x in leaves]
    return pytree.flatten(pytree.unflatten(structure, marks))[1]


def _shown(flat: _Flat) -> str:
    leaves, structure = flat
    return str(pytree.unflatten(structure, [_Shown(x) for x in leaves]))


class _Shown:
    """A leaf in a message."""

    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf

    def __repr__(self) -> str:
        x = self.leaf
        return f"{x.dtype}{tuple(x.shape)}" if isinstance(x, Array) else repr(x)


# ---- graphs --------------------------------------------------------------------------------------


def _run(op: str, arrays: Sequence[Any], order: Callable[[list[Any]], Any]) -> Sequence[Any]:
    if not arrays:
        lead: Any = converted(0)
        return run(op, lead, *order([]))
    arrays = operands_of(op, "A" * len(arrays), *arrays)
    return run(op, arrays[0], *order([raw(x) for x in arrays]))


def _truth(op: str, x: Any) -> Any:
    if x.size != 1:
        raise ShapeError(f"[{op}] the test has shape {tuple(x.shape)}: expected one element")
    x = cast(x, dtypes.bool)
    return run("reshape", x, raw(x), ()) if x.shape else x


def _like(x: Any, inner: Tensor) -> Any:
    return inner if isinstance(x, Tensor) else x._lift(inner)


def _is(x: Any, y: Any) -> bool:
    return x is y


def _lifted(given: list[Any], results: Sequence[Any]) -> list[Any]:
    # A carry of which later values are variables is one from the start.
    return [
        y._lift(x) if isinstance(x, Tensor) and not isinstance(y, Tensor) else x
        for x, y in zip(given, results, strict=True)
    ]


def _steps(rows: Sequence[Any], length: int | None) -> int:
    if length is not None:
        length = arguments.int_of("scan", length, "length")
        if length < 0:
            raise ArgumentError(f"[scan] length {length}: expected 0 or more")
    for x in rows:
        if not x.shape:
            raise ShapeError("[scan] xs of shape (): expected a first axis, the steps")
    found = {x.shape[0] for x in rows} | ({length} if length is not None else set())
    if len(found) != 1:
        lengths = ", ".join(map(str, sorted(found))) or "no xs, and no length"
        raise ArgumentError(f"[scan] {lengths}: expected one number of steps")
    steps: int = found.pop()
    return steps


def _closed_between(graph: Any, carries: int, rows: int) -> Any:
    # Inputs in the order of the operation: what the body closes over before the rows.
    inputs, first = graph.inputs, carries + rows
    return graph.replace(inputs=[*inputs[:carries], *inputs[first:], *inputs[carries:first]])
