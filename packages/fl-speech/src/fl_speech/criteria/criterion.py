"""Criterion: the base class of losses over sequences, and their scaling."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import check_reduction, reduce
from fl_speech.criteria.batch import Whole, check_targets, label_counts
from fl_tensor.arguments import choice_of

SCALE_MODES = ("none", "input", "input_sqrt", "target", "target_sqrt")


class Criterion(nn.Module):
    """A loss of what an acoustic model returns, and the paths that explain it.

    scale_mode  what the loss of each sample is divided by: "none" 1; "input" T, its frames;
                "input_sqrt" the root of T; "target" L, its labels; "target_sqrt" the root of L.
                T and L count as at least 1
    reduction   "mean" over the batch, "sum", or "none": one loss for each sample

    A subclass defines `losses`, `best_path` and `align`, and names in `decoding` the decoders of
    fl-text for its emissions. Raises ArgumentError, ModuleError.
    """

    #: "ctc", "asg" or "seq2seq": `DecoderOptions.criterion`, or the sequence-to-sequence decoders.
    decoding: ClassVar[str]

    def __init__(self, scale_mode: str = "none", reduction: str = "mean") -> None:
        choice_of(type(self).__name__, scale_mode, "scale_mode", SCALE_MODES)
        check_reduction(type(self).__name__, reduction)
        self.scale_mode, self.reduction = scale_mode, reduction

    def forward(self, output: Any, targets: Whole) -> ft.Array:
        """The loss of a batch: a scalar, or (B,) without a reduction.

        output   what a model returns: the pair of emissions (B, T, N) and their lengths (B,) or
                 None, or emissions alone
        targets  (B, L), integers; -1 after the end of each target
        """
        emissions, lengths = output_pair(output)
        return reduce(self.losses(emissions, targets, lengths), self.reduction)

    def losses(self, emissions: ft.Array, targets: Whole, lengths: Whole | None) -> ft.Array:
        """The scaled loss of each sample, (B,)."""
        raise self._undefined("losses")

    def best_path(self, emissions: ft.Array, lengths: Whole | None = None) -> list[np.ndarray]:
        """The most likely path of each sample: its class in every frame, int64."""
        raise self._undefined("best_path")

    def align(
        self, emissions: ft.Array, targets: Whole, lengths: Whole | None = None
    ) -> list[np.ndarray]:
        """The most likely path of each sample that spells its target: its class in every frame,
        int64."""
        raise self._undefined("align")

    def target_lengths(self, targets: Whole) -> np.ndarray:
        """The labels of each target (B, L), int64 (B,): the last index that is at least 0, plus
        1. Raises ShapeError, DTypeError."""
        where = type(self).__name__
        return label_counts(where, check_targets(where, targets), None)

    def _undefined(self, name: str) -> nn.ModuleError:
        return nn.ModuleError(f"{type(self).__name__} defines no {name}(); write it")

    def extra_repr(self) -> str:
        return f"scale_mode={self.scale_mode}, reduction={self.reduction}"


def output_pair(output: Any) -> tuple[ft.Array, Whole | None]:
    """Emissions and lengths, or None, of what a model returns."""
    if isinstance(output, (tuple, list)) and len(output) == 2:
        return output[0], output[1]
    return output, None


def scales(
    scale_mode: str, input_lengths: np.ndarray, target_lengths: np.ndarray
) -> np.ndarray | None:
    """The factor of each sample's loss, float64 (B,); None where all are 1."""
    if scale_mode == "none":
        return None
    counts = input_lengths if scale_mode.startswith("input") else target_lengths
    divisors = np.maximum(counts, 1).astype(np.float64)
    return 1.0 / (np.sqrt(divisors) if scale_mode.endswith("_sqrt") else divisors)


def scaled(
    losses: ft.Array, scale_mode: str, input_lengths: np.ndarray, target_lengths: np.ndarray
) -> ft.Array:
    """`losses` (B,), each with the factor of its sample."""
    factors = scales(scale_mode, input_lengths, target_lengths)
    if factors is None:
        return losses
    return losses * ft.asarray(factors, losses.dtype, losses.device, losses.backend)
