"""Accuracy, confusion, per-class figures, AUC and calibration: by hand, merged, over ranks."""

from __future__ import annotations

import math

import pytest

import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError
from fl_nn.meters import ReliabilityBin

# Predicted as 0, 1, 1, 2, 0; classes 0, 1, 0, 2, 2.
SCORES = [[0.6, 0.3, 0.1], [0.1, 0.9, 0.0], [0.2, 0.7, 0.1], [0.0, 0.2, 0.8], [0.5, 0.1, 0.4]]
TARGETS = [0, 1, 0, 2, 2]


def filled(meter, outputs=SCORES, targets=TARGETS):
    meter.add(ft.asarray(outputs), ft.asarray(targets))
    return meter


def test_accuracy_of_scores_and_of_classes_in_percent():
    assert filled(nn.AccuracyMeter()).value == pytest.approx(60.0)
    assert filled(nn.AccuracyMeter(), [0, 1, 1, 2, 0]).value == pytest.approx(60.0)
    assert math.isnan(nn.AccuracyMeter().value)


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_one_score_each_needs_a_threshold(shape):
    logits, targets = ft.asarray([-1.0, 2.0, 0.3, -0.2]).reshape(shape), ft.asarray([0, 1, 0, 1])
    meter = nn.AccuracyMeter(threshold=0.0)
    meter.add(logits, targets)
    assert meter.value == 50.0
    with pytest.raises(ModuleError, match=r"one score .* threshold=0.0 for logits"):
        nn.AccuracyMeter().add(logits, targets)


def test_targets_of_a_binary_loss_may_be_floats():
    meter = nn.ConfusionMeter(2, threshold=0.5)
    meter.add(ft.asarray([0.2, 0.7, 0.9]), ft.asarray([0.0, 1.0, 0.0]))
    assert meter.value == [[1, 1], [0, 1]]
    with pytest.raises(ft.DTypeError, match="hold fractions"):
        meter.add(ft.asarray([0.2]), ft.asarray([0.5]))


def test_classes_on_another_axis_and_targets_that_do_not_count():
    scores = ft.asarray([[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    targets = ft.asarray([[1, 1], [0, -1]])
    for meter, right in [
        (nn.AccuracyMeter(axis=-1, ignore_index=-1), 100 / 3),
        (nn.ConfusionMeter(2, axis=-1, ignore_index=-1), 100 / 3),
    ]:
        meter.add(scores, targets)
        assert meter.result() == pytest.approx(right)
    assert meter.value == [[0, 1], [1, 1]]


def test_every_place_of_an_image_counts():
    scores = ft.randn((2, 3, 4, 5), ft.Generator(0))
    meter = nn.ConfusionMeter(3)
    meter.add(scores, ft.argmax(scores, 1))
    assert meter.result() == 100.0 and sum(map(sum, meter.value)) == 40


def test_infinite_scores_are_ranked_and_merged():
    meter = filled(nn.AUCMeter(), [math.inf, -math.inf, 0.3, 0.4], [1, 0, 1, 0])
    twin = meter.fresh()
    twin.merge(meter.state())
    assert twin.value == meter.value == 0.75


def test_confusion_counts_rows_of_truth_and_columns_of_predictions():
    meter = filled(nn.ConfusionMeter(3))
    assert meter.value == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]
    assert meter.result() == pytest.approx(60.0)
    first, second, third = meter.per_class
    assert first == (0.5, 0.5, 0.5, 2)
    assert second == (0.5, 1.0, pytest.approx(2 / 3), 1)
    assert third == (1.0, 0.5, pytest.approx(2 / 3), 2)


def test_figures_are_averaged_over_classes():
    meter = filled(nn.ConfusionMeter(3))
    assert meter.averaged("macro") == pytest.approx((2 / 3, 2 / 3, 11 / 18, 5))
    assert meter.averaged("weighted") == pytest.approx((0.7, 0.6, 0.6, 5))
    assert meter.averaged("micro") == pytest.approx((0.6, 0.6, 0.6, 5))
    for kind, name in [(nn.PrecisionMeter, "precision"), (nn.RecallMeter, "recall")]:
        for average in ("macro", "micro", "weighted"):
            one = filled(kind(3, average=average))
            assert one.value == one.result() == getattr(meter.averaged(average), name)


def test_binary_figures_are_those_of_class_1():
    meter = filled(nn.F1Meter(2, average="binary", threshold=0.5), [0.9, 0.8, 0.3], [1, 0, 1])
    assert meter.value == 0.5
    with pytest.raises(ModuleError, match="binary' of 3 classes"):
        nn.F1Meter(3, average="binary")
    with pytest.raises(ModuleError, match="average='mean': give one of macro"):
        nn.F1Meter(3, average="mean")


def test_a_class_that_occurs_nowhere_is_in_no_mean():
    assert filled(nn.F1Meter(3)).value == filled(nn.F1Meter(9), [0, 1, 1, 2, 0]).value
    assert nn.ConfusionMeter(2).per_class == [(0.0, 0.0, 0.0, 0)] * 2
    assert math.isnan(nn.F1Meter(3).value)


def test_area_under_the_curve_counts_pairs_in_order_and_ties_as_half():
    # Of 2 x 3 pairs 4 are in order and one is tied.
    meter = filled(nn.AUCMeter(), [0.8, 0.3, 0.3, 0.1, 0.5], [1, 1, 0, 0, 0])
    assert meter.value == 4.5 / 6 and meter.per_class == [4.5 / 6]
    assert filled(nn.AUCMeter(), [7.0, -3.0, 2.5], [1, 0, 0]).value == 1.0  # any scores


def test_average_precision_is_the_mean_precision_at_each_positive():
    meter = filled(nn.AveragePrecisionMeter(), [0.9, 0.8, 0.7, 0.6], [1, 0, 1, 0])
    assert meter.value == pytest.approx((1 / 1 + 2 / 3) / 2)
    # Equal scores are among each other's "no smaller": 2 of 3 from 0.8 on.
    tied = filled(nn.AveragePrecisionMeter(), [0.9, 0.8, 0.8, 0.6], [1, 1, 0, 0])
    assert tied.value == pytest.approx((1 / 1 + 2 / 3) / 2)


def test_two_classes_are_ranked_by_the_probability_of_class_1():
    targets = [1, 0, 1, 0]
    pairs = [[0.2, 0.8], [0.5, 0.5], [0.6, 0.4], [0.9, 0.1]]
    one = filled(nn.AUCMeter(), [b for _, b in pairs], targets)
    logits = [[a + 3.0 * n, b + 3.0 * n] for n, (a, b) in enumerate(pairs)]
    assert filled(nn.AUCMeter(), pairs, targets).value == one.value == 0.75
    assert filled(nn.AUCMeter(logits=True), logits, targets).value == one.value


def test_several_classes_are_ranked_one_against_the_rest():
    meter = filled(nn.AUCMeter())
    assert meter.per_class == [5 / 6, 1.0, 1.0]
    assert meter.value == pytest.approx(17 / 18)
    weighted = filled(nn.AUCMeter(average="weighted"))
    assert weighted.value == pytest.approx((2 * 5 / 6 + 1 + 2) / 5)
    # No sample is of class 1: it has no figure, and is in no mean.
    absent = filled(nn.AUCMeter(), SCORES, [0, 2, 0, 2, 2])
    assert math.isnan(absent.per_class[1]) and not math.isnan(absent.value)


@pytest.mark.parametrize("kind", [nn.AUCMeter, nn.AveragePrecisionMeter])
def test_ranking_refuses_logits_and_nan(kind):
    with pytest.raises(ft.ArgumentError, match="logits=True"):
        filled(kind(), [[3.0, -1.0, 0.0]], [1])
    with pytest.raises(ft.ArgumentError, match="NaN"):
        filled(kind(), [math.nan, 0.0], [1, 0])
    with pytest.raises(ft.IndexingError, match=r"hold 2: expected 0 \.\. 1"):
        filled(kind(), [0.5, 0.1], [1, 2])
    with pytest.raises(ModuleError, match="scores of 3 classes after those of 1"):
        filled(filled(kind(), [0.5], [1]))
    with pytest.raises(ModuleError, match="give 'macro' or 'weighted'"):
        kind(average="micro")
    assert math.isnan(kind().value) and math.isnan(filled(kind(), [0.5], [1]).value)


def test_calibration_compares_confidence_and_accuracy_in_each_bin():
    # Confidences 0.6, 0.9, 0.7, 0.8, 0.5; right: yes, yes, no, yes, no.
    meter = filled(nn.CalibrationMeter(bins=2))
    assert meter.value == pytest.approx((abs(0.5 - 0.0) + abs(3.0 - 3.0)) / 5, abs=1e-7)
    low, high = meter.reliability
    assert low == ReliabilityBin(0.0, 0.5, 1, 0.5, 0.0)
    assert high[:3] == (0.5, 1.0, 4) and high[3:] == pytest.approx((0.75, 0.75))
    empty = nn.CalibrationMeter(bins=3).reliability[0]
    assert empty.samples == 0 and math.isnan(empty.accuracy)


def test_calibration_of_one_probability_is_that_of_class_1():
    probs, targets = [0.9, 0.2, 0.4, 0.7], [1, 0, 1, 1]
    meter = filled(nn.CalibrationMeter(bins=2), probs, targets)
    assert [one.accuracy for one in meter.reliability] == [0.5, 1.0]
    assert meter.value == pytest.approx((0.4 + 0.4) / 4, abs=1e-7)
    logits = [math.log(p / (1 - p)) for p in probs]
    twin = filled(nn.CalibrationMeter(bins=2, logits=True), logits, targets)
    assert twin.value == pytest.approx(meter.value, abs=1e-6)


def test_calibration_of_logits_is_that_of_their_softmax():
    logits = [[math.log(p + 1e-9) for p in row] for row in SCORES]
    found = filled(nn.CalibrationMeter(logits=True), logits).value
    assert found == pytest.approx(filled(nn.CalibrationMeter()).value, abs=1e-6)
    with pytest.raises(ft.ArgumentError, match="logits=True"):
        filled(nn.CalibrationMeter(), logits)


@pytest.mark.parametrize("kind", [nn.AUCMeter, nn.AveragePrecisionMeter, nn.CalibrationMeter])
def test_targets_that_do_not_count_may_have_any_outputs(kind):
    whole, kept = kind(ignore_index=-100), filled(kind())
    nothing = [[math.nan, 7.0, -1.0]]
    filled(whole, SCORES[:2] + nothing + SCORES[2:], [*TARGETS[:2], -100, *TARGETS[2:]])
    filled(whole, nothing, [-100])
    assert whole.state() == kept.state() and whole.value == kept.value
    one, twin = kind(ignore_index=2), filled(kind(), [0.9, 0.4, 0.7], [1, 0, 0])
    filled(one, [0.9, math.nan, 0.4, 0.7], [1, 2, 0, 0])
    assert one.state() == twin.state()
    with pytest.raises(ft.IndexingError, match="hold -1"):
        filled(kind(ignore_index=-100), SCORES[:1], [-1])
    assert math.isnan(filled(kind(ignore_index=-100), nothing, [-100]).value)


MADE = {
    "accuracy": nn.AccuracyMeter,
    "confusion": lambda: nn.ConfusionMeter(3),
    "precision": lambda: nn.PrecisionMeter(3),
    "recall": lambda: nn.RecallMeter(3, average="weighted"),
    "f1": lambda: nn.F1Meter(3),
    "auc": nn.AUCMeter,
    "average precision": lambda: nn.AveragePrecisionMeter(average="weighted"),
    "calibration": lambda: nn.CalibrationMeter(5),
}


def samples(count=40):
    g = ft.Generator(5)
    scores = ft.softmax(ft.randn((count, 3), g), 1)
    return scores, g.integers(0, 3, (count,))


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("kind", MADE)
def test_ranks_have_the_figure_of_one_whatever_their_shares(kind, size):
    scores, targets = samples()
    whole = MADE[kind]()
    whole.add(scores, targets)

    def program(communicator):
        meter = MADE[kind]()
        mine = slice(communicator.rank, None, size)
        for part in (slice(0, 3), slice(3, 3), slice(3, None)):
            meter.add(scores[mine][part], targets[mine][part])
        meter.sync(communicator)
        return meter.value

    assert dist.threads.run(size, program) == [whole.value] * size


@pytest.mark.parametrize("kind", MADE)
def test_a_state_goes_through_a_checkpoint(kind, tmp_path):
    meter, model = MADE[kind](), nn.Linear(1, 1)
    meter.add(*samples())
    nn.save_checkpoint(tmp_path / "c", model, metadata={"meter": meter.state()})
    twin = meter.fresh()
    twin.load_state(nn.load_checkpoint(tmp_path / "c").metadata["meter"])
    assert twin.state() == meter.state() and twin.value == meter.value
    assert meter.fresh().state() == MADE[kind]().state()


def test_meters_of_other_settings_do_not_merge():
    with pytest.raises(ModuleError, match="4 classes do not merge into 3"):
        nn.ConfusionMeter(3).merge(nn.F1Meter(4).state())
    with pytest.raises(ModuleError, match="10 bins do not merge into 15"):
        nn.CalibrationMeter().merge(nn.CalibrationMeter(10).state())


@pytest.mark.parametrize("kind", MADE)
def test_other_shapes_and_classes_are_refused(kind):
    with pytest.raises(ft.ShapeError, match=r"outputs \(5, 3\) and targets \(4,\)"):
        filled(MADE[kind](), targets=[0, 1, 0, 2])
    if kind != "accuracy":  # which does not know how many there are
        with pytest.raises(ft.IndexingError, match=r"hold 3: expected 0 \.\. 2"):
            filled(MADE[kind](), targets=[0, 1, 0, 2, 3])


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ModuleError, match="classes=1"):
        nn.ConfusionMeter(1)
    with pytest.raises(ModuleError, match="bins=0"):
        nn.CalibrationMeter(0)


def test_a_trainer_reports_them():
    model = nn.Linear(2, 3, generator=ft.Generator(0))
    meters = {"accuracy": nn.AccuracyMeter(), "f1": nn.F1Meter(3), "auc": nn.AUCMeter(logits=True)}
    meters |= {"ece": nn.CalibrationMeter(logits=True), "confusion": nn.ConfusionMeter(3)}
    optimizer = nn.SGD(model.parameters(), lr=0.1)
    trainer = nn.Trainer(model, optimizer, nn.cross_entropy, meters=meters, progress=False)
    batch = (ft.randn((30, 2), ft.Generator(1)), ft.arange(30) % 3)
    figures = trainer.evaluate([batch])
    assert figures["accuracy"] == figures["confusion"] and set(meters) < set(figures)
    assert all(0.0 <= figures[name] <= 1.0 for name in ("f1", "auc", "ece"))
