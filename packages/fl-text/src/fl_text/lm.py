"""Datasets for language models: tokens, and the tokens that follow them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import fl_tensor as ft
from fl_data import DataError, Dataset, Sample, check_index, check_indices
from fl_tensor.annotations import explained
from fl_text.corpus import as_texts
from fl_text.encoder import TextEncoder
from fl_text.errors import TextError


class TokenStream(Dataset):
    """One stream of tokens, cut into samples `(input, target)`, int64 `(context,)` each.

    Sample `i` is tokens `i * context .. (i + 1) * context - 1`, and its target the same stretch one
    later, so every token but the first is predicted once. What is left at the end, less than
    `context` tokens, is not used. Raises `DataError` for a stream shorter than `context + 1`.
    """

    def __init__(self, tokens: Any, context: int) -> None:
        _check_context(context)
        if not isinstance(tokens, ft.Array):
            tokens = ft.asarray(tokens, dtype=ft.int64)
        if tokens.ndim != 1 or not tokens.dtype.is_integer:
            raise DataError(
                f"[TokenStream] tokens {tokens.shape} of {tokens.dtype}: "
                "expected one axis of integers"
            )
        if tokens.shape[0] < context + 1:
            raise DataError(
                f"[TokenStream] {tokens.shape[0]} tokens do not fill one sample: "
                f"context={context} needs {context + 1}"
            )
        self.tokens = tokens.astype(ft.int64)
        self.context = context
        self._length = (tokens.shape[0] - 1) // context

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Sample:
        start = check_index(index, self._length, "TokenStream") * self.context
        stretch = self.tokens[start : start + self.context + 1]
        return stretch[:-1], stretch[1:]

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        rows = check_indices(indices, self._length, "TokenStream")
        places = array("q")
        for row in rows:
            places.extend(range(row * self.context, (row + 1) * self.context + 1))
        return _gather(self.tokens, places, len(rows), self.context)

    def __repr__(self) -> str:
        return f"TokenStream({self.tokens.shape[0]} tokens, context={self.context})"


class TokenLines(Dataset):
    """Short texts of tokens, one for each sample `(input, target)`, int64 `(context,)` each.

    The target is the text one later; both are padded at the end, `input` with `pad` and `target`
    with `target_pad` (default `pad`; the number that the loss ignores). A text with more than
    `context + 1` tokens is cut, and counted in `truncated`; one with less than 2 is an error.
    """

    def __init__(
        self,
        texts: Iterable[Sequence[int]],
        context: int,
        pad: int,
        target_pad: int | None = None,
    ) -> None:
        _check_context(context)
        if pad < 0:
            raise DataError(f"[TokenLines] pad {pad}: give the number of a token")
        self.context = context
        self.truncated = 0
        flat, self._starts = array("q"), array("q", [0])
        for number, tokens in enumerate(texts):
            if len(tokens) < 2:
                raise DataError(
                    f"[TokenLines] text {number} has {len(tokens)} tokens: two are the least from "
                    "which one can be predicted; add an end token, or leave it out"
                )
            self.truncated += len(tokens) > context + 1
            flat.extend(tokens[: context + 1])
            self._starts.append(len(flat))
        self._pad_place = len(flat)
        flat.extend((pad, pad if target_pad is None else target_pad))
        self._tokens = ft.asarray(flat, dtype=ft.int64)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, index: int) -> Sample:
        row = check_index(index, len(self), "TokenLines")
        inputs, targets = self._rows([row])
        return inputs[0], targets[0]

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        return self._rows(check_indices(indices, len(self), "TokenLines"))

    def _rows(self, rows: Sequence[int]) -> tuple[Any, Any]:
        inputs, targets = array("q"), array("q")
        for row in rows:
            start, stop = self._starts[row], self._starts[row + 1]
            missing = self.context + 1 - (stop - start)
            inputs.extend(range(start, stop - 1))
            inputs.extend([self._pad_place] * missing)
            targets.extend(range(start + 1, stop))
            targets.extend([self._pad_place + 1] * missing)
        shape = (len(rows), self.context)
        kind = (ft.int64, self._tokens.device, self._tokens.backend)
        places = [ft.asarray(values, *kind).reshape(shape) for values in (inputs, targets)]
        return ft.gather(self._tokens, places[0]), ft.gather(self._tokens, places[1])

    def __repr__(self) -> str:
        return f"TokenLines({len(self)} texts, context={self.context})"


@explained
def lm_dataset(
    texts: Iterable[str],
    tokenizer: TextEncoder,
    context: int,
    mode: Literal["pack", "line"] = "pack",
    *,
    eos: bool = False,
    target_pad: int | None = None,
) -> TokenStream | TokenLines:
    """A dataset of `(input, target)` out of `texts` (`TextFiles(path)` for files, `PartialFile` for
    the part of a rank). `tokenizer` is a `Tokenizer` or another `TextEncoder`.

    "pack": all texts as one stream, with the end token after each if `eos`; no padding.
    "line": one sample for each text that is not blank, without its line break, from the beginning
    token (the end token where there is none) to the end token, padded to `context`.
    """
    if not isinstance(tokenizer, TextEncoder):
        raise TextError(
            f"[lm_dataset] tokenizer {tokenizer!r:.50} is no TextEncoder: give a Tokenizer, or the "
            "WordEncoder of a Dictionary"
        )
    if mode == "pack":
        _check_context(context)
        stream = array("q")
        for ids in tokenizer.encode_corpus(texts, eos=eos):
            stream.extend(ids)
        return TokenStream(stream, context)
    if mode != "line":
        raise TextError(f"[lm_dataset] unknown mode {mode!r}: use 'pack' or 'line'")
    first = tokenizer.need("eos") if tokenizer.bos_id is None else tokenizer.bos_id
    stripped = (text.rstrip("\r\n") for text in as_texts(texts, "lm_dataset") if text.strip())
    lines = ([first, *ids] for ids in tokenizer.encode_corpus(stripped, eos=True))
    dataset = TokenLines(lines, context, tokenizer.need("pad"), target_pad)
    if len(dataset) == 0:
        raise TextError("[lm_dataset] every text is blank")
    return dataset


def _check_context(context: int) -> None:
    if isinstance(context, bool) or not isinstance(context, int) or context < 1:
        raise DataError(f"[lm] context must be an integer of at least 1, got {context!r}")


def _gather(tokens: Any, places: array[int], rows: int, context: int) -> Sample:
    """`(rows, context)` inputs and targets out of places `(rows, context + 1)`: one gather."""
    numbers = ft.asarray(places, ft.int64, tokens.device, tokens.backend)
    stretches = ft.gather(tokens, numbers.reshape(rows, context + 1))
    return stretches[:, :-1], stretches[:, 1:]
