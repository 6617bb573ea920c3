"""Function transforms: ``vjp``, ``jvp``, ``jacobian``, ``hessian``.

``function`` takes Variables and returns a Variable or a tuple of them. Arguments are Tensors,
Variables or array-likes of floating dtypes (``vjp`` and ``jvp`` take complex ones as well); they
are not touched. Results have no history, unless
``create_graph``: then they can be differentiated again, with respect to arguments that are
Variables and to all that ``function`` uses. None, the default, is True within a function that
another transform differentiates, and False elsewhere.

The derivative of a result without history is zero: of a constant, and of what ``detach``,
``no_grad`` or ``create_graph=False`` cut off on purpose. GradError where ``function`` called
``backward`` and returns what it left in ``.grad``.

Of the function alone each gives a function: ``vjp(f)(*primals)``, ``jvp(f)(primals, tangents)``,
and, as JAX's, ``jacobian(f)(*args, **kwargs)`` and ``hessian(f)(*args, **kwargs)``, which
differentiate the arguments that ``argnums`` numbers: one for an int, else as for a tuple of inputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import fl_tensor as ft
from fl_autograd import nested_transforms
from fl_autograd.currying import of_arguments
from fl_autograd.errors import GradError
from fl_autograd.functional import grad
from fl_autograd.sparse import to_dense
from fl_autograd.variable import Variable, variable
from fl_tensor import Array
from fl_tensor.arguments import function_of, is_single, several_of

Function = Callable[..., Any]
Strategy: TypeAlias = Literal["reverse-mode", "forward-mode"]

#: Kinds of dtype that each takes: matrices of derivatives are of real numbers.
_KINDS = {"vjp": "fc", "jvp": "fc", "jacobian": "f", "hessian": "f"}


@overload
def vjp(function: Function, *, create_graph: bool | None = None) -> Function: ...
@overload
def vjp(
    function: Function, *primals: Any, create_graph: bool | None = None
) -> tuple[Any, Function]: ...
def vjp(function: Function, *primals: Any, create_graph: bool | None = None) -> Any:
    """``(outputs, pullback)``: the outputs at ``primals``, and the function from their gradients
    (one argument per output) to the gradients of the primals: one for a single primal, else a
    tuple; zeros for a primal that no output depends on. ``pullback`` may be called repeatedly.

    >>> y, pullback = vjp(lambda x: x * x, ft.asarray([3.0, 4.0]))
    >>> pullback(ft.asarray([1.0, 10.0])).tolist()
    [6.0, 80.0]
    """
    if not primals:
        return functools.partial(vjp, function_of("vjp", function), create_graph=create_graph)
    connected = nested_transforms.creates_graph(create_graph)
    inputs = _inputs("vjp", primals, connected)
    outputs, several = _outputs("vjp", function, inputs)

    def pullback(*cotangents: Any) -> Any:
        # It may be called where another function is differentiated, or no longer is.
        recorded = nested_transforms.creates_graph(create_graph) or connected
        found = _pullback("vjp", outputs, inputs, cotangents, recorded)
        return found if len(found) != 1 else found[0]

    given = outputs if connected else tuple(y.detach() for y in outputs)
    return (given if several else given[0]), pullback


@overload
def jvp(function: Function, *, create_graph: bool | None = None) -> Function: ...
@overload
def jvp(
    function: Function,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    create_graph: bool | None = None,
) -> tuple[Any, Any]: ...
def jvp(
    function: Function,
    primals: Sequence[Any] | None = None,
    tangents: Sequence[Any] | None = None,
    create_graph: bool | None = None,
) -> Any:
    """``(outputs, slopes)``: the outputs at ``primals``, and their change per step along
    ``tangents``, one per primal and of its shape and dtype. Both have the form of what ``function``
    returns.

    Computed by differentiating ``pullback`` of ``vjp``, which is linear, with respect to its
    argument: no operation needs a rule for the forward direction, and any number of primals costs
    about two backward passes. (J. Townsend, "A new trick for calculating Jacobian vector products",
    2017.)
    """
    if primals is tangents is None:
        return functools.partial(jvp, function_of("jvp", function), create_graph=create_graph)
    primals, tangents = [
        several_of("jvp", given, what, object, "a sequence, one for each argument")
        for what, given in (("primals", primals), ("tangents", tangents))
    ]
    if len(primals) != len(tangents):
        raise GradError(f"[jvp] {len(primals)} primals but {len(tangents)} tangents")
    create_graph = nested_transforms.creates_graph(create_graph)
    inputs = _inputs("jvp", primals, create_graph)
    outputs, several = _outputs("jvp", function, inputs)
    slopes = _pushforward("jvp", outputs, inputs, tangents, create_graph)
    given = outputs if create_graph else tuple(y.detach() for y in outputs)
    return (given, slopes) if several else (given[0], slopes[0])


@overload
def jacobian(
    function: Function,
    inputs: None = None,
    create_graph: bool | None = None,
    strategy: Strategy = "reverse-mode",
    *,
    argnums: int | Sequence[int] = 0,
) -> Function: ...
@overload
def jacobian(
    function: Function,
    inputs: Any,
    create_graph: bool | None = None,
    strategy: Strategy = "reverse-mode",
) -> Any: ...
def jacobian(
    function: Function,
    inputs: Any = None,
    create_graph: bool | None = None,
    strategy: Strategy = "reverse-mode",
    *,
    argnums: int | Sequence[int] | None = None,
) -> Any:
    """All derivatives of all elements of the outputs: an array of shape ``output.shape +
    input.shape`` for one output and one input; a tuple over inputs where ``inputs`` is a tuple or
    list, within a tuple over outputs where ``function`` returns one.

    strategy  "reverse-mode" makes a backward pass per element of the outputs, "forward-mode" one
              per element of the inputs: choose the fewer
    argnums   without ``inputs``: the argument that the result differentiates, or several; default 0
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise GradError(
            f"[jacobian] strategy {strategy!r}: expected 'reverse-mode' or 'forward-mode'"
        )
    if inputs is None:
        options = {"create_graph": create_graph, "strategy": strategy}
        return _curried("jacobian", functools.partial(jacobian, **options), function, argnums)
    _require_no_argnums("jacobian", argnums)
    create_graph = nested_transforms.creates_graph(create_graph)
    listed = isinstance(inputs, (tuple, list))
    xs = _inputs("jacobian", inputs if listed else [inputs], create_graph)
    outputs, several = _outputs("jacobian", function, xs)
    make = _rows if strategy == "reverse-mode" else _columns
    found = make(outputs, xs, create_graph)
    per_output = tuple(blocks if listed else blocks[0] for blocks in found)
    return per_output if several else per_output[0]


@overload
def hessian(
    function: Function,
    inputs: None = None,
    create_graph: bool | None = None,
    *,
    argnums: int | Sequence[int] = 0,
) -> Function: ...
@overload
def hessian(function: Function, inputs: Any, create_graph: bool | None = None) -> Any: ...
def hessian(
    function: Function,
    inputs: Any = None,
    create_graph: bool | None = None,
    *,
    argnums: int | Sequence[int] | None = None,
) -> Any:
    """The second derivatives of a ``function`` with one element: an array of shape ``input.shape +
    input.shape``; for a tuple or list of inputs a tuple of tuples, ``[i][j]`` being d2/dxi dxj.
    ``argnums`` is as in ``jacobian``."""
    if inputs is None:
        transform = functools.partial(hessian, create_graph=create_graph)
        return _curried("hessian", transform, function, argnums)
    _require_no_argnums("hessian", argnums)
    listed = isinstance(inputs, (tuple, list))
    function_of("hessian", function)

    def gradient(*xs: Variable) -> Any:
        (output,), _ = _outputs("hessian", function, xs)
        if output.size != 1:
            raise GradError(f"[hessian] the function returned shape {output.shape}: expected one")
        return _pullback("hessian", (output,), xs, _basis(output), True)

    found = jacobian(gradient, list(inputs) if listed else [inputs], create_graph)
    return found if listed else found[0][0]


# ---- pieces --------------------------------------------------------------------------------------


def _curried(
    name: str, transform: Function, function: Function, argnums: int | Sequence[int] | None
) -> Function:
    numbers = 0 if argnums is None else argnums

    def of_points(chosen: Function, points: list[Any]) -> Any:
        # A list that stands for one array would be several inputs.
        return transform(chosen, ft.asarray(points[0]) if is_single(numbers) else points)

    return of_arguments(name, function, numbers, of_points)


def _require_no_argnums(name: str, argnums: int | Sequence[int] | None) -> None:
    if argnums is not None:
        raise GradError(
            f"[{name}] argnums is for the function alone, as in {name}(f, argnums=1)(x, y): with "
            f"inputs at once, all of them are differentiated"
        )


def _inputs(name: str, values: Sequence[Any], create_graph: bool) -> tuple[Variable, ...]:
    # Fresh points to differentiate with respect to; with ``create_graph`` still connected.
    found = []
    for i, x in enumerate(values):
        if isinstance(x, Array) and x.dtype.kind not in _KINDS[name]:
            raise GradError(f"[{name}] input {i} is {x.dtype}: gradients are of floating numbers")
        found.append(nested_transforms.primal(x, create_graph))
    return tuple(found)


def _outputs(
    name: str, function: Function, inputs: Sequence[Variable]
) -> tuple[tuple[Variable, ...], bool]:
    result = nested_transforms.differentiated_call(function_of(name, function), *inputs)
    several = isinstance(result, (tuple, list))
    outputs = tuple(result) if several else (result,)
    for y in outputs:
        if not isinstance(y, Variable) or y.dtype.kind not in _KINDS[name]:
            what = type(y).__name__ + (f" of {y.dtype}" if isinstance(y, Array) else "")
            raise GradError(f"[{name}] the function returned a {what}, not a floating Variable")
    if any(x.grad is not None for x in inputs) and not any(y.requires_grad for y in outputs):
        raise GradError(
            f"[{name}] the function called backward(), and its result has no history: gradients in "
            f".grad have none; take them with fl_autograd.grad(y, x), which has one here"
        )
    return outputs, several


def _pullback(
    name: str,
    outputs: Sequence[Variable],
    inputs: Sequence[Variable],
    cotangents: Sequence[Any],
    create_graph: bool,
) -> tuple[Variable, ...]:
    # J^T times the cotangents; outputs that depend on nothing are left out.
    if len(cotangents) != len(outputs):
        raise GradError(f"[{name}] {len(outputs)} outputs but {len(cotangents)} gradients of them")
    pairs = [(y, _like(name, u, y)) for y, u in zip(outputs, cotangents) if y.requires_grad]
    found = _grads(pairs, inputs, create_graph)
    return tuple(_zeros(x) if g is None else to_dense(g) for x, g in zip(inputs, found))


def _pushforward(
    name: str,
    outputs: Sequence[Variable],
    inputs: Sequence[Variable],
    tangents: Sequence[Any],
    create_graph: bool,
) -> tuple[Variable, ...]:
    # J times the tangents: the gradient of <J^T u, tangents> with respect to u, at any u.
    us = [Variable(_zeros(y), requires_grad=True) for y in outputs]
    pulled = _pullback(name, outputs, inputs, us, True)
    pairs = [(g, _like(name, t, x)) for g, x, t in zip(pulled, inputs, tangents) if g.requires_grad]
    found = _grads(pairs, us, create_graph)
    return tuple(_zeros(u) if g is None else g for u, g in zip(us, found))


def _grads(
    pairs: Sequence[tuple[Variable, Any]], inputs: Sequence[Variable], create_graph: bool
) -> Sequence[Variable | None]:
    # Of outputs with their gradients; None for inputs that none of them depends on.
    if not pairs:
        return [None] * len(inputs)
    outputs, given = zip(*pairs)
    return grad(outputs, inputs, given, create_graph, retain_graph=True, allow_unused=True)


def _rows(
    outputs: Sequence[Variable], inputs: Sequence[Variable], create_graph: bool
) -> list[tuple[Variable, ...]]:
    found = []
    for y in outputs:
        rows = [_pullback("jacobian", (y,), inputs, (u,), create_graph) for u in _basis(y)]
        found.append(
            tuple(
                _stack([row[i] for row in rows], (*y.shape, *x.shape), x)
                for i, x in enumerate(inputs)
            )
        )
    return found


def _columns(
    outputs: Sequence[Variable], inputs: Sequence[Variable], create_graph: bool
) -> list[tuple[Variable, ...]]:
    found: list[list[Variable]] = [[] for _ in outputs]
    for i, x in enumerate(inputs):
        still = [_zeros(other) for other in inputs]
        columns = [
            _pushforward(
                "jacobian", outputs, inputs, [*still[:i], u, *still[i + 1 :]], create_graph
            )
            for u in _basis(x)
        ]
        for j, y in enumerate(outputs):
            made = _stack([column[j] for column in columns], (*x.shape, *y.shape), y)
            order = (*range(x.ndim, x.ndim + y.ndim), *range(x.ndim))
            found[j].append(ft.permute(made, order))
    return [tuple(blocks) for blocks in found]


def _basis(x: Variable) -> list[Variable]:
    # Every array of the shape of ``x`` with a single 1, in C order.
    ops, base = ft.ops_for(x._backend), x._backend
    numbers = ft.Tensor(ops.arange(0, x.size, 1, ft.int64, x.device), base)
    return [Variable(ft.cast(numbers == i, x.dtype).reshape(x.shape)) for i in range(x.size)]


def _stack(parts: list[Variable], shape: tuple[int, ...], like: Variable) -> Variable:
    return ft.reshape(ft.stack(parts), shape) if parts else _zeros(like, shape)


def _zeros(x: Variable, shape: tuple[int, ...] | None = None) -> Variable:
    size = x.shape if shape is None else shape
    made = ft.ops_for(x._backend).full(size, 0.0, x.dtype, x.device)
    return variable(made, x._backend, None)


def _like(name: str, given: Any, x: Variable) -> Variable:
    made = given if isinstance(given, Variable) else Variable(given)
    if made.size == x.size == 1 and made.shape != x.shape:
        made = ft.reshape(made, x.shape)
    if made.shape != x.shape or made.dtype is not x.dtype:
        raise GradError(
            f"[{name}] a direction of shape {made.shape}, {made.dtype} for an array of shape "
            f"{x.shape}, {x.dtype}: they must agree"
        )
    return made
