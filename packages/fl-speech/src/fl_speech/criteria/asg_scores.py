"""The two scores of the auto segmentation criterion, and their difference.

Collobert, Puhrsch & Synnaeve, "Wav2Letter: an End-to-End ConvNet-based Speech Recognition System",
2016, section 2.3. ``transitions[m, n]`` is the score of class m after class n.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import fl_tensor as ft
from fl_nn.extend import check_reduction, reduce
from fl_speech.criteria.asg_composed import composed_force_alignment, composed_full_connection
from fl_speech.criteria.asg_host import force_alignment_on_host, full_connection_on_host
from fl_speech.criteria.batch import Batch, Whole, check_batch, check_emissions, frame_counts
from fl_speech.criteria.infeasible import INFEASIBLE, fit_targets
from fl_speech.criteria.outside import host_array, kernels_fit, outside_tape, widened
from fl_tensor.arguments import choice_of


def asg_loss(
    emissions: ft.Array,
    targets: Whole,
    transitions: ft.Array,
    input_lengths: Whole | None = None,
    target_lengths: Whole | None = None,
    *,
    infeasible: str = "truncate",
    reduction: str = "mean",
    composed: bool | None = None,
) -> ft.Array:
    """The full-connect score minus that of the target: -log of the target's share of all paths.

    emissions       (B, T, N), floating: scores, normalised or not
    targets         (B, L), integers in [0, N), -1 after the end of each. A label after itself
                    cannot be told from one that lasts: `fl_text.pack_replabels` writes it otherwise
    transitions     (N, N): the score of class m after class n at [m, n]
    input_lengths   (B,), the frames of each sample; None: T
    target_lengths  (B,), the labels of each sample; None: up to the first of the -1 at the end
    infeasible      what an empty target, or one of more labels than frames, gives. "truncate": the
                    target is cut to the frames, and an empty one is an error. "inf" and "zero":
                    that number, with gradient 0
    reduction       "mean", "sum" or "none": (B,)
    composed        True: by tensor operations on any backend, with derivatives of any order. False:
                    by kernels in float64, with a first derivative. None: kernels for tensors on the
                    CPU, if there is a compiler of kernels

    The loss has the dtype of the emissions, and float32 for those of 16 bits. Raises ShapeError,
    DTypeError, IndexingError for a label or a length out of range, TargetError
    (sample and remedy), ArgumentError and ModuleError for an unknown option.
    """
    check_reduction("asg_loss", reduction)
    batch, possible = _checked("asg_loss", emissions, targets, transitions, input_lengths,
                               target_lengths, infeasible)  # fmt: skip
    losses = _full_connection(emissions, transitions, batch.input_lengths, composed)
    losses = losses - _force_alignment(emissions, transitions, batch, composed)
    return reduce(_instead(losses, possible, np.inf if infeasible == "inf" else 0.0), reduction)


def full_connection_score(
    emissions: ft.Array,
    transitions: ft.Array,
    input_lengths: Whole | None = None,
    *,
    composed: bool | None = None,
) -> ft.Array:
    """The logarithm of the sum of exp(score) over all N^T paths of each sample, (B,); 0 without
    frames. Arguments and errors as in `asg_loss`."""
    check_emissions("full_connection_score", emissions)
    check_transitions("full_connection_score", emissions, transitions)
    lengths = frame_counts("full_connection_score", emissions, input_lengths)
    return _full_connection(emissions, transitions, lengths, composed)


def force_alignment_score(
    emissions: ft.Array,
    targets: Whole,
    transitions: ft.Array,
    input_lengths: Whole | None = None,
    target_lengths: Whole | None = None,
    *,
    infeasible: str = "truncate",
    composed: bool | None = None,
) -> ft.Array:
    """The logarithm of the sum of exp(score) over the alignments of each target, (B,): labels in
    order, each for at least one frame. Arguments and errors as in `asg_loss`; "inf" gives -inf, the
    logarithm of no path."""
    where = "force_alignment_score"
    batch, possible = _checked(where, emissions, targets, transitions, input_lengths,
                               target_lengths, infeasible)  # fmt: skip
    scores = _force_alignment(emissions, transitions, batch, composed)
    return _instead(scores, possible, -np.inf if infeasible == "inf" else 0.0)


def check_transitions(where: str, emissions: ft.Array, transitions: Any) -> None:
    """Raise unless `transitions` are floating (N, N) on the emissions' backend and device."""
    size = emissions.shape[2]
    if not isinstance(transitions, ft.Array):
        raise ft.DTypeError(
            f"[{where}] transitions are a {type(transitions).__name__}: give an array"
        )
    if transitions.shape != (size, size):
        raise ft.ShapeError(
            f"[{where}] transitions {transitions.shape} for emissions {emissions.shape}: give "
            f"({size}, {size}), a score for each class after each class"
        )
    if not transitions.dtype.is_floating:
        raise ft.DTypeError(f"[{where}] transitions are {transitions.dtype}: give floating scores")


def _checked(
    where: str,
    emissions: ft.Array,
    targets: Whole,
    transitions: ft.Array,
    input_lengths: Whole | None,
    target_lengths: Whole | None,
    infeasible: str,
) -> tuple[Batch, np.ndarray]:
    choice_of(where, infeasible, "infeasible", INFEASIBLE)
    batch = check_batch(where, emissions, targets, input_lengths, target_lengths)
    check_transitions(where, emissions, transitions)
    return fit_targets(where, batch, infeasible)


def _instead(scores: ft.Array, possible: np.ndarray, value: float) -> ft.Array:
    """`scores`, and `value` where there is no path."""
    if possible.all():
        return scores
    flags = ft.asarray(possible, ft.bool, scores.device, scores.backend)
    return ft.where(flags, scores, value)


def _full_connection(
    x: ft.Array, transitions: ft.Array, lengths: np.ndarray, composed: bool | None
) -> ft.Array:
    x, transitions = widened(x), widened(transitions)
    if not kernels_fit(x, composed):
        return composed_full_connection(x, transitions, lengths).astype(x.dtype)
    values, trans = host_array(x, np.float64), host_array(transitions, np.float64)
    scores, slopes = full_connection_on_host(values, trans, lengths)
    return outside_tape("full_connection", scores, [x, transitions], slopes)


def _force_alignment(
    x: ft.Array, transitions: ft.Array, batch: Batch, composed: bool | None
) -> ft.Array:
    x, transitions = widened(x), widened(transitions)
    if not kernels_fit(x, composed):
        return composed_force_alignment(x, transitions, batch).astype(x.dtype)
    values, trans = host_array(x, np.float64), host_array(transitions, np.float64)
    scores, slopes = force_alignment_on_host(values, trans, batch)
    return outside_tape("force_alignment", scores, [x, transitions], slopes)
