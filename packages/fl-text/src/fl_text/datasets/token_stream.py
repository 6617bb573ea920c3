"""``TokenStream``: one stream of tokens in contexts, in one column or in several."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import fl_tensor as ft
from fl_data import DataError, Dataset, Sample, check_count, check_index, check_indices
from fl_text.datasets.documents import check_context
from fl_text.datasets.token_file import TokenFile


class TokenStream(Dataset):
    """One stream of tokens, cut into samples `(input, target)`, int64 `(context,)` each.

    `tokens` is a list, a 1-d tensor of integers, or a `TokenFile`, which stays in its file. Sample
    `i` is tokens `i * context .. (i + 1) * context - 1`, and its target the same stretch one later,
    so every token but the first is predicted once. What is left at the end, less than `context`
    tokens, is not used.

    With `columns`, the stream is cut into so many equal parts first, and samples come from the
    parts in turns. Row `c` of every `Batch(ds, columns)` then goes on where row `c` of the batch
    before ended, so a recurrent state can be carried. Do not shuffle these samples.

    Raises `DataError` for a stream shorter than `columns * context + 1`.
    """

    def __init__(self, tokens: Any, context: int, columns: int = 1) -> None:
        check_context(context, "TokenStream")
        self.columns = check_count(columns, "columns", "TokenStream", least=1)
        self.context = context
        self.tokens: ft.Array | TokenFile
        if isinstance(tokens, TokenFile):
            self.tokens, count = tokens, tokens.count
        else:
            self.tokens = _numbers(tokens)
            count = self.tokens.shape[0]
        if count < self.columns * context + 1:
            several = f" of {self.columns} columns each" if self.columns > 1 else ""
            raise DataError(
                f"[TokenStream] {count} tokens do not fill one sample{several}: context={context} "
                f"needs {self.columns * context + 1}; give more text, or a smaller context"
            )
        self._count = count
        self._column = (count - 1) // self.columns
        self._length = self._column // context * self.columns

    def __len__(self) -> int:
        return self._length

    def _start(self, row: int) -> int:
        step, column = divmod(row, self.columns)
        return column * self._column + step * self.context

    def __getitem__(self, index: int) -> Sample:
        start = self._start(check_index(index, self._length, "TokenStream"))
        if isinstance(self.tokens, TokenFile):
            stretch = self.tokens.stretches([start], self.context + 1)[0]
        else:
            stretch = self.tokens[start : start + self.context + 1]
        return stretch[:-1], stretch[1:]

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        starts = [self._start(row) for row in check_indices(indices, self._length, "TokenStream")]
        if isinstance(self.tokens, TokenFile):
            stretches = self.tokens.stretches(starts, self.context + 1)
        else:
            places = array("q")
            for start in starts:
                places.extend(range(start, start + self.context + 1))
            numbers = ft.asarray(places, ft.int64, self.tokens.device, self.tokens.backend)
            stretches = ft.gather(self.tokens, numbers.reshape(len(starts), self.context + 1))
        return stretches[:, :-1], stretches[:, 1:]

    def __repr__(self) -> str:
        columns = f", columns={self.columns}" if self.columns > 1 else ""
        return f"TokenStream({self._count} tokens, context={self.context}{columns})"


def _numbers(tokens: Any) -> ft.Array:
    if not isinstance(tokens, ft.Array):
        tokens = ft.asarray(tokens, dtype=ft.int64)
    if tokens.ndim != 1 or not tokens.dtype.is_integer:
        raise DataError(
            f"[TokenStream] tokens {tokens.shape} of {tokens.dtype}: expected one axis of integers"
        )
    numbers: ft.Array = tokens.astype(ft.int64)
    return numbers
