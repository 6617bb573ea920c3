"""``TargetGenerator``: words as the token numbers that a criterion learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import fl_tensor as ft
from fl_speech.errors import SpeechDataError
from fl_tensor.annotations import Checked, explained
from fl_text import Dictionary, Lexicon, pack_replabels, split_word

EOS = "</s>"
"""The token at the end of targets of sequence to sequence criteria."""

Unknown = Literal["error", "skip", "left", "right"]


@dataclass(frozen=True)
class TargetOptions(Checked):
    """How words become tokens; the defaults are those of the original.

    separator   the token between words
    sample      how often one of several spellings of a word is drawn; else it is the first
    unknown     what becomes of words without spelling: an error, nothing ("skip"), or their letters
                with the separator before ("left") or after them ("right")
    surround    a token at both ends of a target, "" for none
    eos         whether `</s>` ends a target, as sequence to sequence criteria need it
    replabels   repetitions of a token, up to so many, become one label: `fl_text.pack_replabels`
    """

    separator: str = "|"
    sample: float = 0.0
    unknown: Unknown = "error"
    surround: str = ""
    eos: bool = False
    replabels: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.sample <= 1:
            raise SpeechDataError(f"sample {self.sample} is no probability", "give one in 0 .. 1")
        if self.replabels < 0:
            raise SpeechDataError(f"replabels {self.replabels} is negative", "give 0 or more")


class TargetGenerator(Checked):
    """`generator(words)`: the token numbers of words, a list of ints.

    Words are spelled by `lexicon`; without one, all of them by their letters, with the separator
    where `options.unknown` says ("right" unless it is "left").

    Raises `SpeechDataError` for tokens of options that the dictionary does not have, and when it is
    called for words without spelling and for tokens outside the dictionary. `fl_text.TextError`
    where `replabels` needs labels that are missing.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        lexicon: Lexicon | None = None,
        options: TargetOptions | None = None,
    ) -> None:
        self.dictionary, self.lexicon = dictionary, lexicon
        self.options = options or TargetOptions()
        needed = [("surround", self.options.surround), ("eos", EOS if self.options.eos else "")]
        if self.options.unknown in ("left", "right") or lexicon is None:
            needed.append(("separator", self.options.separator))
        for name, token in needed:
            if token and token not in dictionary:
                raise SpeechDataError(
                    f"the token {token!r} of {name} is not in {dictionary!r}",
                    f"add it to the dictionary, or give another {name}",
                )
        pack_replabels([0], dictionary, self.options.replabels)  # raises where labels are missing

    @explained
    def __call__(self, words: Sequence[str], generator: ft.Generator | None = None) -> list[int]:
        """The tokens of `words`. `generator` draws spellings, which `options.sample` asks for;
        without it the first spelling is taken."""
        if isinstance(words, str):
            raise SpeechDataError(f"words {words!r} are one text", "give a list of words")
        tokens: list[str] = []
        for word in words:
            tokens += self._spelled(word, generator)
        if self.options.surround:
            tokens = [self.options.surround, *tokens, self.options.surround]
        numbers = pack_replabels(
            [self._number(token) for token in tokens], self.dictionary, self.options.replabels
        )
        return [*numbers, self.dictionary.get_index(EOS)] if self.options.eos else numbers

    def _spelled(self, word: str, generator: ft.Generator | None) -> list[str]:
        spellings = [] if self.lexicon is None else self.lexicon.get(word, [])
        if len(spellings) > 1 and self.options.sample and generator is not None:
            if _uniform(generator) < self.options.sample:
                return spellings[min(int(_uniform(generator) * len(spellings)), len(spellings) - 1)]
        if spellings:
            return spellings[0]
        unknown, separator = self.options.unknown, self.options.separator
        if unknown == "left":
            return [separator, *split_word(word)] if separator else split_word(word)
        if unknown == "right" or self.lexicon is None:
            return [*split_word(word), separator] if separator else split_word(word)
        if unknown == "skip":
            return []
        raise SpeechDataError(
            f"the word {word!r} has no spelling in {self.lexicon!r}",
            "add it to the lexicon, or choose TargetOptions(unknown='right') or 'skip'",
        )

    def _number(self, token: str) -> int:
        if token in self.dictionary or self.dictionary.default_index is not None:
            return self.dictionary.get_index(token)
        raise SpeechDataError(
            f"the token {token!r} is not in {self.dictionary!r}",
            "add it to the dictionary, or spell the word without it in the lexicon",
        )

    def __repr__(self) -> str:
        return f"TargetGenerator({self.dictionary!r}, {self.lexicon!r}, {self.options})"


def _uniform(generator: ft.Generator) -> float:
    return float(generator.uniform(()).item())
