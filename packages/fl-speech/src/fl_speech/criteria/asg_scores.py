"""The two scores of the auto segmentation criterion, and their difference.

Collobert, Puhrsch & Synnaeve, "Wav2Letter: an End-to-End ConvNet-based Speech Recognition System",
2016, section 2.3. ``transitions[m, n]`` is the score of class m after class n.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import fl_tensor as ft
from fl_autograd import extend
from fl_nn.losses.reduction import check_reduction, reduce
from fl_speech.criteria.asg_composed import composed_force_alignment, composed_full_connection
from fl_speech.criteria.batch import Batch, Whole, check_batch, check_emissions, frame_counts
from fl_speech.criteria.force_alignment_kernel import force_alignment, force_alignment_gradient
from fl_speech.criteria.full_connection_gradient_kernel import full_connection_gradient
from fl_speech.criteria.full_connection_kernel import Lattice, Transitions, full_connection
from fl_speech.criteria.infeasible import INFEASIBLE, fit_targets
from fl_speech.criteria.paths import (
    Kind,
    gradient_from_host,
    gradient_on_host,
    kind_of,
    on_host,
    uses_kernels,
    widened,
)
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
) -> Any:
    x = widened(x)
    if not uses_kernels(x, composed):
        return composed_full_connection(x, widened(transitions), lengths).astype(x.dtype)
    samples, frames, classes = x.shape
    trans = _tables(on_host(transitions))
    cells = samples * frames * classes
    lattice = Lattice(np.empty(cells), np.empty(cells), np.zeros(samples, np.int64))
    scores = np.empty(samples)
    full_connection(on_host(x), lengths, frames, classes, trans, lattice, scores)
    kinds = kind_of(x), kind_of(transitions)
    value = kinds[0].tensor(scores)
    return _full_connection_node(value, [x, transitions], kinds, lengths, trans, lattice, scores)


def _full_connection_gradients(
    ops: Any,
    g: Any,
    kinds: tuple[Kind, Kind],
    lengths: np.ndarray,
    trans: Transitions,
    lattice: Lattice,
    scores: np.ndarray,
) -> list[Any]:
    x, transitions = kinds
    _, frames, classes = x.shape
    to_x, to_trans = np.zeros(x.shape), np.zeros(transitions.shape)
    products = np.zeros(classes * classes)
    full_connection_gradient(
        lengths, frames, classes, trans, lattice, scores, gradient_on_host(ops, g),
        np.empty(frames * classes), to_x, products, to_trans,
    )  # fmt: skip
    to_trans += (products * trans.exps).reshape(classes, classes)
    return [gradient_from_host(to_x, x), gradient_from_host(to_trans, transitions)]


_full_connection_node = extend.defnode("full_connection", _full_connection_gradients)


def _tables(scores: np.ndarray) -> Transitions:
    tops = scores.max(axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        exps = np.exp(scores - tops[:, None])
        spread = float((tops - scores.min(axis=1)).max())
    if np.isneginf(scores).any() and not np.isnan(scores).any():
        spread = np.inf  # also for a row of -inf only, whose range is NaN
    turned = np.ascontiguousarray(exps.T)
    return Transitions(scores.ravel(), exps.ravel(), turned.ravel(), tops, spread)


def _force_alignment(
    x: ft.Array, transitions: ft.Array, batch: Batch, composed: bool | None
) -> Any:
    x = widened(x)
    if not uses_kernels(x, composed):
        return composed_force_alignment(x, widened(transitions), batch).astype(x.dtype)
    samples, frames, classes = x.shape
    labels = batch.targets.shape[1]
    shares, scores = np.empty(samples * frames * labels), np.empty(samples)
    force_alignment(
        on_host(x), batch.input_lengths, frames, classes, batch.targets, batch.target_lengths,
        labels, on_host(transitions), np.empty(labels), shares, scores,
    )  # fmt: skip
    kinds = kind_of(x), kind_of(transitions)
    value = kinds[0].tensor(scores)
    return _force_alignment_node(value, [x, transitions], kinds, batch, shares, scores)


def _force_alignment_gradients(
    ops: Any,
    g: Any,
    kinds: tuple[Kind, Kind],
    batch: Batch,
    shares: np.ndarray,
    scores: np.ndarray,
) -> list[Any]:
    x, transitions = kinds
    _, frames, classes = x.shape
    labels = batch.targets.shape[1]
    to_x, to_trans = np.zeros(x.shape), np.zeros(transitions.shape)
    force_alignment_gradient(
        batch.input_lengths, frames, classes, batch.targets, batch.target_lengths, labels, shares,
        scores, gradient_on_host(ops, g), np.empty(3 * labels), to_x, to_trans,
    )  # fmt: skip
    return [gradient_from_host(to_x, x), gradient_from_host(to_trans, transitions)]


_force_alignment_node = extend.defnode("force_alignment", _force_alignment_gradients)
