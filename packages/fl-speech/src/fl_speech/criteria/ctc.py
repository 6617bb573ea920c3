"""Connectionist temporal classification: the loss and the criterion."""

from __future__ import annotations

import numpy as np

import fl_tensor as ft
from fl_nn.extend import check_reduction, reduce, tensor_of
from fl_speech.criteria.batch import Batch, Whole, check_batch, check_emissions, frame_counts
from fl_speech.criteria.criterion import Criterion, scaled
from fl_speech.criteria.ctc_alignment import ctc_paths
from fl_speech.criteria.ctc_composed import composed_ctc
from fl_speech.criteria.ctc_host import ctc_on_host
from fl_speech.criteria.infeasible import INFEASIBLE
from fl_speech.criteria.outside import (
    host_array,
    kernels_fit,
    needs_gradient,
    outside_tape,
    shares_of,
    widened,
)
from fl_tensor.annotations import explained
from fl_tensor.arguments import choice_of, int_of


@explained
def ctc_loss(
    emissions: ft.Array,
    targets: Whole,
    input_lengths: Whole | None = None,
    target_lengths: Whole | None = None,
    *,
    blank: int = -1,
    infeasible: str = "truncate",
    reduction: str = "mean",
    composed: bool | None = None,
) -> ft.Array:
    """Minus the logarithm of the probability of the targets: of all paths, with a class for each
    frame, that spell them once repetitions are merged and blanks removed. Graves et al., 2006.

    emissions       (B, T, N), floating; softmax over the classes is part of the loss
    targets         (B, L), integers, without blanks; -1 after the end of each target
    input_lengths   (B,), the frames of each sample, 0 to T; None: T
    target_lengths  (B,), the labels of each target; None: up to the last that is not -1
    blank           the class of the blank, from the end if negative
    infeasible      what becomes of a target of L labels, R of them equal to the one before, that
                    needs more than the T frames there are, L + R > T. "truncate": its first T - R
                    labels are the target (Flashlight); "inf": the loss is infinite, with gradient
                    0; "zero": loss and gradient are 0, also where the loss is infinite otherwise
    reduction       "mean" over the batch (PyTorch's divides each loss by L first), "sum", or
                    "none": (B,)
    composed        True: by tensor operations on any backend, with derivatives of any order. False:
                    by kernels in float64, with a first derivative. None: kernels for tensors on the
                    CPU, if there is a compiler of kernels

    The loss has the dtype of the emissions, and float32 for those of 16 bits. Raises
    ShapeError, DTypeError, ArgumentError, and IndexingError, which names the sample, for a class or
    a length out of range.
    """
    where = "ctc_loss"
    check_reduction(where, reduction)
    choice_of(where, infeasible, "infeasible", INFEASIBLE)
    check_emissions(where, emissions)
    blank = blank_of(where, blank, emissions.shape[2])
    batch = check_batch(where, emissions, targets, input_lengths, target_lengths, blank=blank)
    if infeasible == "truncate":
        batch = truncated(batch)
    return reduce(_losses(emissions, batch, blank, infeasible, composed), reduction)


def blank_of(where: str, blank: int, classes: int) -> int:
    """The class of the blank, counted from 0. Raises IndexingError."""
    blank = int_of(where, blank, "blank")
    if not -classes <= blank < classes:
        raise ft.IndexingError(f"[{where}] blank {blank}: there are {classes} classes")
    return blank % classes


def truncated(batch: Batch) -> Batch:
    """The batch with L := min(L + R, T) - R labels in each target of L labels and R repetitions,
    at least 0 (Flashlight)."""
    inside = batch.targets[:, 1:] >= 0
    repeats = np.sum(inside & (batch.targets[:, 1:] == batch.targets[:, :-1]), axis=1)
    most = np.maximum(batch.input_lengths - repeats, 0)
    lengths = np.minimum(batch.target_lengths, most)
    places = np.arange(batch.targets.shape[1])
    targets = np.where(places < lengths[:, None], batch.targets, -1)
    return Batch(targets, batch.input_lengths, lengths)


def _losses(
    emissions: ft.Array, batch: Batch, blank: int, infeasible: str, composed: bool | None = None
) -> ft.Array:
    emissions = widened(emissions)
    zero = infeasible == "zero"
    if kernels_fit(emissions, composed):
        scores = host_array(emissions)
        grads = np.empty_like(scores) if needs_gradient(emissions) else None
        found = ctc_on_host(scores, batch, blank, grads, zero)
        return outside_tape("ctc_loss", found, [emissions], shares_of(grads))
    losses = composed_ctc(emissions, batch, blank).astype(emissions.dtype)
    return ft.where(ft.isinf(losses), 0.0, losses) if zero else losses


class CTC(Criterion):
    """`ctc_loss` as a criterion: the last class is the blank.

    scale_mode, reduction  as of `Criterion`; labels that were cut off do not count
    infeasible             as of `ctc_loss`
    """

    decoding = "ctc"

    def __init__(
        self, scale_mode: str = "none", reduction: str = "mean", *, infeasible: str = "truncate"
    ) -> None:
        super().__init__(scale_mode, reduction)
        self.infeasible = choice_of("CTC", infeasible, "infeasible", INFEASIBLE)

    def losses(self, emissions: ft.Array, targets: Whole, lengths: Whole | None) -> ft.Array:
        batch, blank = self._batch(emissions, targets, lengths)
        found = _losses(emissions, batch, blank, self.infeasible)
        return scaled(found, self.scale_mode, batch.input_lengths, batch.target_lengths)

    def best_path(self, emissions: ft.Array, lengths: Whole | None = None) -> list[np.ndarray]:
        """The most likely class of each frame, blanks and repetitions included; int64 (T,) of each
        sample. The first of several with the highest score."""
        check_emissions("CTC", emissions)
        counts = frame_counts("CTC", emissions, lengths)
        best = tensor_of(ft.argmax(tensor_of(emissions), 2)).numpy()
        return [row[:n].astype(np.int64) for row, n in zip(best, counts, strict=True)]

    def align(
        self, emissions: ft.Array, targets: Whole, lengths: Whole | None = None
    ) -> list[np.ndarray]:
        """The most likely path of each sample that spells its target: the class of each frame,
        int64 (T,). Of equal paths, the one that stays in a state, then the one that skips no
        blank. Raises TargetError for a target without a path, unless targets are truncated."""
        batch, blank = self._batch(emissions, targets, lengths)
        return ctc_paths(host_array(emissions), batch, blank)

    def _batch(
        self, emissions: ft.Array, targets: Whole, lengths: Whole | None
    ) -> tuple[Batch, int]:
        check_emissions("CTC", emissions)
        blank = emissions.shape[2] - 1
        batch = check_batch("CTC", emissions, targets, lengths, blank=blank)
        return (truncated(batch) if self.infeasible == "truncate" else batch), blank

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, infeasible={self.infeasible}"
