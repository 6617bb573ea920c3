"""``Generator``: a seed and a position in its Philox stream."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

from fl_memory.forks import free_after_fork
from fl_tensor import dtypes, functions
from fl_tensor.arguments import axis_of, int_of, scalar, seed_of, shape_of
from fl_tensor.arrays.tensor import Tensor
from fl_tensor.derived.sampling import NORMAL_WORDS, UNIFORM_WORDS
from fl_tensor.derived.truncation import TRUNCATED_WORDS
from fl_tensor.dispatch import registry
from fl_tensor.dispatch.frontend import ArrayLike, cast, operands_of
from fl_tensor.dispatch.registry import BackendLike
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, DTypeError
from fl_tensor.functions import elementwise, gathering
from fl_tensor.functions.creation import DeviceLike, DTypeLike, created, place_for
from fl_tensor.random import categories, choosing, distributions
from fl_tensor.random.draws import NOTING

Size = int | Sequence[int]
_taking = free_after_fork(threading.Lock())
#: A place in the stream, in words, that no program comes to.
_SPAWN_OFFSET = 1 << 62


class Generator:
    """A stream of random numbers. The same seed gives the same numbers on every backend; a draw of
    n elements and two draws that add up to n give the same elements. Raises ArgumentError unless
    ``0 <= seed < 2**64``."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed_of("Generator", seed)
        self.offset = 0
        self._spawned = 0

    def __repr__(self) -> str:
        return f"Generator(seed={self.seed}, offset={self.offset})"

    def state(self) -> dict[str, int]:
        """Everything that determines the numbers to come: ``{"seed": ..., "offset": ...}``."""
        return {"seed": self.seed, "offset": self.offset}

    def set_state(self, state: dict[str, int]) -> None:
        """Go back (or forward) to a ``state()``. Raises ArgumentError for anything else."""
        if set(state) != {"seed", "offset"} or not all(isinstance(v, int) for v in state.values()):
            raise ArgumentError(f"[Generator] {state!r} is not a state: expected seed and offset")
        self.seed, self.offset = seed_of("Generator", state["seed"]), state["offset"]
        self._spawned = 0

    def split(self, n: int) -> list[Generator]:
        """``n`` generators with seeds drawn from this one: independent streams."""
        # The seeds are the same everywhere, so a backend without values can have them too.
        backend = None if registry.current_backend().has_values else registry.get_backend("numpy")
        words = self.integers(0, 1 << 31, (n, 2), backend=backend).tolist()
        return [Generator((high << 32) | low) for high, low in words]

    def spawn(self) -> Generator:
        """Another generator each time, as from ``split``, that leaves the numbers to come as they
        are: its seed is drawn far ahead in the stream. ``set_state`` and ``ft.seed`` begin anew."""
        with _taking:
            number = self._spawned
            self._spawned += 1
        key_stream = Generator(self.seed)
        key_stream.offset = _SPAWN_OFFSET + 8 * number
        return key_stream.split(1)[0]

    def uniform(
        self,
        shape: Size = (),
        low: float = 0.0,
        high: float = 1.0,
        dtype: DTypeLike = None,
        device: DeviceLike = None,
        backend: BackendLike | None = None,
    ) -> Tensor:
        """Uniform on [low, high). Raises ArgumentError unless low <= high."""
        if not low <= high:
            raise ArgumentError(f"[uniform] low {low}, high {high}: need low <= high")
        x = self._draw("uniform", shape, dtype, device, backend, UNIFORM_WORDS)
        if (low, high) == (0.0, 1.0):
            return x
        x = x * (high - low) + low
        # The largest numbers below 1 may be rounded up to ``high`` here.
        return elementwise.where(x < high, x, low)

    def normal(
        self,
        shape: Size = (),
        mean: float = 0.0,
        std: float = 1.0,
        dtype: DTypeLike = None,
        device: DeviceLike = None,
        backend: BackendLike | None = None,
    ) -> Tensor:
        """Normal with the given mean and standard deviation."""
        x = self._draw("normal", shape, dtype, device, backend, NORMAL_WORDS)
        return x if (mean, std) == (0.0, 1.0) else x * std + mean

    def truncated_normal(
        self,
        shape: Size = (),
        mean: float = 0.0,
        std: float = 1.0,
        low: float = -2.0,
        high: float = 2.0,
        dtype: DTypeLike = None,
        device: DeviceLike = None,
        backend: BackendLike | None = None,
    ) -> Tensor:
        """Normal with the given mean and standard deviation *before* all that is outside
        [low, high] is left out: by inversion, exact in both tails. Raises ArgumentError unless
        low < high and std > 0, or if next to nothing of the distribution is in between."""
        if not (low < high and std > 0):
            raise ArgumentError(
                f"[truncated_normal] low {low}, high {high}, std {std}: need low < high, std > 0"
            )
        bounds = ((low - mean) / std, (high - mean) / std)
        x = self._draw("truncated_normal", shape, dtype, device, backend, TRUNCATED_WORDS, bounds)
        if (mean, std) == (0.0, 1.0):
            return x
        return functions.clip(x * std + mean, float(low), float(high))

    def integers(
        self,
        low: int,
        high: int,
        shape: Size = (),
        dtype: DTypeLike = None,
        device: DeviceLike = None,
        backend: BackendLike | None = None,
    ) -> Tensor:
        """Integers on [low, high), int64 by default, at most 2^62 different ones. Up to 2^31 the
        bias is below span / 2^32, above that below span / 2^62 (none for powers of two)."""
        low, high = int_of("integers", low, "low"), int_of("integers", high, "high")
        kind = dtypes.dtype(dtype or dtypes.DEFAULT_INT)
        span = high - low
        if not 0 < span <= 1 << 62:
            raise ArgumentError(f"[integers] low {low}, high {high}: need 0 < high - low <= 2^62")
        for end in (low, high - 1):
            for holder in (kind, dtypes.int64):
                scalar("integers", end, holder)
        if span <= 1 << 31:
            # The high half of word times span (Lemire, 2019).
            word = functions.bitwise_and(
                self._words(shape, device, backend).astype("int64"), 0xFFFFFFFF
            )
            drawn = word * span >> 32
        else:
            drawn = self._keys(shape_of("integers", shape), device, backend) % span
        return cast(drawn + low, kind)

    def bernoulli(
        self,
        shape: Size = (),
        p: float = 0.5,
        dtype: DTypeLike = None,
        device: DeviceLike = None,
        backend: BackendLike | None = None,
    ) -> Tensor:
        """1 with probability ``p``, else 0; bool unless another dtype is given."""
        if not 0.0 <= p <= 1.0:
            raise ArgumentError(f"[bernoulli] p {p}: expected a probability")
        x = self.uniform(shape, dtype=dtypes.DEFAULT_FLOAT, device=device, backend=backend) < p
        return x.astype(dtype or dtypes.bool)

    def exponential(
        self,
        scale: ArrayLike = 1.0,
        shape: Size | None = None,
        dtype: DTypeLike = None,
        device: DeviceLike = None,
        backend: BackendLike | None = None,
    ) -> Any:
        """Exponential numbers with mean ``scale``, a number or an array; ``shape`` is that of
        ``scale`` unless given, the dtype that of a floating array. Differentiable by
        ``scale``."""
        return distributions.exponential(self, scale, shape, dtype, device, backend)

    def poisson(
        self,
        rate: ArrayLike = 1.0,
        shape: Size | None = None,
        dtype: DTypeLike = None,
        device: DeviceLike = None,
        backend: BackendLike | None = None,
    ) -> Tensor:
        """Poisson numbers with mean ``rate``, a number or an array; ``shape`` is that of ``rate``
        unless given; int64 unless another dtype is given. On a backend without float64 the
        distribution is met for rates up to 10,000. Raises ArgumentError unless
        ``0 <= rate <= 1e9``."""
        (given,), size = distributions.parameters("poisson", (rate,), shape, device, backend)
        kind = dtypes.DEFAULT_INT if dtype is None else dtypes.dtype(dtype)
        return cast(distributions.poisson(self, distributions.wide(given), size), kind)

    def gamma(
        self,
        concentration: ArrayLike,
        scale: ArrayLike = 1.0,
        shape: Size | None = None,
        dtype: DTypeLike = None,
        device: DeviceLike = None,
        backend: BackendLike | None = None,
    ) -> Any:
        """Gamma with density in proportion to ``x^(concentration - 1) exp(-x / scale)``. Parameters
        are numbers or arrays, and broadcast; ``shape`` is theirs unless given. Differentiable by
        ``scale`` alone. Raises ArgumentError unless concentration > 0."""
        given, size = distributions.parameters(
            "gamma", (concentration, scale), shape, device, backend
        )
        kind, shapes = distributions.floating("gamma", dtype), distributions.wide(given[0])
        logs = distributions.log_gamma("gamma", self, shapes, size, "concentration")
        return cast(functions.exp(functions.add(*logs)), kind) * cast(given[1], kind)

    def beta(
        self,
        a: ArrayLike,
        b: ArrayLike,
        shape: Size | None = None,
        dtype: DTypeLike = None,
        device: DeviceLike = None,
        backend: BackendLike | None = None,
    ) -> Tensor:
        """Beta with density in proportion to ``x^(a - 1) (1 - x)^(b - 1)``, from two gamma numbers.
        Parameters are numbers or arrays, and broadcast; ``shape`` is theirs unless given. Raises
        ArgumentError unless a > 0 and b > 0."""
        given, size = distributions.parameters("beta", (a, b), shape, device, backend)
        kind, pair = distributions.floating("beta", dtype), zip(given, "ab", strict=True)
        logs = [
            functions.add(*distributions.log_gamma("beta", self, distributions.wide(v), size, name))
            for v, name in pair
        ]
        return cast(functions.sigmoid(functions.subtract(*logs)), kind)

    def categorical(
        self, logits: ArrayLike, shape: Size = (), axis: int = -1, replace: bool = True
    ) -> Any:
        """Class numbers, int64, with probabilities ``softmax(logits, axis)``; the other axes of
        ``logits`` are a batch. The result is (*shape, *batch).

        replace  whether a class may come several times in ``shape``; without, classes are drawn one
                 after the other from those left

        A class of -inf never comes. Raises ArgumentError for NaN, inf, and too few classes. See
        ``ft.random.categorical_log_prob``.
        """
        return categories.categorical(self, "categorical", logits, shape, axis, replace)

    def multinomial(self, weights: ArrayLike, n: int, replace: bool = False) -> Any:
        """``n`` class numbers, int64, for each row of ``weights`` (..., classes), which are >= 0
        and need not add up to 1: (..., n). As ``torch.multinomial``; ``numpy.random.multinomial``
        counts how often each class comes."""
        return categories.multinomial(self, weights, n, replace)

    def permutation(
        self, n: int, device: DeviceLike = None, backend: BackendLike | None = None
    ) -> Tensor:
        """The numbers 0 .. n - 1 in random order, int64: the order of n random 62-bit keys."""
        return functions.argsort(self._keys((n,), device, backend))

    def shuffle(self, x: Any, axis: int = 0) -> Any:
        """``x`` with its slices along ``axis`` in random order: a new value, ``x`` stays as it
        is."""
        (x,) = operands_of("shuffle", "A", x)
        axis = axis_of("shuffle", axis, x.shape)
        order = self.permutation(x.shape[axis], x.device, x._backend)
        return gathering.gather(x, order, axis)

    def choice(
        self,
        x: Any,
        shape: Size = (),
        replace: bool = True,
        p: Sequence[float] | None = None,
        axis: int = 0,
        device: DeviceLike = None,
        backend: BackendLike | None = None,
    ) -> Any:
        """Random slices of ``x`` along ``axis``, or random numbers below ``x`` if that is an int.

        shape    how many: it takes the place of ``axis`` in the result
        replace  whether a slice may come several times
        p        their probabilities; equal ones if absent. With ``replace`` they are met to 2^-62;
                 without, slices are drawn one after the other from those left (Efraimidis &
                 Spirakis, 2006)

        Raises ArgumentError for probabilities that are none, or too few slices to draw from.
        """
        return choosing.choice(self, x, shape, replace, p, axis, device, backend)

    def _keys(
        self, shape: tuple[int, ...], device: DeviceLike, backend: BackendLike | None
    ) -> Tensor:
        # Random 62-bit integers, of two words each.
        words = functions.bitwise_and(
            self._words((*shape, 2), device, backend).astype("int64"), 0x7FFFFFFF
        )
        return functions.bitwise_left_shift(words[..., 0], 31) + words[..., 1]

    def _words(self, shape: Size, device: DeviceLike, backend: BackendLike | None) -> Tensor:
        backend, place = place_for(device, backend)
        size = shape_of("random", shape)
        return created(backend, "random_bits", self.seed, self._take(math.prod(size)), size, place)

    def _draw(
        self,
        op: str,
        shape: Size,
        dtype: DTypeLike,
        device: DeviceLike,
        backend: BackendLike | None,
        words: dict[DType, int],
        parameters: tuple[float, ...] = (),
    ) -> Tensor:
        backend, place = place_for(device, backend)
        kind = dtypes.default_float() if dtype is None else dtypes.dtype(dtype)
        if kind not in words:
            raise DTypeError(f"[{op}] dtype {kind}: expected a floating dtype; draw one and cast")
        size = shape_of(op, shape)
        offset = self._take(math.prod(size) * words[kind])
        return created(backend, op, self.seed, offset, size, *parameters, kind, place)

    def _take(self, words: int) -> int:
        # No two draws share words, though several threads may draw from one generator.
        noting = NOTING.get()
        if noting is not None:
            noting.note(self)
        with _taking:
            offset = self.offset
            self.offset += words
        return offset
