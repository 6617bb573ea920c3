"""Draws from categorical distributions, and their log-probabilities."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fl_tensor import dtypes, functions, rules
from fl_tensor.arguments import axis_of, flag_of, int_of, shape_of
from fl_tensor.dispatch.frontend import ArrayLike, cast, operands_of
from fl_tensor.errors import ArgumentError, ShapeError
from fl_tensor.functions.gathering import in_range, take_along_axis
from fl_tensor.functions.reducing import sum
from fl_tensor.functions.searching import argmax
from fl_tensor.functions.shaping import expand_dims, moveaxis, reshape, squeeze
from fl_tensor.random.distributions import standard_exponential

if TYPE_CHECKING:
    from fl_tensor.random.generator import Generator, Size

#: Times that are there at once, and the most parts of a draw: with all its classes it needs more
#: memory than its result.
_PART, _MOST_PARTS = 1 << 20, 1 << 10


def categorical(
    generator: Generator, op: str, logits: ArrayLike, shape: Size, axis: int, replace: bool
) -> Any:
    """``Generator.categorical``, in the name of ``op``."""
    (given,) = operands_of(op, "S", logits)
    given = moveaxis(given, axis_of(op, axis, given.shape), -1)._tensor()
    given = cast(given, dtypes.accumulator(given.dtype))
    size, (*batch, classes) = shape_of(op, shape), given.shape
    drawn, replace = math.prod(size), flag_of(op, replace, "replace")
    _check(op, given, 1 if replace else drawn, drawn)
    # Beside large logits the times would be rounded away.
    given = given - functions.max(given, -1, True)

    def races(*lead: int) -> Any:
        # The class with the first of exponential times of these rates comes (Gumbel, 1954);
        # without replacement those with the next ones (Efraimidis & Spirakis, 2006).
        place = (given.dtype, given.device, given._backend)
        return given - functions.log(
            standard_exponential(generator, (*lead, *batch, classes), *place)
        )

    if not replace:
        _, order = functions.topk(races(), drawn, -1)
        return reshape(moveaxis(order, -1, 0), (*size, *batch))
    step = max(_PART // max(given.size, 1), -(-drawn // _MOST_PARTS), 1)
    if drawn <= step:
        return argmax(races(*size), -1)
    parts = [argmax(races(min(step, drawn - i)), -1) for i in range(0, drawn, step)]
    return reshape(functions.concatenate(parts, 0), (*size, *batch))


def _check(op: str, logits: Any, needed: int, drawn: int) -> None:
    if logits.shape[-1] == 0:
        raise ShapeError(f"[{op}] logits {logits.shape}: there are no classes")
    if not drawn or not logits.size or not logits._backend.has_values:
        return
    possible = sum(cast(logits > -math.inf, dtypes.int64), -1)
    wrong = functions.logical_or(functions.isnan(logits), functions.isposinf(logits))
    if wrong.any():
        raise ArgumentError(f"[{op}] there are weights that are no finite numbers >= 0")
    least = possible.min().item()
    if least < needed:
        once = "" if needed == 1 else ", none of them twice"
        raise ArgumentError(f"[{op}] {drawn} draws from {least} possible classes{once}")


def multinomial(generator: Generator, weights: ArrayLike, n: int, replace: bool) -> Any:
    """``Generator.multinomial``."""
    if isinstance(weights, int):
        raise ArgumentError(
            f"[multinomial] weights {weights}: expected weights (..., classes) first, then the "
            f"number of draws; counts as NumPy's are ft.bincount of the result"
        )
    (weights,) = operands_of("multinomial", "S", weights)
    found = categorical(
        generator,
        "multinomial",
        functions.log(weights),
        (int_of("multinomial", n, "n"),),
        -1,
        replace,
    )
    return moveaxis(found, 0, -1)


def categorical_log_prob(logits: ArrayLike, values: ArrayLike, axis: int = -1) -> Any:
    """The logarithm of the probability of class numbers ``values`` (..., *batch), as
    ``Generator.categorical`` draws them, by ``logits`` with the classes along ``axis`` and the
    others *batch; in the shape of ``values``. Differentiable by ``logits``. IndexingError for a
    number that is no class."""
    op = "categorical_log_prob"
    logits, values = operands_of(op, "SA", logits, values)
    at = axis_of(op, axis, logits.shape)
    log_probs = moveaxis(functions.log_softmax(logits, at), at, -1)
    batch, extra = log_probs.shape[:-1], values.ndim - log_probs.ndim + 1
    if extra < 0 or rules.broadcast(op, values.shape, batch) != values.shape:
        rules.fail(
            op, logits=logits.shape, values=values.shape, why=f"values must end with {batch}"
        )
    values = in_range(op, values, logits.shape[at], at, logits.shape, from_end=False)
    log_probs = reshape(log_probs, (*(1,) * extra, *log_probs.shape))
    return squeeze(take_along_axis(log_probs, expand_dims(values, -1), -1), -1)
