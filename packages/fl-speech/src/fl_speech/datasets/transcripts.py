"""From token numbers back to tokens and words: targets, and what a recogniser gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, SupportsIndex

from fl_speech.datasets.targets import EOS, TargetOptions
from fl_speech.errors import SpeechDataError
from fl_tensor.annotations import Checked, checked
from fl_text import Dictionary, unpack_replabels

BLANK = "#"
"""The token of CTC's blank."""

Decoding = Literal["ctc", "asg", "seq2seq"]


class Transcript(NamedTuple):
    """Tokens and words of a target or prediction."""

    tokens: list[str]
    words: list[str]

    @property
    def text(self) -> str:
        return " ".join(self.words)


class TranscriptReader(Checked):
    """Reads token numbers of targets and of predictions, as `TargetGenerator` made them.

    `decoding` is that of the criterion. `"ctc"`: equal neighbours of a prediction are one token,
    and `blank`, a token or its number, is none; by default it is `#`, or without such a token the
    number after the last. `"asg"`: equal neighbours are one. `"seq2seq"`: `</s>` ends a prediction.
    With `letters`, tokens of several characters (word pieces) are split into characters.

    Raises `SpeechDataError` for a number outside the dictionary.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        options: TargetOptions | None = None,
        decoding: Decoding = "ctc",
        *,
        blank: str | int | None = None,
        letters: bool = False,
    ) -> None:
        self.dictionary, self.options = dictionary, options or TargetOptions()
        self.decoding, self.letters = decoding, letters
        self.blank: int | None = None
        if decoding == "ctc":
            self.blank = _blank(dictionary, blank)

    def target(self, numbers: Iterable[SupportsIndex]) -> Transcript:
        """What a target says. Padding (-1) ends it."""
        return self._transcript(_until(list(_integers(numbers)), -1))

    def prediction(self, numbers: Iterable[SupportsIndex]) -> Transcript:
        """What a path says: a class per frame, or the tokens of a sequence to sequence model."""
        path = list(_integers(numbers))
        if self.decoding != "seq2seq":
            path = collapse(path, self.blank)
        return self._transcript(path)

    def _transcript(self, numbers: list[int]) -> Transcript:
        if self.options.eos and EOS in self.dictionary:
            numbers = _until(numbers, self.dictionary.get_index(EOS))
        size = self.dictionary.index_size()
        for place, number in enumerate(numbers):
            if not 0 <= number < size:
                raise SpeechDataError(
                    f"token {place} is {number}, and {self.dictionary!r} has 0 .. {size - 1}",
                    "use the dictionary that the model was trained with",
                )
        unpacked = unpack_replabels(numbers, self.dictionary, self.options.replabels)
        tokens = self.dictionary.map_indices_to_entries(unpacked)
        surround = self.options.surround
        if surround:
            tokens = tokens[tokens[:1] == [surround] :]
            tokens = tokens[: len(tokens) - (tokens[-1:] == [surround])]
        if self.letters:
            tokens = [letter for token in tokens for letter in token]
        return Transcript(tokens, words_of(tokens, self.options.separator))


@checked
def collapse(path: Sequence[int], blank: int | None = None) -> list[int]:
    """`path` with equal neighbours as one, and then without `blank`: Graves et al., "Connectionist
    temporal classification", 2006, the map B of section 3."""
    kept: list[int] = []
    before: int | None = None
    for number in path:
        if number != before and number != blank:
            kept.append(number)
        before = number
    return kept


@checked
def words_of(tokens: Sequence[str], separator: str = "|") -> list[str]:
    """The words of tokens, which are cut at `separator`, wherever it stands in them; each token is
    a word where it is ""."""
    if not separator:
        return list(tokens)
    return [word for word in "".join(tokens).split(separator) if word]


def _blank(dictionary: Dictionary, blank: str | int | None) -> int:
    if isinstance(blank, str):
        if blank not in dictionary:
            raise SpeechDataError(
                f"the blank {blank!r} is not in {dictionary!r}", "add it, or give its number"
            )
        return dictionary.get_index(blank)
    if blank is None:
        size = dictionary.index_size()
        return dictionary.get_index(BLANK) if BLANK in dictionary else size
    if isinstance(blank, bool) or blank < 0:
        raise SpeechDataError(f"blank {blank!r} is no class", "give a number of at least 0")
    return blank


def _integers(numbers: Any) -> Iterable[int]:
    if hasattr(numbers, "tolist"):
        numbers = numbers.tolist()
    if not isinstance(numbers, Iterable) or isinstance(numbers, str | bytes):
        raise SpeechDataError(f"{numbers!r} has no token numbers", "give one axis of integers")
    for number in numbers:
        if isinstance(number, bool) or not hasattr(number, "__index__"):
            raise SpeechDataError(f"{number!r} is no token number", "give one axis of integers")
        yield number.__index__()


def _until(numbers: list[int], end: int) -> list[int]:
    return numbers[: numbers.index(end)] if end in numbers else numbers
