"""Random numbers follow their distributions, and are the same wherever and however they are drawn.

Seeds are fixed, so that a test passes always or never; p-values below 0.001 would be one in a
thousand for a generator that is right.
"""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.testing.references import philox

stats = pytest.importorskip("scipy.stats")
N = 40_000
DRAWS = {
    "uniform": lambda g, n, **o: g.uniform(n, **o),
    "uniform, bounds": lambda g, n, **o: g.uniform(n, -3.0, 5.0, **o),
    "normal": lambda g, n, **o: g.normal(n, 1.0, 2.0, **o),
    "normal, float64": lambda g, n, **o: g.normal(n, dtype="float64", **o),
    "truncated normal": lambda g, n, **o: g.truncated_normal(n, 0.5, 2.0, -1.0, 4.0, **o),
    "truncated normal, float64": lambda g, n, **o: g.truncated_normal(n, dtype="float64", **o),
    "integers": lambda g, n, **o: g.integers(-5, 1000, n, **o),
    "integers, wide": lambda g, n, **o: g.integers(0, 2**40, n, **o),
    "bernoulli": lambda g, n, **o: g.bernoulli(n, 0.3, **o),
    "choice": lambda g, n, **o: g.choice(3, n, p=[0.2, 0.5, 0.3], **o),
    "choice, equal": lambda g, n, **o: g.choice(10, n, **o),
}


def sound(pvalue):
    assert pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", [1, 2**63])
def test_uniform_and_normal(dtype, seed):
    generator = ft.Generator(seed)
    x = generator.uniform(N, dtype=dtype).numpy().astype(np.float64)
    sound(stats.kstest(x, "uniform").pvalue)
    sound(stats.kstest(x % 2**-7 * 2**7, "uniform").pvalue)  # the lower bits, too
    z = generator.normal(N, dtype=dtype).numpy().astype(np.float64)
    sound(stats.kstest(z, "norm").pvalue)
    for moment, wanted, variance in ((z, 0, 1), (z**2, 1, 2), (z**3, 0, 15), (z**4, 3, 96)):
        assert abs(moment.mean() - wanted) < 4 * math.sqrt(variance / N)
    assert np.abs(z).max() > 3.5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("mean", "std", "low", "high"),
    [
        (0, 1, -2, 2),
        (0, 0.02, -0.04, 0.04),
        (1, 3, -math.inf, 0),
        (0, 1, 3, math.inf),
        (0, 1, -7, -5),
        (-2, 0.5, 0, 1),
        (0, 1, 0.1, 0.3),
        (5, 2, -math.inf, math.inf),
    ],
)
def test_truncated_normal(mean, std, low, high, dtype):
    x = ft.Generator(17).truncated_normal(N, mean, std, low, high, dtype).numpy()
    assert x.dtype == dtype
    assert x.min() >= np.array(low, dtype) and x.max() <= np.array(high, dtype)
    law = stats.truncnorm((low - mean) / std, (high - mean) / std, mean, std)
    sound(stats.kstest(x.astype(np.float64), law.cdf).pvalue)
    assert abs(x.mean() - law.mean()) < 4 * law.std() / math.sqrt(N)
    assert abs(x.var() / law.var() - 1) < 0.05


def test_truncated_normal_at_the_extreme_words():
    for word in (0, -1, 1, 2**31 - 1, -(2**31)):

        def bits(inner, seed, offset, shape, device, word=word):
            return inner.full(shape, word, ft.int32, device)

        with ft.override(random_bits=bits):
            for dtype in ("float32", "float64"):
                for low, high in ((-2, 2), (-math.inf, math.inf), (3, 4), (-math.inf, -4)):
                    x = ft.Generator(0).truncated_normal(low=low, high=high, dtype=dtype).item()
                    assert low <= x <= high and math.isfinite(x)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"low": 2, "high": 1}, "low < high"),
        ({"std": 0}, "std > 0"),
        ({"low": 30, "high": 31}, "expected an interval low < high"),
        ({"low": math.nan}, "low < high"),
        ({"dtype": "int32"}, "int32"),
    ],
)
def test_truncated_normal_says_what_is_wrong(options, words):
    with pytest.raises(ft.FlError, match=words):
        ft.Generator(0).truncated_normal(3, **options)


def test_integers_and_bernoulli():
    generator = ft.Generator(5)
    for low, high in ((0, 6), (-3, 97), (0, 2**16)):
        x = generator.integers(low, high, N).numpy() - low
        width = max((high - low) // 256, 1)  # bins of equal width
        counts = np.bincount(x // width, minlength=(high - low) // width)
        sound(stats.chisquare(counts).pvalue)
    high = generator.integers(0, 2**62, N).numpy() / 2**62
    sound(stats.kstest(high, "uniform").pvalue)
    for p in (0.0, 0.01, 0.5, 1.0):
        heads = int(generator.bernoulli(N, p).sum().item())
        sound(stats.binomtest(heads, N, p).pvalue)


def test_permutations_and_shuffles():
    generator = ft.Generator(6)
    n, rounds = 5, 3000
    drawn = np.array([generator.permutation(n).tolist() for _ in range(rounds)])
    for place in range(n):
        sound(stats.chisquare(np.bincount(drawn[:, place], minlength=n)).pvalue)
    orders = np.unique(drawn @ n ** np.arange(n), return_counts=True)[1]
    assert len(orders) == math.factorial(n)
    sound(stats.chisquare(orders).pvalue)
    x = ft.arange(12).reshape(4, 3)
    rows = generator.shuffle(x)
    assert sorted(rows.tolist()) == x.tolist()
    columns = generator.shuffle(x, axis=1)
    assert sorted(columns.T.tolist()) == x.T.tolist()
    assert x.tolist() == np.arange(12).reshape(4, 3).tolist()


def test_choice():
    generator = ft.Generator(7)
    p = [0.1, 0.0, 0.6, 0.3, 0.0]
    counts = ft.bincount(generator.choice(5, N, p=p), minlength=5).numpy()
    assert counts[1] == counts[4] == 0
    sound(stats.chisquare(counts[[0, 2, 3]], N * np.array([0.1, 0.6, 0.3])).pvalue)
    x = ft.asarray([[1, 2], [3, 4], [5, 6]])
    assert generator.choice(x, (2, 2)).shape == (2, 2, 2)
    assert generator.choice(x, (), axis=1).shape == (3,)
    once = generator.choice(100, (10, 10), replace=False)
    assert sorted(once.flatten().tolist()) == list(range(100))


def test_choice_without_replacement_draws_one_after_the_other():
    generator, p = ft.Generator(8), np.array([0.5, 0.3, 0.2, 0.0])
    pairs = [tuple(generator.choice(4, 2, replace=False, p=p).tolist()) for _ in range(4000)]
    wanted = {(i, j): p[i] * p[j] / (1 - p[i]) for i in range(3) for j in range(3) if i != j}
    assert set(pairs) == set(wanted)
    counts = [pairs.count(pair) for pair in wanted]
    sound(stats.chisquare(counts, 4000 * np.array(list(wanted.values()))).pvalue)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((3, 4, False), "4 of 3 possible slices, none of them twice"),
        ((3, 3, False, [0.5, 0.5, 0.0]), "3 of 2 possible"),
        ((0, 1), "1 of 0 possible"),
        ((2, 1, True, [0.5, 0.4]), "add up to 0.9"),
        ((2, 1, True, [1.5, -0.5]), "none negative"),
        ((2, 1, True, [1.0]), "1 probabilities for 2 slices"),
    ],
)
def test_choice_says_what_is_wrong(arguments, words):
    with pytest.raises(ft.ArgumentError, match=words):
        ft.Generator(0).choice(*arguments)


def test_split_streams_are_independent():
    streams = np.array([g.normal(5000).tolist() for g in ft.Generator(9).split(8)])
    r = np.corrcoef(streams)[np.triu_indices(8, 1)]
    assert np.abs(r).max() < 4 / math.sqrt(5000)
    lagged = [np.corrcoef(a[1:], b[:-1])[0, 1] for a in streams for b in streams]
    assert np.abs(lagged).max() < 4.5 / math.sqrt(5000)
    sound(stats.kstest(streams.ravel(), "norm").pvalue)


class Other(NumpyBackend):
    """Philox in Python integers, and no operation but the compositions."""

    CONTRACT = (1, 0)
    name = "other"

    def random_bits(self, seed, offset, shape, device):
        bits = philox.random_bits(seed, offset, shape)
        return self.from_host(memoryview(bits.tobytes()), shape, ft.int32, device)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_the_same_on_another_backend(draw):
    found, wanted = (draw(ft.Generator(3), 50, backend=b) for b in (Other(), None))
    assert found.backend.name == "other"
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_the_same_however_a_draw_is_split(draw):
    generator = ft.Generator(4)
    whole = draw(ft.Generator(4), 23).tolist()
    parts = [draw(generator, n).tolist() for n in (5, 0, 1, 17)]
    assert sum(parts, []) == whole


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_the_same_for_any_number_of_threads(draw, threads):
    n, start = 70, ft.Generator(5)
    whole = draw(start, n).tolist()
    words, share = start.offset // n, n // threads
    parts = [[] for _ in range(threads)]

    def work(i):
        generator = ft.Generator(5)
        generator.set_state({"seed": 5, "offset": i * share * words})
        parts[i] = draw(generator, share).tolist()

    running = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert sum(parts, []) == whole
