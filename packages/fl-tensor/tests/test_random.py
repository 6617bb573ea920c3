"""Philox generators: reproducible, the same on every split, and statistically sound."""

from __future__ import annotations

import contextvars
import threading

import numpy as np
import pytest

import fl_tensor as ft


@pytest.mark.parametrize("offset", range(9))
def test_a_draw_may_begin_at_any_word_of_the_stream(offset):
    ops = ft.current_backend()
    stream = ft.Tensor(ops.random_bits(7, 0, (20,), ft.CPU), ops).tolist()
    part = ft.Tensor(ops.random_bits(7, offset, (2, 5), ft.CPU), ops).flatten().tolist()
    assert part == stream[offset : offset + 10]
    assert len(set(stream)) == 20


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


def test_split_needs_no_values():
    with ft.use("null"):
        streams = ft.Generator(5).split(2)
    assert [s.seed for s in streams] == [s.seed for s in ft.Generator(5).split(2)]


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
        (lambda g: g.integers(0, 300, dtype="int8"), "299 does not fit int8"),
        (lambda g: g.integers(2**63 - 1, 2**63 + 5), "does not fit int64"),
        (lambda g: g.integers(0, 2.5), "high 2.5: expected an int"),
        (lambda g: g.uniform(2, 3, 1), "need low <= high"),
        (lambda g: g.bernoulli(2, p=1.5), "probability"),
        (lambda g: g.uniform(2, dtype="int32"), "expected a floating dtype"),
        (lambda g: g.normal(-1), "may not be negative"),
    ],
)
def test_wrong_arguments(draw, words):
    with pytest.raises(ft.FlError, match=words):
        draw(ft.Generator(0))


def words(value):
    """An override that makes every word of every stream ``value``."""

    def random_bits(inner, seed, offset, shape, device):
        return inner.full(shape, value, ft.int32, device)

    return ft.override(random_bits=random_bits)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("word", [-1, 0, 1, 2**31 - 1, -(2**31)])
def test_the_extreme_words_stay_inside_the_interval(word, dtype):
    generator = ft.Generator(0)
    with words(word):
        assert 0 <= generator.uniform(dtype=dtype).item() < 1
        for low, high in ((1, 2), (-3.0, 1e6), (0, 1e-30)):
            drawn = generator.uniform((), low, high, dtype=dtype)
            assert low <= drawn.item() and (drawn < high).item()
        assert abs(generator.normal(dtype=dtype).item()) < 9
        for low, high in ((0, 2**31), (-7, 2**31), (-5, 2**62 - 5), (2**63 - 10, 2**63)):
            assert low <= generator.integers(low, high).item() < high


@pytest.mark.parametrize("seed", [0, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("offset", [3, (1 << 34) - 2, (1 << 35) + 5, (1 << 66) - 3])
def test_words_of_far_offsets_and_large_seeds(seed, offset):
    from fl_tensor.testing.references import philox

    generator = ft.Generator(seed)
    generator.set_state({"seed": seed, "offset": offset})
    ops = ft.current_backend()
    found = ft.Tensor(ops.random_bits(generator.seed, offset, (9,), ft.CPU), ops).numpy()
    expected = philox.words(seed % (1 << 64), offset, 9)
    assert found.view(np.uint32).tolist() == expected.tolist()


def test_threads_that_share_a_generator_share_no_words():
    generator = ft.Generator(1)
    drawn = []

    def work():
        drawn.extend(generator.integers(0, 2**62, 4).tolist() for _ in range(200))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(d) for d in drawn}) == 800
    assert generator.offset == 800 * 8


def test_draws_can_be_repeated_whoever_holds_the_generator() -> None:
    from fl_tensor.random import Draws

    mine, unused = ft.Generator(7), ft.Generator(8)
    ft.seed(3)

    def step() -> list[float]:
        with Draws():  # blocks nest
            first = ft.rand((2,)).tolist()
        return first + mine.normal((2,)).tolist()

    with Draws() as draws:
        found = step()
    later = mine.state(), ft.default_generator().state()
    unused.uniform()
    with draws.again():
        assert step() == found
        unused.uniform()
    assert (mine.state(), ft.default_generator().state()) == later
    assert unused.offset == 2
    assert step() != found


@pytest.mark.defect("V12")
@pytest.mark.parametrize("seed", [-1, 1 << 64, -(1 << 63), (1 << 64) + 1])
def test_seeds_beyond_64_bits_are_refused(seed):
    state = ft.default_generator().state()
    for take in (
        ft.Generator,
        ft.seed,
        lambda s: ft.Generator(0).set_state({"seed": s, "offset": 0}),
    ):
        with pytest.raises(ft.ArgumentError, match=rf"seed {seed}: a seed has 64 bits"):
            take(seed)
    assert ft.default_generator().state() == state


def test_spawned_generators_are_others_each_time_and_take_no_numbers():
    generator = ft.Generator(5)
    first, second = generator.spawn(), generator.spawn()
    assert first.seed != second.seed
    assert generator.state() == {"seed": 5, "offset": 0}
    assert ft.Generator(5).spawn().seed == first.seed
    assert ft.Generator(6).spawn().seed != first.seed
    generator.set_state(generator.state())
    assert generator.spawn().seed == first.seed
    seeds = {ft.Generator(i).spawn().seed for i in range(100)}
    assert len(seeds) == 100
