"""Results of generation: a continuation, and one token of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

#: Why a text ended: a token of `eos`, a string of `stop`, or `max_new_tokens`.
Finish: TypeAlias = Literal["eos", "stop", "length"]


@dataclass(frozen=True)
class Piece:
    """The next token of a row.

    text    what is certain of the text now and was not before: complete characters, which no stop
            string can begin with; "" without a tokenizer
    finish  why the row ends with this token, or None
    """

    row: int
    token: int
    text: str
    finish: Finish | None = None


@dataclass(frozen=True)
class Generation:
    """A generated continuation.

    tokens  the new tokens, a final one of `eos` included
    text    their text, without that of `eos` and without the stop string and what follows it; ""
            without a tokenizer
    score   beam search: the sum of log probabilities over count ** length_penalty; otherwise None
    """

    tokens: list[int]
    text: str
    finish: Finish
    score: float | None = None
