"""Random functions: the methods of ``Generator`` on the generator that is passed, or on the default
one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fl_tensor.arguments import shape_of
from fl_tensor.arrays.tensor import Tensor
from fl_tensor.dispatch.frontend import ArrayLike
from fl_tensor.random.defaults import generator_of
from fl_tensor.random.generator import Generator, Size


def rand(shape: Size = (), generator: Generator | None = None, **options: Any) -> Tensor:
    """Uniform on [0, 1). Options as in ``Generator.uniform``."""
    return generator_of("rand", generator).uniform(shape_of("rand", shape), **options)


def randn(shape: Size = (), generator: Generator | None = None, **options: Any) -> Tensor:
    """Standard normal. Options as in ``Generator.normal``."""
    return generator_of("randn", generator).normal(shape_of("randn", shape), **options)


def integers(
    low: int, high: int, shape: Size = (), generator: Generator | None = None, **options: Any
) -> Tensor:
    """Integers on [low, high). Options as in ``Generator.integers``."""
    return generator_of("integers", generator).integers(low, high, shape, **options)


def permutation(
    x: int | ArrayLike, axis: int = 0, generator: Generator | None = None, **options: Any
) -> Any:
    """The numbers below an int ``x`` in random order, or an array with its slices along ``axis`` in
    random order. Options as in ``Generator.permutation``, for an int alone."""
    source = generator_of("permutation", generator)
    return source.permutation(x, **options) if isinstance(x, int) else source.shuffle(x, axis)


def choice(
    x: int | ArrayLike,
    shape: Size = (),
    replace: bool = True,
    p: Sequence[float] | None = None,
    generator: Generator | None = None,
    **options: Any,
) -> Any:
    """Random slices of ``x``, or random numbers below an int. Options as in
    ``Generator.choice``."""
    return generator_of("choice", generator).choice(x, shape, replace, p, **options)


def exponential(
    scale: ArrayLike = 1.0,
    shape: Size | None = None,
    generator: Generator | None = None,
    **options: Any,
) -> Any:
    """Exponential numbers with mean ``scale``. Options as in ``Generator.exponential``."""
    return generator_of("exponential", generator).exponential(scale, shape, **options)


def poisson(
    rate: ArrayLike = 1.0,
    shape: Size | None = None,
    generator: Generator | None = None,
    **options: Any,
) -> Tensor:
    """Poisson numbers with mean ``rate``. Options as in ``Generator.poisson``."""
    return generator_of("poisson", generator).poisson(rate, shape, **options)


def gamma(
    concentration: ArrayLike,
    scale: ArrayLike = 1.0,
    shape: Size | None = None,
    generator: Generator | None = None,
    **options: Any,
) -> Any:
    """Gamma numbers with mean ``concentration * scale``. Options as in ``Generator.gamma``."""
    return generator_of("gamma", generator).gamma(concentration, scale, shape, **options)


def beta(
    a: ArrayLike,
    b: ArrayLike,
    shape: Size | None = None,
    generator: Generator | None = None,
    **options: Any,
) -> Tensor:
    """Beta numbers with mean ``a / (a + b)``. Options as in ``Generator.beta``."""
    return generator_of("beta", generator).beta(a, b, shape, **options)


def categorical(
    logits: ArrayLike,
    shape: Size = (),
    axis: int = -1,
    replace: bool = True,
    generator: Generator | None = None,
) -> Any:
    """Class numbers with probabilities ``softmax(logits, axis)``, as by
    ``Generator.categorical``: (*shape, *batch)."""
    return generator_of("categorical", generator).categorical(logits, shape, axis, replace)


def multinomial(
    weights: ArrayLike, n: int, replace: bool = False, generator: Generator | None = None
) -> Any:
    """``n`` class numbers for each row of ``weights`` (..., classes), as by
    ``Generator.multinomial``: (..., n)."""
    return generator_of("multinomial", generator).multinomial(weights, n, replace)
