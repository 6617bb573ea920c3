"""``grad`` and ``value_and_grad``: gradients as return values, without touching ``.grad``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fl_autograd import engine, nesting
from fl_autograd.errors import GradError
from fl_autograd.variable import Variable
from fl_tensor.arguments import function_of, ints_of, several_of
from fl_tensor.arrays.array import Array


def grad(
    outputs: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    grad_outputs: Any = None,
    create_graph: bool | None = None,
    retain_graph: bool | None = None,
    allow_unused: bool = False,
) -> Any:
    """The gradients of ``outputs`` with respect to ``inputs``, which may be leaves or results.

    outputs       one variable or several; their gradients are summed
    inputs        one variable (then one gradient is returned) or several (then a tuple)
    grad_outputs  gradients of the outputs, same shapes; None: ones, outputs have one element each
    create_graph  record the gradients, so that they can be differentiated again; None: within a
                  function that ``jacobian`` or another transform differentiates
    retain_graph  keep the graph for another pass; default ``create_graph``
    allow_unused  give None for an input on which the outputs do not depend (GradError otherwise)
    """
    targets = [inputs] if isinstance(inputs, Variable) else _variables("inputs", inputs)
    results = [outputs] if isinstance(outputs, Variable) else _variables("outputs", outputs)
    if grad_outputs is None:
        seeds: list[Any] = [None] * len(results)
    else:
        seeds = [grad_outputs] if isinstance(grad_outputs, Array) else list(grad_outputs)
    if len(seeds) != len(results):
        raise GradError(f"[grad] {len(results)} outputs but {len(seeds)} grad_outputs")
    for i, target in enumerate(targets):
        if target._node is None:
            raise GradError(f"[grad] input {i} of shape {target.shape} requires no gradient")
    create_graph = nesting.creates_graph(create_graph)
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


def _variables(name: str, given: Any) -> list[Any]:
    return several_of("grad", given, name, Variable, "a Variable, or several")


def value_and_grad(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    create_graph: bool | None = None,
) -> Callable[..., tuple[Any, Any]]:
    """``f(*args) -> (value, gradients)`` of a function whose result has one element.

    The arguments numbered ``argnums`` (Tensors, Variables or array-likes) are differentiated: one
    gradient for an int, a tuple for several. Value and gradients are Variables without history,
    unless ``create_graph`` (see ``grad``).
    """
    function_of("value_and_grad", function)
    several = not isinstance(argnums, int)
    numbers = ints_of("value_and_grad", argnums, "argnums")

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        recorded = nesting.creates_graph(create_graph)
        given = list(args)
        points = []
        for i in numbers:
            if not 0 <= i < len(given):
                raise GradError(f"[value_and_grad] argument {i} of {len(given)} does not exist")
            given[i] = nesting.point(given[i], recorded)
            points.append(given[i])
        value = nesting.run(function, *given, **kwargs)
        if not isinstance(value, Variable):
            raise GradError(
                f"[value_and_grad] the function returned a {type(value).__name__}, not a Variable"
            )
        gradients = grad(value, points, create_graph=recorded)
        value = value if recorded else value.detach()
        return value, gradients if several else gradients[0]

    return wrapped
