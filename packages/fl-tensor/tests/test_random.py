"""Philox generators: reproducible, the same on every split, and statistically sound."""

from __future__ import annotations

import contextvars
import threading

import numpy as np
import pytest

import fl_tensor as ft


def test_bits_are_numpys_philox():
    # NumPy's generator counts before it draws, so its first block is that of counter 1.
    reference = np.random.Philox(key=0x1234_5678_9ABC)
    assert reference.state["bit_generator"] == "Philox"
    ops = ft.current_backend()
    words = ft.Tensor(ops.random_bits(7, 0, (8,), ft.CPU), ops).tolist()
    again = ft.Tensor(ops.random_bits(7, 5, (3,), ft.CPU), ops).tolist()
    assert words[5:] == again


def test_known_answer_of_the_philox_paper():
    # Random123's known-answer test: zero counter and key.
    ops = ft.current_backend()
    words = ft.Tensor(ops.random_bits(0, 0, (4,), ft.CPU), ops).tolist()
    assert [w & 0xFFFFFFFF for w in words] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("draw", ["uniform", "normal"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_draw_does_not_depend_on_how_it_is_split(draw, dtype):
    whole = getattr(ft.Generator(3), draw)(10, dtype=dtype).tolist()
    generator = ft.Generator(3)
    parts = [getattr(generator, draw)(n, dtype=dtype).tolist() for n in (3, 0, 1, 6)]
    assert sum(parts, []) == whole


def test_state_can_be_saved_and_restored():
    generator = ft.Generator(11)
    generator.uniform(5)
    state = generator.state()
    expected = generator.normal(4).tolist()
    other = ft.Generator(0)
    other.set_state(state)
    assert other.normal(4).tolist() == expected
    with pytest.raises(ft.ArgumentError, match="not a state"):
        other.set_state({"seed": 1})


def test_split_gives_different_streams():
    streams = [g.uniform(4).tolist() for g in ft.Generator(5).split(4)]
    assert len({tuple(s) for s in streams}) == 4
    assert streams == [g.uniform(4).tolist() for g in ft.Generator(5).split(4)]


def test_seed_restarts_the_default_generator():
    ft.seed(9)
    x = ft.rand((2, 3))
    y = ft.randn((2, 3))
    ft.seed(9)
    assert ft.rand((2, 3)).tolist() == x.tolist()
    assert ft.randn((2, 3)).tolist() == y.tolist()


def test_a_thread_can_have_a_default_generator_of_its_own():
    ft.seed(0)
    expected = ft.Generator(42).uniform(3).tolist()
    found = []

    def work():
        ft.set_default_generator(ft.Generator(42))
        found.append(ft.rand(3).tolist())

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,))
    thread.start()
    thread.join()
    assert found == [expected]
    assert ft.default_generator().state()["offset"] == 0


def test_distributions():
    stats = pytest.importorskip("scipy.stats")
    n = 20_000
    generator = ft.Generator(2024)
    uniform = generator.uniform(n, low=-1, high=3).numpy()
    assert uniform.min() >= -1 and uniform.max() < 3
    assert stats.kstest((uniform + 1) / 4, "uniform").pvalue > 0.01
    assert stats.kstest(generator.normal(n).numpy(), "norm").pvalue > 0.01
    assert stats.kstest(generator.normal(n, dtype="float64").numpy(), "norm").pvalue > 0.01
    shifted = generator.normal(n, mean=2, std=3).numpy()
    assert stats.kstest((shifted - 2) / 3, "norm").pvalue > 0.01
    counts = np.bincount(generator.integers(0, 7, n).numpy(), minlength=7)
    assert stats.chisquare(counts).pvalue > 0.01
    heads = generator.bernoulli(n, 0.3).numpy().sum()
    assert stats.binomtest(int(heads), n, 0.3).pvalue > 0.01


def test_permutation_is_one_and_integers_stay_in_range():
    generator = ft.Generator(1)
    order = generator.permutation(1000).tolist()
    assert sorted(order) == list(range(1000)) and order != list(range(1000))
    drawn = generator.integers(-5, 5, 1000)
    assert (drawn.min().item(), drawn.max().item()) == (-5, 4)
    assert drawn.dtype is ft.int64


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda g: g.integers(3, 3), "high - low"),
        (lambda g: g.bernoulli(2, p=1.5), "probability"),
        (lambda g: g.uniform(2, dtype="int32"), "draw float32 or float64"),
        (lambda g: g.normal(-1), "may not be negative"),
    ],
)
def test_wrong_arguments(draw, words):
    with pytest.raises(ft.FlError, match=words):
        draw(ft.Generator(0))
