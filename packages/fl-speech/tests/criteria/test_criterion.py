"""What criteria have in common: scaling, and checks of a batch."""

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_speech.criteria import SCALE_MODES, Criterion
from fl_speech.criteria.batch import check_batch
from fl_speech.criteria.criterion import output_pair, scaled, scales

EMISSIONS = ft.zeros((2, 4, 3))


def test_the_length_of_a_target_is_its_last_index_that_is_at_least_zero_plus_one():
    targets = [[1, 2, -1], [-1, -1, -1], [0, 1, 2]]
    assert Criterion().target_lengths(targets).tolist() == [2, 0, 3]
    assert Criterion().target_lengths(np.empty((2, 0), np.int32)).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("mode", "factors"),
    [("input", [1 / 4, 1]), ("input_sqrt", [1 / 2, 1]),
     ("target", [1, 1 / 9]), ("target_sqrt", [1, 1 / 3])],
)  # fmt: skip
def test_scale_modes(mode, factors):
    frames, labels = np.array([4, 0]), np.array([0, 9])
    assert scales(mode, frames, labels) == pytest.approx(factors)
    losses = scaled(ft.asarray([2.0, 2.0]), mode, frames, labels)
    assert losses.tolist() == pytest.approx([2 * f for f in factors])
    assert losses.dtype == ft.float32


def test_no_scale():
    assert SCALE_MODES[0] == "none" and scales("none", np.array([4]), np.array([2])) is None


def test_a_batch_ends_each_target_with_padding():
    batch = check_batch("x", EMISSIONS, [[1, 0], [2, 2]], None, [1, 2])
    assert batch.targets.tolist() == [[1, -1], [2, 2]]
    assert batch.input_lengths.tolist() == [4, 4] and batch.target_lengths.tolist() == [1, 2]
    same = check_batch("x", EMISSIONS, ft.asarray([[1, -1], [2, 2]]), ft.asarray([4, 4]))
    assert all(np.array_equal(a, b) for a, b in zip(batch, same, strict=True))


@pytest.mark.parametrize(
    ("targets", "lengths", "error", "words"),
    [
        ([[1, 2], [0, 3]], None, ft.IndexingError, r"sample 1: its target holds 3 at position 1"),
        ([[-1, 2], [0, 1]], None, ft.IndexingError, r"sample 0: its target holds -1 at position 0"),
        ([[-7, -1], [-1, 1]], [4, 4], ft.IndexingError, r"sample 1: .* -1 at position 0"),
        ([[1], [1]], [4, 5], ft.IndexingError, r"sample 1: input_lengths say 5, and there are 4"),
        ([[1], [1]], [-1, 4], ft.IndexingError, r"sample 0: input_lengths say -1"),
        ([[1], [1]], [4], ft.ShapeError, r"input_lengths \(1,\): give one for each of the 2"),
        ([[1.5], [1.0]], None, ft.DTypeError, r"targets are float64: give integers"),
        ([[1], [1, 2]], None, ft.DTypeError, r"targets are no array of integers"),
        ([1, 2], None, ft.ShapeError, r"targets \(2,\): give \(2, labels\)"),
        ([[1]], None, ft.ShapeError, r"give \(2, labels\)"),
    ],
)
def test_errors_name_the_sample(targets, lengths, error, words):
    with pytest.raises(error, match=words):
        check_batch("x", EMISSIONS, targets, lengths)


@pytest.mark.parametrize("lengths", [4, np.int64(4), np.array(4), ft.asarray(4)])
def test_a_number_is_no_length_of_a_batch_of_one(lengths):
    with pytest.raises(ft.ShapeError, match=r"input_lengths \(\): give one for each of the 1"):
        check_batch("x", EMISSIONS[:1], [[1]], lengths)


def test_a_target_may_not_hold_the_blank():
    with pytest.raises(ft.IndexingError, match="sample 1: its target holds the blank, 2"):
        check_batch("x", EMISSIONS, [[1], [2]], blank=2)
    assert check_batch("x", EMISSIONS, [[4], [2]], classes=5).targets.tolist() == [[4], [2]]


@pytest.mark.parametrize(
    ("emissions", "error"),
    [([[[0.0]]], ft.DTypeError), (ft.zeros((2, 3)), ft.ShapeError),
     (ft.zeros((2, 3, 0)), ft.ShapeError), (ft.zeros((1, 2, 3), ft.int64), ft.DTypeError)],
)  # fmt: skip
def test_emissions_are_floating_scores_of_classes(emissions, error):
    with pytest.raises(error, match="emissions"):
        check_batch("x", emissions, [[0]])


def test_options_that_there_are_not():
    with pytest.raises(ft.ArgumentError, match="scale_mode 'frames'"):
        Criterion("frames")
    with pytest.raises(nn.ModuleError, match="reduction 'max'"):
        Criterion(reduction="max")


def test_a_model_returns_emissions_with_or_without_lengths():
    assert output_pair(EMISSIONS) == (EMISSIONS, None)
    assert output_pair((EMISSIONS, [4, 3])) == (EMISSIONS, [4, 3])


def test_what_a_criterion_does_not_define():
    for call in (lambda c: c(EMISSIONS, [[1], [1]]), lambda c: c.best_path(EMISSIONS)):
        with pytest.raises(nn.ModuleError, match="Criterion defines no"):
            call(Criterion())
