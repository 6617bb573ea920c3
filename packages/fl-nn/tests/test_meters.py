"""Meters: figures, their states, and their union over ranks."""

from __future__ import annotations

import math
import statistics

import pytest

import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError
from fl_tensor.testing import needs

VALUES = [3.0, -1.0, 4.0, 1.0, 5.0, 9.0]


def test_average_of_numbers():
    meter = nn.AverageValueMeter()
    for value in VALUES:
        meter.add(value)
    mean, variance, weight = meter.value
    assert mean == pytest.approx(statistics.mean(VALUES))
    assert variance == pytest.approx(statistics.variance(VALUES))
    assert weight == 6.0 and meter.result() == mean


def test_average_of_the_elements_of_a_tensor():
    meter = nn.AverageValueMeter()
    meter.add(ft.asarray(VALUES).reshape(2, 3))
    assert meter.value == pytest.approx((statistics.mean(VALUES), statistics.variance(VALUES), 6.0))


def test_weights_count_values_more_or_not_at_all():
    meter = nn.AverageValueMeter()
    for value, weight in [(1.0, 3.0), (100.0, 0.0), (5.0, 1.0)]:
        meter.add(value, weight)
    mean, variance, weight = meter.value
    assert (mean, weight) == (2.0, 4.0)
    assert variance == pytest.approx((3 * 1.0 + 9.0) / (4 - 10 / 4))


def test_a_weight_is_that_of_every_element():
    whole, single = nn.AverageValueMeter(), nn.AverageValueMeter()
    whole.add(ft.asarray(VALUES), 0.5)
    whole.add(ft.asarray([2, 7]), 3.0)
    whole.add(ft.zeros((0,)), 9.0)
    for value, weight in [*((value, 0.5) for value in VALUES), (2, 3.0), (7, 3.0)]:
        single.add(value, weight)
    assert whole.value == pytest.approx(single.value)
    assert whole.state() == pytest.approx(single.state())


def test_variance_of_far_away_numbers_does_not_cancel():
    meter = nn.AverageValueMeter()
    for value in VALUES:
        meter.add(1e9 + value)
    assert meter.value.variance == pytest.approx(statistics.variance(VALUES), rel=1e-6)


def test_nothing_has_no_mean_and_one_value_no_variance():
    meter = nn.AverageValueMeter()
    assert math.isnan(meter.value.mean) and meter.value.weight == 0.0
    meter.add(2.0)
    assert meter.value.mean == 2.0 and math.isnan(meter.value.variance)


def test_a_weight_is_a_finite_number_that_is_not_negative():
    for weight in (-1.0, math.nan, math.inf):
        with pytest.raises(ModuleError, match="weight"):
            nn.AverageValueMeter().add(1.0, weight)


def test_frame_error_of_classes_and_of_scores():
    meter, accuracy = nn.FrameErrorMeter(), nn.FrameErrorMeter(accuracy=True)
    for one in (meter, accuracy):
        one.add(ft.asarray([1, 2, 3]), ft.asarray([1, 2, 0]))
        one.add(ft.asarray([[0.1, 0.9], [0.8, 0.2]]), ft.asarray([0, 0]))
    assert (meter.value, accuracy.value) == (40.0, 60.0)


def test_frame_error_of_scores_with_classes_on_another_axis():
    meter = nn.FrameErrorMeter(axis=-1)
    meter.add(ft.asarray([[[0.0, 1.0], [1.0, 0.0]]]), ft.asarray([[1, 1]]))
    assert meter.value == 50.0


def test_frame_error_refuses_other_shapes():
    with pytest.raises(ft.ShapeError, match=r"\(3,\) and targets \(2,\)"):
        nn.FrameErrorMeter().add(ft.asarray([1, 2, 3]), ft.asarray([1, 2]))


def test_top_k():
    scores = ft.asarray([[0.1, 0.5, 0.4], [0.7, 0.2, 0.1], [0.2, 0.3, 0.5]])
    targets = ft.asarray([2, 2, 0])
    for k, expected in [(1, 0.0), (2, 100 / 3), (3, 100.0), (9, 100.0)]:
        meter = nn.TopKMeter(k)
        meter.add(scores, targets)
        assert meter.value == pytest.approx(expected)


def test_top_k_of_equal_scores_is_no_hit_for_all():
    meter = nn.TopKMeter(1)
    meter.add(ft.zeros((4, 4)), ft.arange(4))
    assert meter.value == 25.0


def test_top_k_of_scores_with_classes_on_another_axis():
    meter = nn.TopKMeter(1, axis=-1)
    meter.add(ft.asarray([[[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]]), ft.asarray([[1, 1, 0]]))
    assert meter.value == pytest.approx(200 / 3)


def test_top_k_refuses_other_shapes():
    with pytest.raises(ft.ShapeError, match=r"targets must be \(2,\)"):
        nn.TopKMeter(1).add(ft.zeros((2, 3)), ft.asarray([0, 1, 2]))
    with pytest.raises(ModuleError, match="k=0"):
        nn.TopKMeter(0)


def test_meters_take_variables():
    meter = nn.FrameErrorMeter()
    meter.add(nn.Parameter(ft.asarray([[0.0, 1.0]])), ft.asarray([1]))
    assert meter.value == 0.0


class Largest(nn.Meter):
    """The largest output: a meter as users write one."""

    def reset(self):
        self.largest = -math.inf

    @property
    def value(self):
        return self.largest

    def add(self, output, target):
        self.largest = max(self.largest, ft.max(output).item())

    def state(self):
        return {"largest": self.largest}

    def merge(self, state):
        self.largest = max(self.largest, state["largest"])


def test_meters_of_ones_own_merge_over_ranks():
    def rank(communicator):
        meter = Largest()
        meter.add(ft.asarray([1.0, 2.0 + communicator.rank]), None)
        meter.sync(communicator)
        return meter.result()

    assert dist.threads.run(3, rank) == [4.0] * 3


def test_counters():
    meter = nn.CountMeter(3)
    for index, count in [(0, 1), (2, 5), (2, 5)]:
        meter.add(index, count)
    assert meter.value == [1, 0, 10] and meter.result() == 11.0


def test_counters_are_bounded():
    with pytest.raises(ModuleError, match="size 0"):
        nn.CountMeter(0)
    for index in (-1, 3):
        with pytest.raises(ft.IndexingError, match=f"index {index}.*0 .. 2"):
            nn.CountMeter(3).add(index)
    with pytest.raises(ModuleError, match="4 counters do not merge into 3"):
        nn.CountMeter(3).merge(nn.CountMeter(4).state())


def test_squares_are_averaged_over_elements_however_they_were_batched():
    meter = nn.MSEMeter()
    meter.add(ft.asarray([4.0, 5.0, 6.0, 7.0, 8.0]), ft.asarray([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert (meter.value, meter.sum_of_squares) == (9.0, 45.0)
    meter.add(ft.asarray([[1.0]]), ft.asarray([[4.0]]))
    assert meter.value == 9.0


def test_squares_of_nothing_have_no_mean_and_shapes_are_equal():
    assert math.isnan(nn.MSEMeter().value)
    with pytest.raises(ft.ShapeError, match=r"\(2, 1\) and targets \(2,\)"):
        nn.MSEMeter().add(ft.zeros((2, 1)), ft.zeros((2,)))


@needs("float16")
def test_squares_of_half_precision_neither_overflow_nor_wash_out():
    if ft.float16 not in ft.current_backend().dtypes:
        pytest.skip("the backend has no float16")
    meter = nn.MSEMeter()
    meter.add(ft.full((4096,), 300.0, ft.float16), ft.zeros((4096,), ft.float16))
    meter.add(ft.full((1,), 1.0, ft.float16), ft.zeros((1,), ft.float16))
    assert meter.sum_of_squares == 4096 * 90000.0 + 1.0


def test_large_and_small_squares_sum_to_the_same_bits_in_any_order():
    sums = set()
    for order in ([1e154, 1.0, 1e-3, 3e8], [3e8, 1e-3, 1.0, 1e154], [1.0, 1e154, 3e8, 1e-3]):
        meter = nn.MSEMeter()
        for difference in order:
            meter.add(ft.asarray([difference], ft.float64), ft.zeros((1,), ft.float64))
        sums.add(meter.sum_of_squares)
    assert len(sums) == 1


def test_squares_that_are_not_finite_show():
    meter = nn.MSEMeter()
    meter.add(ft.asarray([math.inf]), ft.asarray([0.0]))
    meter.add(ft.asarray([1.0]), ft.asarray([0.0]))
    assert meter.value == math.inf
    meter.add(ft.asarray([math.nan]), ft.asarray([0.0]))
    assert math.isnan(meter.value)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_a_stopwatch_counts_what_it_runs():
    clock = Clock()
    watch = nn.TimeMeter(clock=clock)
    clock.now += 5
    assert (watch.value, watch.running) == (0.0, False)
    watch.resume()
    clock.now += 2
    watch.resume()  # it runs already
    clock.now += 1
    assert (watch.value, watch.running) == (3.0, True)
    watch.stop()
    clock.now += 10
    watch.stop()
    assert (watch.value, watch.running) == (3.0, False)


def test_seconds_per_unit():
    clock = Clock()
    watch = nn.TimeMeter(unit=True, clock=clock)
    assert math.isnan(watch.value)
    for _ in range(2):
        watch.resume()
        clock.now += 3
        watch.stop_and_add_units(4)
    watch.add_units()
    assert (watch.seconds, watch.units) == (6.0, 9) and watch.value == pytest.approx(6 / 9)
    watch.set(8.0, 2)
    assert (watch.value, watch.running) == (4.0, False)


def test_time_and_units_do_not_go_back():
    watch = nn.TimeMeter()
    watch.set(1.0)
    for call in (lambda: watch.set(-1.0), lambda: watch.add(math.nan), lambda: watch.add(1, -2)):
        with pytest.raises(ModuleError, match="at least 0|>= 0"):
            call()
    assert watch.state() == {"seconds": [1.0], "units": 1}


def test_the_state_of_a_running_stopwatch_has_its_time_and_loads_as_one_that_stands():
    clock = Clock()
    watch = nn.TimeMeter(clock=clock)
    watch.resume()
    clock.now += 2
    twin = watch.fresh()
    twin.load_state(watch.state())
    clock.now += 5
    assert (twin.value, twin.running, watch.value) == (2.0, False, 7.0)


MADE = {
    "average": nn.AverageValueMeter,
    "frames": nn.FrameErrorMeter,
    "top": lambda: nn.TopKMeter(2),
    "counts": lambda: nn.CountMeter(3),
    "squares": nn.MSEMeter,
    "edits": nn.EditDistanceMeter,
    "time": lambda: nn.TimeMeter(unit=True),
}


def add(kind, meter, n):
    """What sample `n` adds to a meter."""
    if kind == "average":
        meter.add(n / 3, weight=1 + n)
    elif kind == "frames":
        meter.add(ft.asarray([n, 1]), ft.asarray([1, 1]))
    elif kind == "top":
        meter.add(ft.asarray([[0.1 * n, 0.3, 0.2, 0.25]]), ft.asarray([n % 4]))
    elif kind == "counts":
        meter.add(n % 3, n)
    elif kind == "squares":
        meter.add(ft.asarray([0.1 * n, 7.0**n]), ft.asarray([1.0, -0.3]))
    elif kind == "edits":
        meter.add("abcd"[: n % 5], "acdb"[n % 3 :])
    else:
        meter.add(0.1 * n, n)


def filled(kind, numbers):
    meter = MADE[kind]()
    for n in numbers:
        add(kind, meter, n)
    return meter


def same(kind, found, expected):
    """Exactly, but for the average, whose rounding depends on the order."""
    return found == (pytest.approx(expected) if kind == "average" else expected)


@pytest.mark.parametrize("kind", MADE)
def test_merged_meters_have_seen_everything_in_any_order(kind):
    whole = filled(kind, range(9))
    for parts in ([[0, 1], [2, 3, 4, 5, 6, 7, 8]], [[8, 2], [], [7, 0, 1], [5, 6, 4, 3]]):
        meter = MADE[kind]()
        for part in parts:
            meter.merge(filled(kind, part).state())
        assert same(kind, meter.value, whole.value)
        assert meter.result() == pytest.approx(whole.result())


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("kind", MADE)
def test_sync_merges_the_meters_of_all_ranks(kind, size):
    def program(communicator):
        meter = filled(kind, range(communicator.rank, 11, size))
        meter.sync(communicator)
        return meter.value

    ranks = dist.threads.run(size, program)
    assert all(value == ranks[0] for value in ranks)
    assert same(kind, ranks[0], filled(kind, range(11)).value)


@pytest.mark.parametrize("kind", MADE)
def test_a_state_in_a_checkpoint_restores_a_meter_to_the_bit(kind, tmp_path):
    meter, model = filled(kind, [1, 2, 5]), nn.Linear(1, 1)
    nn.save_checkpoint(tmp_path / "c", model, metadata={"meter": meter.state()})
    twin = meter.fresh()
    twin.load_state(nn.load_checkpoint(tmp_path / "c").metadata["meter"])
    assert twin.state() == meter.state() and twin.value == meter.value
    assert meter.fresh().state() != meter.state()
    assert meter.fresh().state() == MADE[kind]().state()
