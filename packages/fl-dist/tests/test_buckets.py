"""Buckets: the sums of all gradients, whatever the order in which ranks find them."""

from __future__ import annotations

import pytest

import fl_dist as dist
import fl_tensor as ft
from fl_dist import ArgumentError, BucketReducer, CompressedReducer, MismatchError

SHAPES = {"a": (3, 4), "b": (5,), "c": (), "d": (2, 3, 2), "e": (0,), "f": (7, 2)}
DTYPES = {"b": "float64", "d": "float16"}


def specs(shapes=SHAPES):
    return [(key, shape, DTYPES.get(key, "float32")) for key, shape in shapes.items()]


def gradient(key, rank, step=0):
    seed = 100 * step + 10 * rank + sorted(SHAPES).index(key)
    x = ft.Generator(seed).integers(-8, 9, SHAPES[key])
    return x.astype(DTYPES.get(key, "float32"))


def summed(reducer, communicator, step, skipped=()):
    """A step in which rank r begins with gradient number r and leaves out `skipped[r]`."""
    keys = list(SHAPES)
    keys = keys[communicator.rank :] + keys[: communicator.rank]
    for key in keys:
        if key not in dict(enumerate(skipped)).get(communicator.rank, ()):
            reducer.add(key, gradient(key, communicator.rank, step))
    return {key: value.tolist() for key, value in reducer.finalize().items()}


def expected(world_size, step, skipped=()):
    found = {}
    for key, shape, dtype in specs():
        total = ft.zeros(shape, dtype)
        for rank in range(world_size):
            if key not in dict(enumerate(skipped)).get(rank, ()):
                total = total + gradient(key, rank, step)
        found[key] = total.tolist()
    return found


@pytest.mark.parametrize("size", [1, 64, 1 << 20])
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_sums_do_not_depend_on_the_order_of_adding(world_size, size):
    def program(communicator):
        reducer = BucketReducer(communicator, bucket_bytes=size, first_bucket_bytes=1)
        reducer.plan(specs())
        return [summed(reducer, communicator, step) for step in range(3)]

    for found in dist.threads.run(world_size, program):
        assert found == [expected(world_size, step) for step in range(3)]


def test_missing_gradients_are_zeros_also_after_a_step_that_had_them():
    skipped = [(), ("a", "f"), tuple(SHAPES)]

    def program(communicator):
        reducer = BucketReducer(communicator, bucket_bytes=64)
        reducer.plan(specs())
        whole = summed(reducer, communicator, 0)
        return whole, summed(reducer, communicator, 1, skipped)

    for whole, partial in dist.threads.run(3, program):
        assert whole == expected(3, 0)
        assert partial == expected(3, 1, skipped)


def test_weight_scales_the_sums():
    def program(communicator):
        reducer = BucketReducer(communicator)
        reducer.plan([("x", (2,), "float32")])
        reducer.add("x", ft.asarray([1.0, 2.0 + communicator.rank]))
        return reducer.finalize(0.5)["x"].tolist()

    assert dist.threads.run(2, program) == [[1.0, 2.5]] * 2


class Recording(dist.ThreadsCommunicator):
    """Notes the sizes of what is reduced."""

    def all_reduce(self, x, op="sum", **options):
        self.__dict__.setdefault("sizes", []).append(x.size)
        return super().all_reduce(x, op, **options)


def test_buckets_are_sent_in_reverse_order_as_soon_as_they_are_full():
    def program(communicator):
        reducer = BucketReducer(communicator, bucket_bytes=80, first_bucket_bytes=40)
        reducer.plan([(key, (10,), "float32") for key in "abcdef"])
        communicator.sizes = []
        seen = []
        for key in ("e", "f", "c", "d", "a", "b"):
            reducer.add(key, ft.ones(10))
            seen.append(list(communicator.sizes))
        reducer.finalize()
        return seen, communicator.sizes

    for seen, sizes in Recording.run(2, program):
        # First f, of 40 bytes; then e with d, and c with b, of 80; a is left.
        assert seen == [[], [10], [10], [10, 20], [10, 20], [10, 20, 20, 10]]
        assert sizes == [10, 20, 20, 10]


def test_the_plan_alone_decides_what_is_sent():
    def program(communicator):
        reducer = BucketReducer(communicator, bucket_bytes=40)
        reducer.plan([(key, (10,), "float32") for key in "abc"])
        communicator.sizes = []
        for key in "ab" if communicator.rank else "":
            reducer.add(key, ft.ones(10))
        found = reducer.finalize()
        return communicator.sizes, [found[key].tolist()[0] for key in "abc"]

    assert Recording.run(2, program) == [([10, 10, 10], [1.0, 1.0, 0.0])] * 2


def test_results_share_the_memory_of_their_bucket_which_is_kept():
    def program(communicator):
        reducer = BucketReducer(communicator)
        reducer.plan([("x", (1000,), "float32"), ("y", (500, 2), "float32")])
        places = []
        for _ in range(4):
            reducer.add("y", ft.ones((500, 2)))
            reducer.add("x", ft.ones(1000))
            found = reducer.finalize()
            x, y = (found[key].numpy() for key in "xy")
            places.append(y.__array_interface__["data"][0])
            assert x.__array_interface__["data"][0] == places[-1] + y.nbytes
            del found, x, y
        return len(set(places))

    # One rank: nothing travels, so nothing new is made.
    assert dist.LocalCommunicator.run(1, program) == [1]


def test_a_result_that_is_held_keeps_its_values():
    def program(communicator):
        reducer = BucketReducer(communicator)
        reducer.plan([("x", (3,), "float32")])
        held = []
        for step in range(3):
            reducer.add("x", ft.full((3,), float(step)))
            held.append(reducer.finalize()["x"])
        return [x.tolist() for x in held]

    for world_size in (1, 2):
        whole = [[world_size * float(step)] * 3 for step in range(3)]
        assert dist.threads.run(world_size, program) == [whole] * world_size


def test_different_plans_are_an_error_on_every_rank():
    def program(communicator):
        reducer = BucketReducer(communicator)
        with pytest.raises(MismatchError, match=r"x: float32 \(2,\)"):
            reducer.plan([("x", (2 + communicator.rank,), "float32")])
        reducer.plan([("x", (2,), "float32")])  # in step again
        reducer.add("x", ft.ones(2))
        return reducer.finalize()["x"].tolist()

    assert dist.threads.run(2, program) == [[2.0, 2.0]] * 2


def test_bad_arguments_are_refused():
    reducer = BucketReducer(dist.local())
    reducer.plan([("x", (2,), "float32")])
    reducer.add("x", ft.ones(2))
    with pytest.raises(ArgumentError, match="'x' was added twice"):
        reducer.add("x", ft.ones(2))
    with pytest.raises(ArgumentError, match="'y' was not planned"):
        reducer.add("y", ft.ones(2))
    reducer.finalize()
    with pytest.raises(ArgumentError, match=r"planned as float32 \(2,\), got float32 \(3,\)"):
        reducer.add("x", ft.ones(3))
    with pytest.raises(ArgumentError, match="bucket_bytes=0"):
        BucketReducer(dist.local(), bucket_bytes=0)
    with pytest.raises(ArgumentError, match="float32: float16 or bfloat16"):
        CompressedReducer(dist.local(), dtype="float32")


# ---- 16 bits -------------------------------------------------------------------------------------


def compressed(communicator, values, steps, dtype="float16", size=2000):
    """For each step the sums of `values[rank]`, the same in every step."""
    reducer = CompressedReducer(communicator, dtype=dtype)
    reducer.plan([("x", (size,), "float32"), ("n", (), "float32")])
    found = []
    for _ in range(steps):
        reducer.add("x", ft.full((size,), values[communicator.rank]))
        reducer.add("n", ft.asarray(values[communicator.rank], ft.float32))
        sums = reducer.finalize()
        assert sums["x"].dtype is ft.float32
        found.append((sums["x"][0].item(), sums["n"].item()))
    return found


def test_all_ranks_get_the_same_bits():
    """Where a rank adds its own exact value to the rounded ones of others, they do not."""
    values = [0.1, 0.2000001, 0.3000007, 0.4000003]
    ranks = dist.threads.run(4, compressed, values, 5)
    assert all(found == ranks[0] for found in ranks)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_a_rank_rounds_is_sent_later(dtype):
    unit = float(ft.finfo(ft.dtype(dtype)).eps)
    (found,) = dist.LocalCommunicator.run(1, compressed, [1.0 + 0.3 * unit], 200, dtype)
    exact = 1.0 + 0.3 * unit
    assert {x for x, _ in found} == {1.0, 1.0 + unit}
    # What is missing is what the last step rounded: it does not grow with the number of steps.
    assert sum(x for x, _ in found) == pytest.approx(200 * exact, abs=unit)
    assert found[0][1] == pytest.approx(exact, rel=1e-6)  # a small tensor is not rounded


def test_values_too_small_for_float16_arrive():
    values = [1e-8, 2e-8, -0.5e-8]
    found = dist.threads.run(3, compressed, values, 400)[0]
    assert found[0][0] == 0.0
    assert sum(x for x, _ in found) == pytest.approx(400 * sum(values), rel=0.05)


def test_values_beyond_the_range_are_sent_in_parts():
    found = dist.threads.run(2, compressed, [1e5, 1e5], 8)[0]
    assert found[0][0] == pytest.approx(65504.0, rel=1e-3)
    parts = [x for x, _ in dist.threads.run(2, compressed, [4e4, 1.0], 2)[0]]
    assert parts[0] < 4e4 < sum(parts)


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_what_is_not_finite_arrives_and_is_forgotten(bad):
    def program(communicator):
        reducer = CompressedReducer(communicator)
        reducer.plan([("x", (1024,), "float32")])
        found = []
        for value in (1.0, bad if communicator.rank else 1.0, 1.0):
            reducer.add("x", ft.full((1024,), value))
            found.append(bool(ft.all(ft.isfinite(reducer.finalize()["x"])).item()))
        return found

    assert dist.threads.run(2, program) == [[True, False, True]] * 2


def test_half_the_bytes_travel():
    def program(communicator):
        bytes_sent = []
        for make in (BucketReducer, CompressedReducer):
            reducer = make(communicator)
            reducer.plan([("x", (4096,), "float32")])
            communicator.sizes = []
            reducer.add("x", ft.ones(4096))
            dtype = ft.float16 if make is CompressedReducer else ft.float32
            reducer.finalize()
            bytes_sent.append(sum(communicator.sizes) * dtype.itemsize)
        return bytes_sent

    assert Recording.run(2, program) == [[16384, 8192]] * 2
