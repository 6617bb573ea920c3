"""``PackedDocuments``: several whole documents in each row, and the mask that keeps them apart.

Krell et al., Efficient sequence packing without cross-contamination, 2021.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain

import fl_tensor as ft
from fl_data import DataError, Dataset, Sample, check_index, check_indices
from fl_tensor.annotations import explained
from fl_text.datasets.documents import (
    Documents,
    check_context,
    check_pad,
    first_of,
    table,
    usable_lengths,
)


class PackedDocuments(Dataset):
    """Short documents, as many in a row of `context` tokens as fit: samples
    `(input, documents, target)`, int64 `(context,)` each.

    Each document is in one row, with its target one later; no target is the first token of the next
    document. `documents` numbers the documents of a row from 1, and is 0 where the row is padded:
    `document_mask` makes the mask of attention out of it. `input` is padded with `pad` and `target`
    with `target_pad` (default `pad`; the number that the loss ignores).

    A document goes into the first row that has room for it (first fit, in the order of the
    documents). One with more than `context + 1` tokens is cut, and counted in `truncated`; one with
    less than 2 raises `DataError`. `texts` are lists of numbers, or a `TokenFile`.
    """

    def __init__(
        self,
        texts: Iterable[Sequence[int]] | Documents,
        context: int,
        pad: int,
        target_pad: int | None = None,
    ) -> None:
        check_context(context, "PackedDocuments")
        check_pad(pad, "PackedDocuments")
        self.context, self.pad = context, pad
        self.target_pad = pad if target_pad is None else target_pad
        self._texts = texts if isinstance(texts, Documents) else Documents.gathered(texts)
        lengths = usable_lengths(self._texts, "PackedDocuments")
        self.truncated = sum(length > context for length in lengths)
        self._lengths = array("q", (min(length, context) for length in lengths))
        self._rows = first_fit(self._lengths, context)

    @property
    def filled(self) -> float:
        """The share of places that are not padding."""
        return sum(self._lengths) / max(1, len(self) * self.context)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Sample:
        return first_of(self._batch([check_index(index, len(self), "PackedDocuments")]))

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        return self._batch(check_indices(indices, len(self), "PackedDocuments"))

    def _batch(self, indices: Sequence[int]) -> Sample:
        inputs, numbers, targets = [], [], []
        for index in indices:
            parts = [self._texts.numbers(i, self._lengths[i] + 1) for i in self._rows[index]]
            inputs.append(array("q", chain.from_iterable(part[:-1] for part in parts)))
            targets.append(array("q", chain.from_iterable(part[1:] for part in parts)))
            counted = ([number] * (len(part) - 1) for number, part in enumerate(parts, 1))
            numbers.append(array("q", chain.from_iterable(counted)))
        fills = (inputs, self.pad), (numbers, 0), (targets, self.target_pad)
        return tuple(table(rows, pad, self.context) for rows, pad in fills)

    def __repr__(self) -> str:
        return (
            f"PackedDocuments({len(self._texts)} documents in {len(self)} rows, "
            f"context={self.context})"
        )


@explained
def document_mask(documents: ft.Array) -> ft.Array:
    """Bool `(N, 1, T, T)` out of document numbers `(N, T)`: True where the query (third axis) and
    the key are of one document. It is the `mask` of `fl_nn.MultiHeadAttention` and of transformer
    layers; `causal` goes with it. Raises `DataError` for another shape."""
    if documents.ndim != 2 or not documents.dtype.is_integer:
        raise DataError(
            f"[document_mask] documents {documents.shape} of {documents.dtype}: expected the "
            "integers (N, T) of a batch of PackedDocuments"
        )
    mask: ft.Array = documents[:, None, :, None] == documents[:, None, None, :]
    return mask


@explained
def document_positions(documents: ft.Array) -> ft.Array:
    """The place of each token within its document, int64 `(N, T)` from 0 on, out of document
    numbers `(N, T)`; of padding among the padding. `fl_nn.PositionEmbedding` takes it as `offset`.
    Raises `DataError` for another shape."""
    same = document_mask(documents)[:, 0]
    places = ft.sum(ft.tril(same.astype(ft.int64)), -1) - 1
    return places


def first_fit(lengths: Sequence[int], room: int) -> list[array[int]]:
    """Which items are in each bin of size `room`: each goes into the first bin that it fits in.

    A tree of maxima over the bins finds that one in O(log n). Lengths are at most `room`.
    """
    leaves = 1 << max(0, len(lengths) - 1).bit_length()
    free = array("q", [room]) * (2 * leaves)
    bins: list[array[int]] = []
    for item, length in enumerate(lengths):
        node = 1
        while node < leaves:
            node *= 2
            node += free[node] < length
        if node - leaves == len(bins):
            bins.append(array("q"))
        bins[node - leaves].append(item)
        free[node] -= length
        while node > 1:
            node //= 2
            free[node] = max(free[2 * node], free[2 * node + 1])
    return bins
