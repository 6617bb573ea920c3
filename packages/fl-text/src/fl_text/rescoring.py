"""Log-probabilities of whole sequences, to rescore lists of hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, cast

import fl_tensor as ft
from fl_nn import Module, evaluating
from fl_tensor.annotations import explained
from fl_text.errors import TextError
from fl_text.models.protocols import CausalNetwork


@explained
def sequence_log_probs(
    network: CausalNetwork,
    sequences: Sequence[Sequence[int]],
    start: int,
    end: int | None = None,
    batch_tokens: int = 4096,
) -> list[float]:
    """The natural log of the probability of each sequence of tokens.

    start         the token before the first one
    end           a token that follows the last one, whose probability counts too
    batch_tokens  how many tokens the network gets at once, at most; a longer sequence comes alone

    Sequences of equal length run together, so that none is padded. The network runs in eval mode,
    without gradients, and is in its own mode again afterwards. An empty sequence has
    log-probability 0, or that of `end`. Raises `TextError` for tokens that the network does not
    have, and what the network raises for sequences that are too long for it.

    An n-best list is rescored by adding `weight * log p` to the scores of its hypotheses.
    """
    if not hasattr(network, "hidden") or not hasattr(getattr(network, "head", None), "loss"):
        raise TextError(
            f"[sequence_log_probs] a {type(network).__name__} has no hidden() and head: give a "
            "fl_text.models.CausalNetwork"
        )
    if not isinstance(batch_tokens, int) or batch_tokens < 1:
        raise TextError(
            f"[sequence_log_probs] batch_tokens={batch_tokens!r}: give a whole number from 1 on"
        )
    rows = [list(sequence) + ([] if end is None else [end]) for sequence in sequences]
    _check([[start], *rows], network.head.tokens)
    found = [0.0] * len(rows)
    order = sorted((k for k, row in enumerate(rows) if row), key=lambda k: len(rows[k]))
    with evaluating(cast(Module, network)):
        for length, group in groupby(order, key=lambda k: len(rows[k])):
            alike, size = list(group), max(1, batch_tokens // length)
            for first in range(0, len(alike), size):
                batch = alike[first : first + size]
                sums = _log_probs(network, [rows[k] for k in batch], start)
                for k, value in zip(batch, sums, strict=True):
                    found[k] = value
    return found


def _log_probs(network: Any, rows: list[list[int]], start: int) -> list[float]:
    weight = next(iter(network.parameters()))
    where = (ft.int64, weight.device, weight.backend)
    tokens = ft.asarray([[start, *row[:-1]] for row in rows], *where)
    targets = ft.asarray(rows, *where)
    losses = network.head.loss(network.hidden(tokens), targets, reduction="none")
    sums: list[float] = (-ft.sum(losses, -1)).tolist()
    return sums


def _check(rows: list[list[int]], tokens: int) -> None:
    for number, row in enumerate(rows):
        for token in row:
            if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < tokens:
                what = "start" if number == 0 else f"sequence {number - 1}: token"
                raise TextError(
                    f"[sequence_log_probs] {what} {token!r}: the network has 0 to {tokens - 1}"
                )
