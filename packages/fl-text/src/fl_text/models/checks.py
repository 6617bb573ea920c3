"""Checks of what networks are called with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fl_tensor as ft
from fl_text.datasets.packing import document_mask, document_positions
from fl_text.errors import TextError


def check_tokens(where: str, tokens: Any) -> None:
    """Raises `TextError` unless they are integers (N, T) with at least one step."""
    if not isinstance(tokens, ft.Array) or not tokens.dtype.is_integer:
        kind = tokens.dtype if isinstance(tokens, ft.Array) else f"a {type(tokens).__name__}"
        raise TextError(f"[{where}] tokens are {kind}: expected an array of integers (N, T)")
    if tokens.ndim != 2 or not tokens.shape[1]:
        raise TextError(
            f"[{where}] tokens {tokens.shape}: expected (N, T), with at least one step; a single "
            "sequence is tokens[None]"
        )


def one_cache_each(where: str, caches: Sequence[Any] | None, count: int) -> None:
    """Raises `TextError` unless there are `count` caches, or none are given."""
    if caches is not None and len(caches) != count:
        raise TextError(
            f"[{where}] {len(caches)} caches for {count} layers that have one: give what the "
            "network's caches() returns"
        )


def places_of(
    where: str, tokens: ft.Array, caches: Sequence[Any] | None, documents: ft.Array | None
) -> tuple[int | ft.Array, ft.Array | None]:
    """The offset of the positions of tokens (N, T), and which tokens see one another: after
    `caches`, or those of `documents` (N, T), or from 0 on and all. Raises `TextError` for documents
    of another shape, or beside caches."""
    if documents is None:
        return caches[0].steps if caches else 0, None
    if caches or documents.shape != tokens.shape:
        beside = " beside caches" if caches else ""
        raise TextError(
            f"[{where}] documents {documents.shape}{beside}: expected a number for each of the "
            f"tokens {tokens.shape}, and no caches"
        )
    return document_positions(documents), document_mask(documents)
