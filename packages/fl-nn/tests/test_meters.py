"""Meters: figures, their states, and their union over ranks."""

from __future__ import annotations

import math
import statistics

import pytest

import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError

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


def filled(numbers):
    average, errors = nn.AverageValueMeter(), nn.FrameErrorMeter()
    for n in numbers:
        average.add(n / 3, weight=1 + n)
        errors.add(ft.asarray([n, 1]), ft.asarray([1, 1]))
    return average, errors


def test_merged_meters_have_seen_everything():
    for one, other, whole in zip(filled([0, 1]), filled([2, 3, 4]), filled(range(5))):
        one.merge(other.state())
        assert one.value == pytest.approx(whole.value)


def test_sync_merges_the_meters_of_all_ranks():
    def program(communicator):
        meters = filled([[0, 1], [], [2, 3, 4]][communicator.rank])
        for meter in meters:
            meter.sync(communicator)
        return [meter.value for meter in meters]

    ranks = dist.threads.run(3, program)
    assert ranks[0] == ranks[1] == ranks[2]
    for found, whole in zip(ranks[0], filled(range(5))):
        assert found == pytest.approx(whole.value)


def test_a_state_restores_a_meter_to_the_bit():
    for meter in filled([1, 2, 5]):
        twin = meter.fresh()
        twin.load_state(meter.state())
        assert twin.state() == meter.state() and twin.value == meter.value
        assert meter.fresh().state() != meter.state()
