"""``TokenChunks``: a stream of contexts out of a stream of texts."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import fl_tensor as ft
from fl_data import DataError, Sample, Stream
from fl_text.datasets.documents import check_context
from fl_text.encoder import TextEncoder, check_encoder
from fl_text.errors import TextError

#: So many texts are encoded at once.
_GROUP = 64


class TokenChunks(Stream):
    """The texts of a stream (`TextShards`, or another whose samples are `(text,)`) as one stream of
    tokens, cut into samples `(input, target)`, int64 `(context,)` each, as `TokenStream` does.

    `bos` and `eos`: the beginning token before, the end token behind each text. What is left at the
    end of a pass, less than `context` tokens, is not used. A resume reads the text again in which
    the next sample begins, and gives exactly that sample. At most 64 texts are read ahead.
    """

    def __init__(
        self,
        texts: Stream,
        tokenizer: TextEncoder,
        context: int,
        *,
        bos: bool = False,
        eos: bool = True,
    ) -> None:
        check_context(context, "TokenChunks")
        check_encoder(tokenizer, "TokenChunks")
        for role in ["bos"] * bos + ["eos"] * eos:
            tokenizer.need(role)
        self._texts, self._tokenizer = texts, tokenizer
        self._context = context
        self._ends = {"bos": bos, "eos": eos}
        self._epoch = texts.epoch

    @property
    def sources(self) -> tuple[Stream, ...]:
        return (self._texts,)

    def read(self, place: Any = None) -> Generator[tuple[Sample, Any], None, None]:
        """Place: that of the text in which the next sample begins, and how many tokens of the text
        are before it."""
        below, passed = (None, 0) if place is None else _position(place)
        tokens = array("q")
        #: Texts of which ``tokens`` has some: their places, and where they begin in ``tokens``.
        texts: deque[tuple[Any, int]] = deque()
        with closing(self._texts.read(below)) as samples:
            for before, ids in self._encoded(samples, below):
                if passed > len(ids):
                    raise DataError(
                        f"[TokenChunks] the state is behind token {passed} of a text that has "
                        f"{len(ids)}: use the corpus and tokenizer of the time of the state"
                    )
                texts.append((before, len(tokens) - passed))
                tokens.extend(ids[passed:])
                passed = 0
                while len(tokens) > self._context:
                    stretch = ft.asarray(tokens[: self._context + 1], ft.int64)
                    while len(texts) > 1 and texts[1][1] <= self._context:
                        texts.popleft()
                    del tokens[: self._context]
                    texts = deque((at, start - self._context) for at, start in texts)
                    yield (stretch[:-1], stretch[1:]), [texts[0][0], -texts[0][1]]

    def _encoded(self, samples: Iterator[Any], place: Any) -> Iterator[tuple[Any, list[int]]]:
        """The place before each text, and its tokens."""
        while group := list(islice(samples, _GROUP)):
            texts = [_text(sample) for sample, _ in group]
            encoded = self._tokenizer.encode_corpus(texts, **self._ends)
            for (_, behind), ids in zip(group, encoded, strict=True):
                yield place, ids
                place = behind

    def __repr__(self) -> str:
        return f"TokenChunks({self._texts!r}, context={self._context})"


def _text(sample: Any) -> str:
    if isinstance(sample, tuple) and sample and isinstance(sample[0], str):
        return sample[0]
    raise TextError(
        f"[TokenChunks] a sample is {sample!r:.60}, not (text,): choose the field with "
        "stream.map(lambda sample: (sample[...],))"
    )


def _position(place: Any) -> tuple[Any, int]:
    if isinstance(place, list | tuple) and len(place) == 2:
        below, passed = place
        if type(passed) is int and passed >= 0:
            return below, passed
    raise DataError(
        f"[TokenChunks] {place!r:.60} is no place of such a stream: build the stream as it was "
        "when the state was taken"
    )
