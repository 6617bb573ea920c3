"""Targets and lengths of a batch, checked: what the kernels of criteria index with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import fl_tensor as ft
from fl_nn.extend import tensor_of
from fl_tensor.errors import NoDataError

#: Whole numbers for a batch: an array of any kind, or lists.
Whole: TypeAlias = ft.Array | np.ndarray | Sequence[Any]


class Batch(NamedTuple):
    """What belongs to emissions (B, T, N), on the host, as contiguous int64 arrays."""

    targets: np.ndarray
    """(B, L): classes, and -1 from the end of each target."""
    input_lengths: np.ndarray
    """(B,): frames of each sample, 0 to T."""
    target_lengths: np.ndarray
    """(B,): labels of each sample, 0 to L."""


def check_batch(
    where: str,
    emissions: ft.Array,
    targets: Whole,
    input_lengths: Whole | None = None,
    target_lengths: Whole | None = None,
    *,
    classes: int | None = None,
    blank: int | None = None,
) -> Batch:
    """The targets and lengths that belong to `emissions`.

    emissions       (B, T, N), floating
    targets         (B, L), integers; -1 after the end of each target
    input_lengths   (B,), each 0 to T; None: T for all
    target_lengths  (B,), each 0 to L; None: the last index of a target that is at least 0, plus 1
    classes         targets lie in [0, classes); None: N
    blank           a class that no target may hold

    Raises ShapeError, DTypeError, and IndexingError for a class or a length out of range. Errors
    about values name the sample, the position and the value. `where` begins the message.
    """
    check_emissions(where, emissions)
    samples, frames, size = emissions.shape
    found = check_targets(where, targets, samples)
    ends = label_counts(where, found, target_lengths)
    check_labels(where, found, ends, size if classes is None else classes, blank)
    found = np.where(np.arange(found.shape[1]) < ends[:, None], found, -1)
    return Batch(found, frame_counts(where, emissions, input_lengths), ends)


def check_emissions(where: str, emissions: ft.Array) -> None:
    """Raise unless `emissions` are floating (B, T, N) with at least one class."""
    if not isinstance(emissions, ft.Array):
        raise ft.DTypeError(
            f"[{where}] emissions are a {type(emissions).__name__}: give an array; use ft.asarray"
        )
    if emissions.ndim != 3 or not emissions.shape[2]:
        raise ft.ShapeError(
            f"[{where}] emissions {emissions.shape}: give (batch, frames, classes), a batch of 1 "
            "for one recording"
        )
    if not emissions.dtype.is_floating:
        raise ft.DTypeError(f"[{where}] emissions are {emissions.dtype}: give floating scores")


def frame_counts(where: str, emissions: ft.Array, lengths: Whole | None) -> np.ndarray:
    """The frames of each sample, int64 (B,); all of them for None."""
    samples, frames, _ = emissions.shape
    return counts_of(where, "input_lengths", lengths, samples, 0, frames, "frames of the emissions")


def check_targets(where: str, targets: Whole, samples: int | None = None) -> np.ndarray:
    """The targets of so many samples, int64 (B, L). Raises ShapeError, DTypeError."""
    found = whole(where, "targets", targets)
    if found.ndim != 2 or (samples is not None and len(found) != samples):
        raise ft.ShapeError(
            f"[{where}] targets {found.shape}: give "
            f"({'batch' if samples is None else samples}, labels), padded with -1"
        )
    return found


def label_counts(where: str, targets: np.ndarray, lengths: Whole | None) -> np.ndarray:
    """The labels of each target (B, L), int64 (B,): `lengths`, or what padding with -1 says."""
    samples, labels = targets.shape
    if lengths is not None:
        return counts_of(
            where, "target_lengths", lengths, samples, 0, labels, "labels of the targets"
        )
    places = np.arange(1, labels + 1, dtype=np.int64)
    return np.max(np.where(targets >= 0, places, 0), axis=1, initial=0)


def check_labels(
    where: str, targets: np.ndarray, ends: np.ndarray, classes: int, blank: int | None = None
) -> None:
    """Raise IndexingError for a label that is no class, or the blank, before the end of its
    target."""
    inside = np.arange(targets.shape[1]) < ends[:, None]
    wrong = inside & ((targets < 0) | (targets >= classes))
    if wrong.any():
        sample, place = np.argwhere(wrong)[0]
        raise ft.IndexingError(
            f"[{where}] sample {sample}: its target holds {targets[sample, place]} at position "
            f"{place} of {ends[sample]}; expected classes 0 .. {classes - 1}, and -1 only after "
            "the end"
        )
    if blank is not None and (wrong := inside & (targets == blank)).any():
        sample, place = np.argwhere(wrong)[0]
        raise ft.IndexingError(
            f"[{where}] sample {sample}: its target holds the blank, {blank}, at position {place}: "
            "give labels only; the criterion puts blanks between them"
        )


def whole(where: str, name: str, values: Whole) -> np.ndarray:
    """`values` as an int64 array of the host. Raises DTypeError for what are no integers."""
    if isinstance(values, ft.Array) and not values.backend.has_values:
        raise NoDataError(
            f"[{where}] {name} have no values here: criteria read them on the host, so a compiled "
            "step with a criterion runs as it is; compile the model alone for a graph"
        )
    try:
        found = tensor_of(values).numpy() if isinstance(values, ft.Array) else np.asarray(values)
    except (TypeError, ValueError) as error:
        if isinstance(error, ft.FlError):
            raise
        raise ft.DTypeError(f"[{where}] {name} are no array of integers: {error}") from error
    if found.dtype.kind not in "iu" and found.size:
        raise ft.DTypeError(f"[{where}] {name} are {found.dtype}: give integers; use astype")
    return np.asarray(found, np.int64, order="C")  # without the axis that others add to a number


def counts_of(
    where: str, name: str, lengths: Whole | None, samples: int, least: int, most: int, what: str
) -> np.ndarray:
    """One of `least` to `most` for each sample, int64 (B,); `most` for None. `what` says what
    there are `most` of."""
    if lengths is None:
        return np.full(samples, most, np.int64)
    counts = whole(where, name, lengths)
    if counts.shape != (samples,):
        raise ft.ShapeError(
            f"[{where}] {name} {counts.shape}: give one for each of the {samples} samples"
        )
    wrong = np.flatnonzero((counts < least) | (counts > most))
    if wrong.size:
        sample = wrong[0]
        raise ft.IndexingError(
            f"[{where}] sample {sample}: {name} say {counts[sample]}, and there are {most} {what}; "
            f"expected {least} .. {most}"
        )
    return counts
