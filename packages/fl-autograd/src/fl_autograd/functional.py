"""``grad`` and ``value_and_grad``: gradients as return values, without touching ``.grad``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, overload

from fl_autograd import engine, nested_transforms
from fl_autograd.currying import of_arguments
from fl_autograd.errors import GradError
from fl_autograd.variable import Variable
from fl_tensor import Array
from fl_tensor.arguments import is_single, several_of


@overload
def grad(
    outputs: Callable[..., Any],
    *,
    create_graph: bool | None = None,
    argnums: int | Sequence[int] = 0,
) -> Callable[..., Any]: ...
@overload
def grad(
    outputs: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    grad_outputs: Any = None,
    create_graph: bool | None = None,
    retain_graph: bool | None = None,
    allow_unused: bool = False,
) -> Any: ...
def grad(
    outputs: Any,
    inputs: Any = None,
    grad_outputs: Any = None,
    create_graph: bool | None = None,
    retain_graph: bool | None = None,
    allow_unused: bool = False,
    *,
    argnums: int | Sequence[int] | None = None,
) -> Any:
    """The gradients of ``outputs`` with respect to ``inputs``, which may be leaves or results.

    ``grad(f)`` of a function whose result has one element is the function of its gradient, as
    JAX's: ``grad(f)(x)``. It takes ``argnums`` and ``create_graph``, see ``value_and_grad``.

    outputs       one variable or several; their gradients are summed; or a function
    inputs        one variable (then one gradient is returned) or several (then a tuple)
    grad_outputs  gradients of the outputs, same shapes; None: ones, outputs have one element each
    create_graph  record the gradients, so that they can be differentiated again; None: within a
                  function that ``jacobian`` or another transform differentiates
    retain_graph  keep the graph for another pass; default ``create_graph``
    allow_unused  give None for an input on which the outputs do not depend (GradError otherwise)
    argnums       of a function: the number of the argument, or a sequence of them; default 0
    """
    if callable(outputs):
        if not (inputs is grad_outputs is retain_graph is None) or allow_unused:
            raise GradError(
                "[grad] of a function only argnums and create_graph may be given: the arguments "
                "go to the result, as in grad(f)(x) or grad(f, argnums=1)(x, y)"
            )
        differentiated = value_and_grad(outputs, 0 if argnums is None else argnums, create_graph)
        return _second(differentiated)
    if argnums is not None or inputs is None:
        raise GradError(
            "[grad] of variables: give the inputs, as in grad(y, x); argnums is for a function, "
            "as in grad(f, argnums=1)(x, y)"
        )
    targets = [inputs] if isinstance(inputs, Variable) else _as_variables("inputs", inputs)
    results = [outputs] if isinstance(outputs, Variable) else _as_variables("outputs", outputs)
    if grad_outputs is None:
        seeds: list[Any] = [None] * len(results)
    else:
        seeds = [grad_outputs] if isinstance(grad_outputs, Array) else list(grad_outputs)
    if len(seeds) != len(results):
        raise GradError(f"[grad] {len(results)} outputs but {len(seeds)} grad_outputs")
    for i, target in enumerate(targets):
        if target._node is None:
            raise GradError(f"[grad] input {i} of shape {target.shape} requires no gradient")
    create_graph = nested_transforms.creates_graph(create_graph)
    keep = create_graph if retain_graph is None else retain_graph
    nodes = [target._node for target in targets]
    wanted = {node for node in nodes if node is not None}
    found = engine.propagate(results, seeds, wanted, keep or create_graph, create_graph)
    gradients = [found.get(node) if node is not None else None for node in nodes]
    if not allow_unused and None in [None if g is None else 0 for g in gradients]:
        unused = next(i for i, g in enumerate(gradients) if g is None)
        raise GradError(
            f"[grad] the outputs do not depend on input {unused} of shape {targets[unused].shape}: "
            f"pass allow_unused=True to get None for it"
        )
    return gradients[0] if isinstance(inputs, Variable) else tuple(gradients)


def _second(function: Callable[..., tuple[Any, Any]]) -> Callable[..., Any]:
    @functools.wraps(function)
    def second(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)[1]

    return second


def _as_variables(name: str, given: Any) -> list[Any]:
    return several_of("grad", given, name, Variable, "a Variable, or several")


def value_and_grad(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    create_graph: bool | None = None,
) -> Callable[..., tuple[Any, Any]]:
    """``f(*args) -> (value, gradients)`` of a function whose result has one element.

    The arguments numbered ``argnums`` (Tensors, Variables or array-likes; -1 is the last that is
    given by position) are differentiated: one gradient for an int, a tuple for several. Value and
    gradients are Variables without history, unless ``create_graph`` (see ``grad``).
    """
    several = not is_single(argnums)

    def transform(of_points: Callable[..., Any], points: list[Any]) -> tuple[Any, Any]:
        recorded = nested_transforms.creates_graph(create_graph)
        xs = [nested_transforms.primal(x, recorded) for x in points]
        value = nested_transforms.differentiated_call(of_points, *xs)
        if not isinstance(value, Variable):
            raise GradError(
                f"[value_and_grad] the function returned a {type(value).__name__}, not a Variable"
            )
        gradients = grad(value, xs, create_graph=recorded)
        value = value if recorded else value.detach()
        return value, gradients if several else gradients[0]

    return of_arguments("value_and_grad", function, argnums, transform)
