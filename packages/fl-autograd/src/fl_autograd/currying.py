"""Transforms of a function alone: what they give is a function of the same arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fl_autograd.errors import GradError
from fl_tensor.arguments import function_of, ints_of

Transform = Callable[[Callable[..., Any], list[Any]], Any]


def of_arguments(
    name: str, function: Callable[..., Any], argnums: int | Sequence[int], transform: Transform
) -> Callable[..., Any]:
    """``f(*args, **kwargs) -> transform(g, points)``: ``g`` is ``function`` of the arguments that
    ``argnums`` numbers, negative ones from the end, the others fixed, and ``points`` are their
    values.

    Raises DTypeError for what is no function, GradError where a numbered argument was not given.
    """
    function_of(name, function)
    numbers = ints_of(name, argnums, "argnums")

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        count = len(args)
        for i in numbers:
            if not -count <= i < count:
                raise GradError(f"[{name}] argument {i} of {count} does not exist")

        def of_points(*points: Any) -> Any:
            given = list(args)
            for i, x in zip(numbers, points):
                given[i] = x
            return function(*given, **kwargs)

        return transform(of_points, [args[i] for i in numbers])

    return wrapped
