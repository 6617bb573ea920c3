"""The most likely paths through emissions and transitions: free, and through a target."""

from __future__ import annotations

import numpy as np

import fl_tensor as ft
from fl_speech.criteria.asg_scores import check_transitions
from fl_speech.criteria.batch import Whole, check_batch, check_emissions, frame_counts
from fl_speech.criteria.infeasible import check_fit
from fl_speech.criteria.outside import host_array
from fl_speech.criteria.viterbi_kernel import forced_viterbi, viterbi


def viterbi_path(
    emissions: ft.Array, transitions: ft.Array, input_lengths: Whole | None = None
) -> list[np.ndarray]:
    """The path with the highest score for each sample: its class in every frame, int64.

    emissions      (B, T, N), floating
    transitions    (N, N): the score of class m after class n at [m, n]
    input_lengths  (B,), the frames of each sample; None: T

    Of equal paths it is the one with the lowest class in the last frame, then in the one before.
    Computed on the host in float64. Viterbi, "Error bounds for convolutional codes and an
    asymptotically optimum decoding algorithm", 1967. Raises ShapeError, DTypeError, IndexingError,
    NonFiniteError for NaN.
    """
    where = "viterbi_path"
    check_emissions(where, emissions)
    check_transitions(where, emissions, transitions)
    lengths = frame_counts(where, emissions, input_lengths)
    x, trans = _scores(where, emissions, transitions, lengths)
    samples, frames, classes = x.shape
    paths = np.zeros((samples, frames), np.int64)
    viterbi(
        x, lengths, frames, classes, np.ascontiguousarray(trans.T), np.empty(2 * classes),
        np.empty(frames * classes, np.int64), paths,
    )  # fmt: skip
    return [path[:length].copy() for path, length in zip(paths, lengths, strict=True)]


def forced_path(
    emissions: ft.Array,
    targets: Whole,
    transitions: ft.Array,
    input_lengths: Whole | None = None,
    target_lengths: Whole | None = None,
) -> list[np.ndarray]:
    """The alignment of each target with the highest score: its class in every frame, int64. See
    `forced_places`."""
    places = forced_places(emissions, targets, transitions, input_lengths, target_lengths)
    labels = check_batch("forced_path", emissions, targets, input_lengths, target_lengths).targets
    return [row[place] for row, place in zip(labels, places, strict=True)]


def forced_places(
    emissions: ft.Array,
    targets: Whole,
    transitions: ft.Array,
    input_lengths: Whole | None = None,
    target_lengths: Whole | None = None,
) -> list[np.ndarray]:
    """The alignment of each target with the highest score: for every frame the place in the target,
    int64. Labels come in order, each for at least one frame.

    Arguments as in `viterbi_path` and `asg_loss`. Of equal alignments it is the one that stays
    longer in later labels. Raises what these raise, and TargetError for a target that is empty or
    has more labels than frames.
    """
    where = "forced_places"
    batch = check_batch(where, emissions, targets, input_lengths, target_lengths)
    check_transitions(where, emissions, transitions)
    check_fit(where, batch)
    x, trans = _scores(where, emissions, transitions, batch.input_lengths)
    samples, frames, classes = x.shape
    labels = batch.targets.shape[1]
    places = np.zeros((samples, frames), np.int64)
    forced_viterbi(
        x, batch.input_lengths, frames, classes, batch.targets, batch.target_lengths, labels, trans,
        np.empty(labels), np.empty(frames * labels, np.int8), places,
    )  # fmt: skip
    return [row[:length].copy() for row, length in zip(places, batch.input_lengths, strict=True)]


def _scores(
    where: str, emissions: ft.Array, transitions: ft.Array, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Emissions and transitions on the host; raises NonFiniteError for NaN within the lengths."""
    x, trans = (host_array(values, np.float64) for values in (emissions, transitions))
    if np.isnan(trans).any():
        raise ft.NonFiniteError(f"[{where}] transitions hold NaN: training has diverged")
    bad = np.isnan(x).any(axis=2) & (np.arange(x.shape[1]) < lengths[:, None])
    if bad.any():
        sample, frame = np.argwhere(bad)[0]
        raise ft.NonFiniteError(
            f"[{where}] sample {sample}: its emissions are NaN in frame {frame}: check the "
            "features and the weights of the model"
        )
    return x, trans
