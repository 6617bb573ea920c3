"""Random choice, with and without replacement: ``Generator.choice``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fl_tensor import functions
from fl_tensor.arguments import axis_of, float_of, shape_of
from fl_tensor.dispatch.frontend import operand
from fl_tensor.dispatch.registry import BackendLike
from fl_tensor.errors import ArgumentError
from fl_tensor.functions import elementwise, gathering, searching, shaping
from fl_tensor.functions.creation import DeviceLike, asarray

if TYPE_CHECKING:
    from fl_tensor.arrays.tensor import Tensor
    from fl_tensor.random.generator import Generator, Size


def choice(
    generator: Generator,
    x: Any,
    shape: Size,
    replace: bool,
    p: Sequence[float] | None,
    axis: int,
    device: DeviceLike,
    backend: BackendLike | None,
) -> Any:
    count, size = x, shape_of("choice", shape)
    if not isinstance(x, int):
        x = operand("choice", "A", x)
        axis = axis_of("choice", axis, x.shape)
        count, device, backend = x.shape[axis], x.device, x._backend
    shares = None if p is None else _probabilities(p, count)
    drawn = math.prod(size)
    possible = count if shares is None else sum(v > 0 for v in shares)
    if possible < (min(drawn, 1) if replace else drawn):
        once = "" if replace else ", none of them twice"
        raise ArgumentError(f"[choice] {drawn} of {possible} possible slices{once}")
    if not replace:
        order = _order(generator, count, shares, device, backend)
        places = shaping.reshape(order[:drawn], size)
    elif shares is None or not drawn:
        places = generator.integers(0, max(count, 1), size, None, device, backend)
    else:
        places = _weighted(shares, generator._keys(size, device, backend))
    return places if isinstance(x, int) else gathering.gather(x, places, axis)


def _weighted(shares: list[float], keys: Tensor) -> Any:
    # Key k stands for k / 2^62: the slice is the first whose running share is above that. Integers
    # are compared, so that every backend finds the same one.
    last = max(i for i, v in enumerate(shares) if v > 0)
    ends = [min(round(end * 2**62), 2**62) for end in itertools.accumulate(shares[:last])]
    return searching.searchsorted(asarray(ends, "int64", keys.device, keys._backend), keys, "right")


def _order(
    generator: Generator,
    count: int,
    shares: list[float] | None,
    device: DeviceLike,
    backend: BackendLike | None,
) -> Any:
    if shares is None:
        return generator.permutation(count, device, backend)
    # Of exponential times with the shares as rates the next to come is each time drawn from those
    # left, with probabilities in proportion to their shares.
    u = generator.uniform(count, device=device, backend=backend)
    rates = asarray(shares, u.dtype, u.device, u._backend)
    never = rates == 0
    times = -functions.log1p(-u) / elementwise.where(never, 1.0, rates)
    return functions.argsort(elementwise.where(never, math.inf, times))


def _probabilities(p: Any, count: int) -> list[float]:
    values = p.tolist() if hasattr(p, "tolist") else list(p)
    shares = [float_of("choice", v, "p") for v in values]
    if len(shares) != count or not all(v >= 0 for v in shares):
        raise ArgumentError(
            f"[choice] {len(shares)} probabilities for {count} slices: expected one for each, none "
            f"negative"
        )
    total = math.fsum(shares)
    if not abs(total - 1.0) < 1e-6:
        raise ArgumentError(f"[choice] the probabilities add up to {total}, not 1")
    return [v / total for v in shares]
