"""Criteria with transitions as modules: ASG and its two scores."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

import fl_nn as nn
import fl_tensor as ft
from fl_speech.criteria.asg_scores import asg_loss, force_alignment_score, full_connection_score
from fl_speech.criteria.batch import Whole, check_emissions, frame_counts
from fl_speech.criteria.criterion import Criterion, scaled
from fl_speech.criteria.infeasible import INFEASIBLE
from fl_speech.criteria.viterbi import forced_path, viterbi_path
from fl_tensor.arguments import choice_of


class TransitionCriterion(Criterion):
    """Base of criteria with a score for each class after each class, the parameter `transitions`.

    classes     N
    transdiag   what the diagonal of `transitions` (N, N) begins with; the rest begins with 0
    scale_mode, reduction  as in `Criterion`; labels that were cut off do not count
    infeasible  as in `asg_loss`

    Criteria may share one parameter: ``linear.transitions = asg.transitions``. Raises
    ArgumentError, ModuleError.
    """

    decoding: ClassVar[str] = "asg"

    def __init__(
        self,
        classes: int,
        transdiag: float = 0.0,
        scale_mode: str = "none",
        reduction: str = "mean",
        infeasible: str = "truncate",
    ) -> None:
        super().__init__(scale_mode, reduction)
        name = type(self).__name__
        if isinstance(classes, bool) or classes < 1:
            raise ft.ArgumentError(f"[{name}] classes is {classes!r}: give an int, at least 1")
        if not np.isfinite(transdiag):
            raise ft.ArgumentError(f"[{name}] transdiag is {transdiag!r}: give a finite number")
        choice_of(name, infeasible, "infeasible", INFEASIBLE)
        self.classes, self.infeasible = classes, infeasible
        self.transitions = nn.Parameter(ft.eye(classes) * float(transdiag))

    def best_path(self, emissions: ft.Array, lengths: Whole | None = None) -> list[np.ndarray]:
        """`viterbi_path` with the transitions."""
        return viterbi_path(emissions, self.transitions, lengths)

    def align(
        self, emissions: ft.Array, targets: Whole, lengths: Whole | None = None
    ) -> list[np.ndarray]:
        """`forced_path` with the transitions; targets are cut if `infeasible` says so."""
        ends = self._labels(emissions, targets, lengths)[1]
        return forced_path(emissions, targets, self.transitions, lengths, ends)

    def extra_repr(self) -> str:
        return f"{self.classes}, {super().extra_repr()}, infeasible={self.infeasible}"

    def _scaled(
        self, losses: ft.Array, emissions: ft.Array, targets: Whole, lengths: Whole | None
    ) -> ft.Array:
        if self.scale_mode == "none":
            return losses
        return scaled(losses, self.scale_mode, *self._labels(emissions, targets, lengths))

    def _labels(
        self, emissions: ft.Array, targets: Whole, lengths: Whole | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The frames of each sample, and its labels without those that are cut off."""
        check_emissions(type(self).__name__, emissions)
        frames = frame_counts(type(self).__name__, emissions, lengths)
        labels = self.target_lengths(targets)
        if self.infeasible == "truncate" and labels.shape == frames.shape:
            labels = np.minimum(labels, frames)
        return frames, labels


class ASG(TransitionCriterion):
    """The auto segmentation criterion, `asg_loss`, with learned transitions.

    It needs neither a blank nor normalised emissions. Decoders of fl-text take `transitions`.
    """

    def losses(self, emissions: ft.Array, targets: Whole, lengths: Whole | None) -> ft.Array:
        """The scaled loss of each sample, (B,). Raises what `asg_loss` raises."""
        found = asg_loss(
            emissions, targets, self.transitions, lengths, infeasible=self.infeasible,
            reduction="none",
        )  # fmt: skip
        return self._scaled(found, emissions, targets, lengths)


class FullConnection(TransitionCriterion):
    """`full_connection_score`: the first part of ASG, the score of all paths. Targets only matter
    to `scale_mode`."""

    def losses(self, emissions: ft.Array, targets: Whole, lengths: Whole | None) -> ft.Array:
        """The scaled score of each sample, (B,)."""
        found = full_connection_score(emissions, self.transitions, lengths)
        return self._scaled(found, emissions, targets, lengths)


class ForceAlignment(TransitionCriterion):
    """`force_alignment_score`: the second part of ASG, the score of a target. A higher score is
    better, so ASG subtracts it."""

    def losses(self, emissions: ft.Array, targets: Whole, lengths: Whole | None) -> ft.Array:
        """The scaled score of each sample, (B,). Raises what `force_alignment_score` raises."""
        found = force_alignment_score(
            emissions, targets, self.transitions, lengths, infeasible=self.infeasible
        )
        return self._scaled(found, emissions, targets, lengths)
