"""Random arguments of functions that have NumPy's name, options as a dict behind the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Draw:
    """Random arguments: float64 and int64 arrays of up to three axes, none of them empty."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def one(self, *options: Any) -> Any:
        return options[self.number(0, len(options) - 1)]

    def shape(self, least: int = 0, most: int = 3) -> tuple[int, ...]:
        return tuple(self.number(1, 4) for _ in range(self.number(least, most)))

    def floats(self, *shape: int) -> Any:
        """Of several magnitudes, some of them whole."""
        x = self.rng.normal(0, 3, shape or self.shape())
        return np.where(self.rng.random(x.shape) < 0.2, np.round(x), x)

    def positive(self, *shape: int) -> Any:
        return np.asarray(np.abs(self.floats(*shape)) + 0.1)

    def signed(self, *shape: int) -> Any:
        """Floats or integers, none of them zero."""
        shape = shape or self.shape()
        x = self.one(self.positive(*shape), self.ints(*shape, low=1))
        return np.asarray(np.where(self.bools(*shape), x, -x))

    def special(self, *shape: int) -> Any:
        """With infinities, zeros of both signs and NaN."""
        x = np.array(self.floats(*shape))
        values = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0])
        where = self.rng.random(x.shape) < 0.2
        return np.where(where, self.rng.choice(values, x.shape), x)

    def holes(self, *shape: int) -> Any:
        x = self.floats(*shape)
        return np.where(self.rng.random(x.shape) < 0.3, np.nan, x)

    def ints(self, *shape: int, low: int = -9, high: int = 9) -> Any:
        return self.rng.integers(low, high + 1, shape or self.shape())

    def bools(self, *shape: int) -> Any:
        return self.rng.random(shape or self.shape()) < 0.5

    def complex(self, *shape: int) -> Any:
        shape = shape or self.shape(1)
        return self.rng.normal(size=shape) + 1j * self.rng.normal(size=shape)

    def numbers(self, *shape: int) -> Any:
        return self.one(self.floats, self.ints)(*(shape or self.shape(1)))

    def axis(self, x: Any, *also: Any) -> Any:
        return self.one(*range(-x.ndim, x.ndim), *also)

    def pair(self, kind: Callable[..., Any]) -> tuple[Any, Any]:
        """Two arrays that broadcast."""
        shape = self.shape(1)
        other = tuple(self.one(n, 1) for n in shape[self.number(0, len(shape) - 1) :])
        return kind(*shape), kind(*other)


Calls = dict[str, Callable[[Draw], tuple[Any, ...]]]


def unary(d: Draw) -> tuple[Any, ...]:
    return (d.floats(),)


def special(d: Draw) -> tuple[Any, ...]:
    return (d.special(),)


def along(d: Draw) -> tuple[Any, ...]:
    x = d.one(d.numbers(), d.bools(*d.shape(1)))
    return x, d.axis(x, None)


def hollow(d: Draw) -> tuple[Any, ...]:
    x = d.holes(*d.shape(1))
    return x, d.axis(x, None)


def vectors(d: Draw) -> tuple[Any, ...]:
    return d.numbers(d.number(1, 8)), d.numbers(d.number(1, 8))


def sets(d: Draw) -> tuple[Any, ...]:
    return d.ints(*d.shape(1, 2), low=0, high=6), d.ints(d.number(1, 8), low=0, high=6)


def stacked(least: int) -> Callable[[Draw], tuple[Any, ...]]:
    def draw(d: Draw) -> tuple[Any, ...]:
        shape = d.shape(least)
        return ([d.numbers(*shape) for _ in range(d.number(1, 3))],)

    return draw


def window(d: Draw) -> tuple[Any, ...]:
    return (d.number(1, 20),)


def cut(least: int, axis: int) -> Callable[[Draw], tuple[Any, ...]]:
    def draw(d: Draw) -> tuple[Any, ...]:
        x = d.numbers(*(2 * n for n in d.shape(least)))
        return x, d.one(2, sorted(d.ints(2, low=0, high=6).tolist()))

    return draw


def split(d: Draw) -> tuple[Any, ...]:
    x = d.numbers()
    return x, d.one(d.number(1, 6), d.ints(3, low=-2, high=5).tolist()), d.axis(x)


def put(d: Draw) -> tuple[Any, ...]:
    x = d.numbers()
    places = d.rng.permutation(x.size)[: d.number(1, x.size)]
    return x, places, d.floats(d.number(1, 3)).astype(x.dtype)


def masked(d: Draw) -> tuple[Any, ...]:
    x = d.floats(*d.shape(1))
    mask = d.bools(*x.shape)
    mask.flat[0] = True
    return x, mask, d.floats(d.number(1, 3))


def put_along(d: Draw) -> tuple[Any, ...]:
    x = d.floats(*d.shape(1))
    axis = d.number(0, x.ndim - 1)
    places = np.argsort(d.rng.random(x.shape), axis)
    places = np.take(places, np.arange(d.number(1, x.shape[axis])), axis)
    return x, places, d.one(1.5, d.floats(*places.shape)), axis


def deleted(d: Draw) -> tuple[Any, ...]:
    x = d.numbers(*d.shape(1))
    axis = d.axis(x, None)
    n = x.size if axis is None else x.shape[axis]
    index = d.one(
        d.number(-n, n - 1), d.ints(2, low=-n, high=n - 1), slice(0, d.number(0, n)), d.bools(n)
    )
    return x, index, axis


def inserted(d: Draw) -> tuple[Any, ...]:
    x = d.numbers(*d.shape(1))
    axis = d.axis(x, None)
    n = x.size if axis is None else x.shape[axis]
    index = d.one(d.number(-n, n), d.ints(3, low=-n, high=n).tolist(), [d.number(0, n)])
    several = axis is None and isinstance(index, list) and len(index) == 3
    return x, index, d.floats(3) if several else d.number(-5, 5), axis


def blocks(d: Draw) -> tuple[Any, ...]:
    m, n, k, p = (d.number(1, 3) for _ in range(4))
    rows = [[d.floats(m, n), d.floats(m, k)], [d.floats(p, n), d.floats(p, k)]]
    return (d.one(rows, rows[0], [[d.floats(n)], [d.floats(n)]], d.floats()),)


def multi_index(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(1)
    several = d.shape(1, 2)
    return tuple(d.rng.integers(0, n, several) for n in shape), shape


def wrapped_index(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(1)
    return tuple(d.ints(4) for _ in shape), shape, d.one("wrap", "clip")


def interpolated(d: Draw) -> tuple[Any, ...]:
    n = d.number(1, 6)
    places = np.sort(d.rng.normal(size=n))
    return d.special(), places, d.floats(n), *d.one((), (-7.0, 8.0))


def periodic(d: Draw) -> tuple[Any, ...]:
    n = d.number(2, 6)
    return d.floats(), d.rng.random(n) * 4.0, d.floats(n), None, None, 4.0


def sloped(d: Draw) -> tuple[Any, ...]:
    x = d.floats(*(n + 2 for n in d.shape(1)))
    places = [np.cumsum(d.positive(n)) for n in x.shape]
    return x, *d.one((), (0.5,), places, [d.one(2.0, p) for p in places])


def integrated(d: Draw) -> tuple[Any, ...]:
    y = d.numbers()
    axis = d.axis(y)
    places = np.cumsum(d.positive(y.shape[axis]))
    return y, *d.one((None, 0.5), (places, 1.0), (d.floats(*y.shape), 1.0)), axis


def observations(d: Draw) -> tuple[Any, ...]:
    n = d.number(3, 7)
    x, y = d.one(d.floats(n), d.floats(2, n)), d.one(None, d.floats(n), d.floats(3, n))
    return x, y


def weighted(d: Draw) -> tuple[Any, ...]:
    n = d.number(3, 7)
    counts = d.one(None, d.ints(n, low=1, high=3))
    shares = d.one(None, d.positive(n), d.positive(n))
    x = d.floats(2, n)
    return (
        *d.one((x, None, True), (x.T, None, False)),
        d.one(False, False, True),
        None,
        counts,
        shares,
    )


def points(d: Draw) -> tuple[Any, ...]:
    n = d.number(3, 30)
    edges = np.array([-4.0, -1.0, 0.0, 0.5, 3.0])
    bins = d.one(4, [3, 5], edges, [edges, 3])
    span = d.one(None, [[-3.0, 2.0], [-1.0, 4.0]])
    return d.floats(n), d.floats(n), bins, span, d.one(None, True), d.one(None, d.positive(n))


def clouds(d: Draw) -> tuple[Any, ...]:
    n = d.number(3, 30)
    return d.floats(n, 3), d.one(3, [2, 3, 4]), None, d.one(None, True), d.one(None, d.positive(n))


def fitted(d: Draw) -> tuple[Any, ...]:
    n = d.number(5, 9)
    return d.floats(n), d.one(d.floats(n), d.floats(n, 2)), d.number(0, 3)


def chain(d: Draw) -> tuple[Any, ...]:
    return d.floats(3, 4), d.number(0, 2), d.one((0, 1), (1, 0))


def exact_bits(d: Draw) -> tuple[Any, ...]:
    x = d.one(d.bools(*d.shape(1)), d.ints(*d.shape(1), low=0, high=2))
    return x, d.axis(x, None), d.one("big", "little")


def packed(d: Draw) -> tuple[Any, ...]:
    x = d.ints(*d.shape(1), low=0, high=255).astype("uint8")
    return x, d.axis(x, None), d.one(None, 5, -2), d.one("big", "little")


def keys(d: Draw) -> tuple[Any, ...]:
    n = d.number(1, 9)
    return ([d.ints(n, low=0, high=2) for _ in range(d.number(1, 3))],)


def binned(d: Draw) -> tuple[Any, ...]:
    edges = np.sort(d.ints(d.number(1, 6)))
    return d.numbers(), d.one(edges, edges[::-1]), d.one(False, True)


def selected(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(1)
    many = range(d.number(1, 3))
    return [d.bools(*shape) for _ in many], [d.floats(*shape) for _ in many], d.one(0, 2.5)


def chosen(d: Draw) -> tuple[Any, ...]:
    shape, many = d.shape(1), d.number(1, 3)
    mode = d.one("raise", "wrap", "clip")
    low, high = (0, many - 1) if mode == "raise" else (-5, 5)
    choices = [d.floats(*shape) for _ in range(many)]
    return d.ints(*shape, low=low, high=high), choices, {"mode": mode}


def pieces(d: Draw) -> tuple[Any, ...]:
    x = d.floats(*d.shape(1))
    functions = [lambda v: v * v, lambda v: -v, 4.0][: d.number(2, 3)]
    return x, [x < -1.0, x >= 1.0], functions


def square(d: Draw) -> tuple[Any, ...]:
    x, n = d.shape(2, 2), d.number(1, 3)
    return d.one(d.floats(*x), d.floats(n, n, n), d.floats(7, 2)), d.one(0.5, d.floats(2))
