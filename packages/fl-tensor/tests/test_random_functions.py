"""Exponential, Poisson, gamma and beta numbers, categorical draws: distributions and promises.

Seeds are fixed; see test_distributions.py about p-values.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fl_tensor as ft
from fl_tensor.testing import needs

N = 20_000


def sound(pvalue):
    assert pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exponential_numbers_reach_far_into_both_tails(dtype):
    x = ft.Generator(4).exponential(shape=N, dtype=dtype)
    assert str(x.dtype) == dtype
    x = x.numpy().astype(np.float64)
    sound(stats.kstest(x, "expon").pvalue)
    sound(stats.kstest(x[x < 1e-2] * 100, "uniform").pvalue)  # nearly, so far down
    assert 0 < x.min() < 1e-3 and x.max() > 8


@pytest.mark.parametrize("rate", [0.2, 3.0, 9.5, 10.0, 47.0, 1e4, 1e8])
@needs("float64")
def test_poisson(rate):
    x = ft.Generator(6).poisson(rate, N)
    assert x.dtype is ft.int64
    edges = np.unique(stats.poisson.ppf(np.linspace(0.02, 0.98, 20), rate))
    shares = np.diff(np.concatenate([[0], stats.poisson.cdf(edges, rate), [1]]))
    bins = np.concatenate([[-0.5], edges + 0.5, [np.inf]])
    sound(stats.chisquare(np.histogram(x.numpy(), bins)[0], shares * N).pvalue)


def test_each_rate_has_its_own_mean():
    rates = ft.asarray([[0.0, 0.5, 8.0], [20.0, 300.0, 5000.0]])
    x = ft.Generator(1).poisson(rates, (4000, 2, 3)).numpy()
    assert (x[:, 0, 0] == 0).all()
    error = np.sqrt(np.asarray(rates) / 4000) + 1e-9
    assert (np.abs(x.mean(0) - np.asarray(rates)) < 4 * error).all()
    assert ft.Generator(1).poisson(rates).shape == (2, 3)


@pytest.mark.parametrize("concentration", [0.05, 0.6, 1.0, 2.5, 80.0])
@needs("float64")
def test_gamma(concentration):
    x = ft.Generator(2).gamma(concentration, 3.0, N, dtype="float64")
    sound(stats.kstest(x.numpy(), "gamma", args=(concentration, 0, 3.0)).pvalue)


@pytest.mark.parametrize(("a", "b"), [(0.4, 0.7), (1.0, 3.0), (20.0, 5.0)])
@needs("float64")
def test_beta(a, b):
    x = ft.Generator(3).beta(a, b, N, dtype="float64").numpy()
    sound(stats.kstest(x, "beta", args=(a, b)).pvalue)
    assert ((x >= 0) & (x <= 1)).all()


@needs("float64")
@pytest.mark.parametrize("scales", [[1.0, 2.0, 5.0], np.array([1.0, 2.0, 5.0])])
def test_every_scale_has_a_number_of_its_own(scales):
    g = ft.Generator(4)
    for draw in (
        lambda shape=None: g.exponential(scales, shape),
        lambda shape=None: g.gamma(1.0, scales, shape),
    ):
        unit = draw((N, 3)).numpy() / [1.0, 2.0, 5.0]
        sound(stats.kstest(unit.ravel(), "expon").pvalue)
        assert abs(np.corrcoef(unit.T)[0, 1]) < 4 / np.sqrt(N)
        alone = draw().numpy() / [1.0, 2.0, 5.0]
        assert alone.shape == (3,) and len(set(alone.tolist())) == 3
    assert g.gamma([[1.0], [2.0]], scales).shape == (2, 3)
    for name in ("exponential", "poisson"):
        with pytest.raises(ft.ShapeError, match="parameters must fit the shape"):
            getattr(g, name)(scales, 1)


@needs("float64")
def test_the_dtype_is_the_one_that_is_asked_for():
    g, scale = ft.Generator(4), ft.asarray([1.0, 2.0], "float64")
    assert g.exponential(scale).dtype is ft.float64
    for dtype in ("float16", "float32"):
        for x in (
            g.exponential(scale, dtype=dtype),
            g.gamma(2.0, scale, dtype=dtype),
            g.gamma(scale, 2.0, dtype=dtype),
            g.beta(scale, 2.0, dtype=dtype),
        ):
            assert str(x.dtype) == dtype
    for draw in (g.gamma, g.beta, g.exponential):
        with pytest.raises(ft.DTypeError, match="dtype int32: expected a floating dtype"):
            draw(1.0, 1.0 if draw != g.exponential else None, dtype="int32")


DRAWS = {
    "exponential": lambda g, n: g.exponential(shape=n),
    "poisson": lambda g, n: g.poisson(ft.full((n, 3), 25.0)),
    "poisson, mixed": lambda g, n: g.poisson(ft.broadcast_to([2.0, 25.0], (n, 2))),
    "gamma": lambda g, n: g.gamma(ft.full((n, 2), 0.7)),
    "categorical": lambda g, n: g.categorical(ft.zeros((n, 5))),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_does_not_depend_on_how_it_is_split(name):
    draw, generator = DRAWS[name], ft.Generator(9)
    parts = sum((draw(generator, n).tolist() for n in (1, 0, 4, 35)), [])
    assert parts == draw(ft.Generator(9), 40).tolist()
    assert parts[:4] != draw(generator, 4).tolist()


@pytest.mark.parametrize("name", ["poisson", "gamma", "categorical"])
def test_shapes_are_known_without_values(name):
    with ft.use("null"):
        assert DRAWS[name](ft.Generator(0), 4).shape[0] == 4


# ---- categories ----------------------------------------------------------------------------------


def test_categorical_draws_from_each_row_with_its_probabilities():
    logits = ft.asarray([[0.0, 1.0, -np.inf, 2.0], [3.0, -1.0, 0.0, 0.0]])
    x = ft.Generator(5).categorical(logits, N)
    assert x.shape == (N, 2) and x.dtype is ft.int64
    shares = ft.softmax(logits, 1).numpy().astype(np.float64)
    for row, share in zip(x.numpy().T, shares, strict=True):
        counts = np.bincount(row, minlength=4)
        assert (counts[share == 0] == 0).all()
        share = share[share > 0] / share.sum()
        sound(stats.chisquare(counts[counts > 0], share * N).pvalue)


def test_a_class_of_small_probability_comes_as_often_as_it_should():
    logits = ft.log(ft.asarray([1.0, 1e-4]))
    hits = ft.Generator(8).categorical(logits, (10, N)).sum().item()
    sound(stats.binomtest(hits, 10 * N, 1e-4).pvalue)


@pytest.mark.parametrize("base", [1e7, -1e7])
def test_only_differences_of_logits_count(base):
    logits = ft.asarray([base, base + 1, base - 1])  # whole numbers, which float32 has
    counts = np.bincount(ft.Generator(8).categorical(logits, N).numpy(), minlength=3)
    sound(stats.chisquare(counts, ft.softmax([0.0, 1.0, -1.0], 0).numpy() * float(N)).pvalue)


def test_many_draws_of_many_classes_are_drawn_in_parts():
    logits = ft.asarray(np.linspace(-3, 3, 600).reshape(2, 300))
    generator = ft.Generator(3)
    whole = ft.Generator(3).categorical(logits, (20, 100)).numpy()
    parts = [generator.categorical(logits, (5, 100)).numpy() for _ in range(4)]
    assert whole.shape == (20, 100, 2)
    assert (whole == np.concatenate(parts)).all()


def test_categorical_shapes_and_axes():
    logits = ft.zeros((2, 3, 4))
    g = ft.Generator(0)
    assert g.categorical(logits).shape == (2, 3)
    assert g.categorical(logits, (5, 6), axis=1).shape == (5, 6, 2, 4)
    assert g.categorical(logits, axis=0).numpy().max() < 2
    assert g.categorical(logits, 3, axis=1, replace=False).shape == (3, 2, 4)


def test_draws_without_replacement_are_different_and_weighted():
    weights = ft.asarray([5.0, 3.0, 2.0, 0.0])
    x = ft.Generator(7).multinomial(ft.broadcast_to(weights, (4000, 4)), 2)
    assert x.shape == (4000, 2)
    x = x.numpy()
    assert (x[:, 0] != x[:, 1]).all() and x.max() == 2
    first = np.bincount(x[:, 0], minlength=3)
    sound(stats.chisquare(first, np.array([0.5, 0.3, 0.2]) * 4000).pvalue)
    second = np.bincount(x[x[:, 0] == 0, 1], minlength=3)[1:]
    sound(stats.chisquare(second, np.array([0.6, 0.4]) * second.sum()).pvalue)
    assert ft.Generator(7).multinomial(weights, 50, replace=True).shape == (50,)


def test_log_probabilities_of_drawn_classes():
    logits = ft.asarray(np.random.default_rng(0).standard_normal((2, 5)).astype("float32"))
    values = ft.Generator(1).categorical(logits, (3,))
    found = ft.random.categorical_log_prob(logits, values)
    wanted = np.log(np.asarray(ft.softmax(logits, 1)))
    assert found.shape == (3, 2)
    np.testing.assert_allclose(found, wanted[[0, 1], values.numpy()], rtol=1e-5)
    turned = ft.random.categorical_log_prob(logits.T, values, axis=0)
    np.testing.assert_allclose(turned, found, rtol=1e-6)
    with pytest.raises(ft.IndexingError, match="index 5"):
        ft.random.categorical_log_prob(logits, [0, 5])
    with pytest.raises(ft.IndexingError, match="index -1"):
        ft.random.categorical_log_prob(logits, [0, -1])
    with pytest.raises(ft.ShapeError, match=r"values must end with \(2,\)"):
        ft.random.categorical_log_prob(logits, [0])


def test_refused_weights():
    g = ft.Generator(0)
    with pytest.raises(
        ft.ArgumentError, match="3 draws from 2 possible classes, none of them twic"
    ):
        g.multinomial([1.0, 1.0, 0.0], 3)
    for weights in ([1.0, -1.0], [1.0, np.nan], [np.inf, 1.0]):
        with pytest.raises(ft.ArgumentError, match="no finite numbers"):
            g.multinomial(weights, 1)
    with pytest.raises(ft.ArgumentError, match="from 0 possible classes"):
        g.categorical([[0.0, 1.0], [-np.inf, -np.inf]])
    with pytest.raises(ft.ArgumentError, match=r"counts as NumPy's are ft\.bincount"):
        g.multinomial(5, [0.5, 0.5])
    with pytest.raises(ft.ShapeError, match="there are no classes"):
        g.categorical(ft.zeros((2, 0)))


def test_refused_parameters():
    g = ft.Generator(0)
    with pytest.raises(ft.ArgumentError, match="rate -1: expected numbers from 0 to 1e[+]09"):
        g.poisson([1.0, -1.0])
    with pytest.raises(ft.ArgumentError, match="rate nan"):
        g.poisson(np.nan)
    with pytest.raises(ft.ArgumentError, match="concentration 0: expected numbers above 0"):
        g.gamma([1.0, 0.0])
    with pytest.raises(ft.ShapeError, match="must fit the shape"):
        g.poisson([1.0, 2.0], 1)
    with pytest.raises(ft.DTypeError, match="expected a floating dtype"):
        g.exponential(dtype="int64")


# ---- ft.random -----------------------------------------------------------------------------------


def test_functions_draw_from_the_default_generator_or_the_one_that_is_passed():
    calls = {
        "integers": (0, 9, 5),
        "permutation": (6,),
        "choice": (9, 4),
        "exponential": (2.0, 3),
        "poisson": (4.0, 3),
        "gamma": (2.0,),
        "beta": (2.0, 3.0),
        "categorical": ([0.0, 1.0], 4),
        "multinomial": ([1.0, 2.0, 3.0], 2),
    }
    for name, arguments in calls.items():
        ft.seed(3)
        function = getattr(ft.random, name)
        first = function(*arguments).tolist()
        assert first == function(*arguments, generator=ft.Generator(3)).tolist()
        assert first == getattr(ft.Generator(3), name)(*arguments).tolist()
    with pytest.raises(ft.ArgumentError, match="expected a Generator"):
        ft.random.permutation(5, generator=3)


def test_a_permutation_of_an_array_keeps_its_slices():
    x = ft.asarray([[1, 2, 3], [4, 5, 6]])
    found = ft.random.permutation(x, 1, generator=ft.Generator(0)).numpy()
    assert sorted(map(tuple, found.T.tolist())) == [(1, 4), (2, 5), (3, 6)]
