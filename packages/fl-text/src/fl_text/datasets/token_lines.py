"""``TokenLines``: a sample for each text, padded."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from fl_data import Collate, Dataset, Sample, check_index, check_indices, pad_collate
from fl_text.datasets.documents import (
    Documents,
    check_context,
    check_pad,
    first_of,
    table,
    usable_lengths,
)


class TokenLines(Dataset):
    """Short texts of tokens, one for each sample `(input, target)`, int64 `(context,)` each.

    The target is the text one later; both are padded at the end, `input` with `pad` and `target`
    with `target_pad` (default `pad`; the number that the loss ignores). A text with more than
    `context + 1` tokens is cut, and counted in `truncated`; one with less than 2 is an error.
    `texts` are lists of numbers, or a `TokenFile`, which stays in its file.

    With `context=None` nothing is cut, samples have a size of their own, and `Batch(ds, n)` pads to
    the longest of each batch. `lengths[i]` is the size of sample `i` without padding, for
    `DynamicBatch` and `BucketBatch`, which also need `collate`, as it knows `pad`.
    """

    def __init__(
        self,
        texts: Iterable[Sequence[int]] | Documents,
        context: int | None,
        pad: int,
        target_pad: int | None = None,
    ) -> None:
        if context is not None:
            check_context(context, "TokenLines")
        check_pad(pad, "TokenLines")
        self.context, self.pad = context, pad
        self.target_pad = pad if target_pad is None else target_pad
        self._texts = texts if isinstance(texts, Documents) else Documents.gathered(texts)
        self.lengths: array[int] = usable_lengths(self._texts, "TokenLines")
        self.truncated = 0
        if context is not None:
            self.truncated = sum(length > context for length in self.lengths)
            self.lengths = array("q", (min(length, context) for length in self.lengths))

    @property
    def collate(self) -> Collate:
        """Stacks samples of unequal size, as `Batch` does without it."""
        return pad_collate({0: self.pad, 1: self.target_pad})

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> Sample:
        return first_of(self._batch([check_index(index, len(self), "TokenLines")]))

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        """The samples, padded to `context`, or without one to the longest of them."""
        return self._batch(check_indices(indices, len(self), "TokenLines"))

    def _batch(self, indices: Sequence[int]) -> Sample:
        rows = [self._texts.numbers(index, self.lengths[index] + 1) for index in indices]
        width = self.context or max((self.lengths[index] for index in indices), default=0)
        inputs = table((row[:-1] for row in rows), self.pad, width)
        return inputs, table((row[1:] for row in rows), self.target_pad, width)

    def __repr__(self) -> str:
        return f"TokenLines({len(self)} texts, context={self.context})"
