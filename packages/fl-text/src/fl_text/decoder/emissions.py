"""Emissions at the border: what a caller gives becomes float32 (frames, tokens) without NaN."""

from __future__ import annotations

import numpy as np

import fl_tensor as ft
from fl_text.errors import TextError


def frames_of(emissions: object, tokens: int) -> np.ndarray:
    """The emissions as a contiguous array of the host; raises TextError if they do not fit."""
    try:
        found = np.asarray(_host(emissions))
    except (TypeError, ValueError) as error:
        raise TextError(f"[text] emissions are no array of numbers: {error}") from error
    if found.dtype.kind not in "fiu":
        raise TextError(f"[text] emissions have dtype {found.dtype}: give scores as float32")
    if found.ndim != 2 or found.shape[1] != tokens:
        raise TextError(
            f"[text] emissions have shape {found.shape}: give (frames, {tokens}), a score for each"
            " frame and each token of the dictionary"
        )
    with np.errstate(over="ignore"):  # what is too large for float32 is refused as infinite
        scores = np.ascontiguousarray(found, np.float32)
    bad = np.isnan(scores) | (scores == np.inf)
    if bad.any():
        frame, token = np.argwhere(bad)[0]
        raise TextError(
            f"[text] emissions have {scores[frame, token]} at frame {frame}, token {token}: give"
            " log-probabilities or scores below infinity"
        )
    return scores


def _host(emissions: object) -> object:
    if isinstance(emissions, ft.Tensor):
        return emissions.numpy()
    return emissions
