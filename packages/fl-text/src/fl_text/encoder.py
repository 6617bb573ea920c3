"""``TextEncoder``: what turns text into token numbers and back; two that use a ``Dictionary``."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import fl_tensor as ft
from fl_tensor.annotations import checked
from fl_text.corpus import as_texts
from fl_text.dictionary import Dictionary
from fl_text.errors import TextError
from fl_text.lexicon import Lexicon
from fl_text.replabels import pack_replabels, unpack_replabels
from fl_text.special import SpecialTokens
from fl_text.words import split_words


@runtime_checkable
class TextEncoder(Protocol):
    """Text to token numbers 0 .. `len(encoder) - 1` and back, as `lm_dataset` uses it.

    `Tokenizer`, `WordEncoder` and `SpellingEncoder` are encoders. `bos_id` is the number of the
    token before a text, None without one. An encoder whose tokens are to be kept in files also has
    a method `fingerprint() -> str`, of 32 hexadecimal digits.
    """

    bos_id: int | None

    def __len__(self) -> int: ...

    def need(self, role: str) -> int:
        """The number of the special token "pad", "unk", "bos", "eos" or "mask", or `TextError`."""

    def encode(self, text: str, *, bos: bool = False, eos: bool = False) -> list[int]:
        """The token numbers of a text; with `bos` / `eos` between those."""

    def encode_corpus(
        self, texts: Iterable[str], *, bos: bool = False, eos: bool = False
    ) -> Iterator[list[int]]:
        """The token numbers of each text, one after another."""

    def decode(self, ids: Sequence[int] | ft.Array, *, skip_special: bool = True) -> str:
        """The text of token numbers, without special tokens."""


class DictionaryEncoder(ABC):
    """Base of encoders whose tokens are those of a `Dictionary`; derived classes say how a text
    becomes tokens."""

    def __init__(self, tokens: Dictionary, special: SpecialTokens | None = None) -> None:
        if not tokens.is_contiguous():
            raise TextError(f"[{type(self).__name__}] the numbers of {tokens!r} have gaps")
        self.tokens = tokens
        self.special = special = special or SpecialTokens()
        self.pad_id = self._found(special.pad)
        self.bos_id = self._found(special.bos)
        self.eos_id = self._found(special.eos)
        self.mask_id = self._found(special.mask)
        own, default = self._found(special.unk), tokens.default_index
        self.unk_id = own if default is None else default
        self._special_ids = {self._found(name) for name in special.names()}

    def _found(self, token: str | None) -> int | None:
        return self.tokens.get_index(token) if token in self.tokens and token else None

    def need(self, role: str) -> int:
        """The number of the special token "pad", "unk", "bos", "eos" or "mask"; raises `TextError`
        if the dictionary has none."""
        number: int | None = getattr(self, f"{role}_id")
        if number is None:
            raise TextError(
                f"[{type(self).__name__}] the dictionary has no {role} token (spelling "
                f"{getattr(self.special, role)!r}): add it, or name another with "
                f"SpecialTokens({role}=...)"
            )
        return number

    @abstractmethod
    def _encoded(self, text: str) -> list[int]:
        """The numbers of a text."""

    @abstractmethod
    def _decoded(self, ids: list[int]) -> str:
        """The text of numbers that the dictionary has."""

    def encode(self, text: str, *, bos: bool = False, eos: bool = False) -> list[int]:
        """The token numbers of a text; with `bos` / `eos` between those."""
        return next(self.encode_corpus([text], bos=bos, eos=eos))

    def encode_corpus(
        self, texts: Iterable[str], *, bos: bool = False, eos: bool = False
    ) -> Iterator[list[int]]:
        """The token numbers of each text, one after another."""
        before = [self.need("bos")] if bos else []
        after = [self.need("eos")] if eos else []
        for text in as_texts(texts, "encode"):
            yield before + self._encoded(text) + after

    def decode(self, ids: Sequence[int] | ft.Array, *, skip_special: bool = True) -> str:
        """The text of token numbers (a list, or a 1-d integer tensor), without special tokens.

        Raises `TextError` for a number that the dictionary does not have.
        """
        numbers = as_numbers(ids, len(self))
        if skip_special:
            numbers = [number for number in numbers if number not in self._special_ids]
        return self._decoded(numbers)

    def fingerprint(self) -> str:
        """32 hexadecimal digits, which differ where a text may have other numbers."""
        tokens, names = self.tokens.entries(), self.special.names()
        return digest(type(self).__name__, tokens, self.unk_id, names, *self._rules())

    def _rules(self) -> list[Any]:
        """What else the numbers of a text depend on."""
        return []

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.tokens!r})"


class WordEncoder(DictionaryEncoder):
    """One token for each word of a text, by a dictionary of words.

    Unknown words get the default number of the dictionary, or that of the unknown token; without
    either they raise `TextError`. Decoding puts one space between words. A word of a text that is
    spelled like a special token is that token.
    """

    @checked
    def __init__(self, words: Dictionary, special: SpecialTokens | None = None) -> None:
        super().__init__(words, special)

    def _encoded(self, text: str) -> list[int]:
        return self.tokens.map_entries_to_indices(split_words(text), self.unk_id)

    def _decoded(self, ids: list[int]) -> str:
        return " ".join(self.tokens.map_indices_to_entries(ids))


class SpellingEncoder(DictionaryEncoder):
    """The tokens of the first spelling of each word of a text, by a lexicon, such as letters.

    `max_reps`: repeated tokens of a text become labels, as `pack_replabels` says. Decoding cuts at
    `separator`, which is at the end of the last token of each word or at the beginning of the first
    one. What is no spelling of a word is joined. Words that have no spelling are spelled by their
    letters and the separator if `letters`, and otherwise raise `TextError`.
    """

    @checked
    def __init__(
        self,
        lexicon: Lexicon,
        tokens: Dictionary,
        max_reps: int = 0,
        separator: str = "|",
        letters: bool = False,
        special: SpecialTokens | None = None,
    ) -> None:
        super().__init__(tokens, special)
        pack_replabels([0], tokens, max_reps)  # raises where labels are missing
        self.lexicon, self.max_reps, self.separator = lexicon, max_reps, separator
        self.letters = letters
        self._numbers: dict[str, list[int]] = {}
        for word, numbers in lexicon.indices(tokens):
            self._numbers.setdefault(word, numbers)
        self._words: dict[tuple[str, ...], str] = {}
        for word, spellings in lexicon.items():
            for spelling in spellings:
                self._words.setdefault(tuple(spelling), word)

    def _rules(self) -> list[Any]:
        return [list(self._numbers.items()), self.max_reps, self.separator, self.letters]

    def _encoded(self, text: str) -> list[int]:
        numbers: list[int] = []
        for word in split_words(text):
            numbers += self._numbers.get(word) or self._spelled(word)
        return pack_replabels(numbers, self.tokens, self.max_reps)

    def _spelled(self, word: str) -> list[int]:
        if not self.letters:
            raise TextError(
                f"[SpellingEncoder] the word {word!r} has no spelling in {self.lexicon!r}: add "
                "one, or set letters=True"
            )
        return self.tokens.map_entries_to_indices([*word, self.separator], self.unk_id)

    def _decoded(self, ids: list[int]) -> str:
        unpacked = unpack_replabels(ids, self.tokens, self.max_reps)
        words = []
        for spelling in self._split(self.tokens.map_indices_to_entries(unpacked)):
            joined = "".join(spelling).strip(self.separator or None)
            words.append(self._words.get(tuple(spelling), joined))
        return " ".join(word for word in words if word)

    def _split(self, tokens: Iterable[str]) -> Iterator[list[str]]:
        """The tokens of each word: one that ends with the separator is the last of a word, one that
        only begins with it the first."""
        word: list[str] = []
        for token in tokens:
            last = bool(self.separator) and token.endswith(self.separator)
            if self.separator and not last and token.startswith(self.separator):
                yield word
                word = []
            word.append(token)
            if last:
                yield word
                word = []
        yield word


def as_numbers(ids: Sequence[int] | ft.Array, size: int) -> list[int]:
    """Token numbers as a list; raises `TextError` unless they are integers in 0 .. `size - 1`."""
    values: Any = ids
    if isinstance(ids, ft.Array):
        if ids.ndim != 1 or not ids.dtype.is_integer:
            raise TextError(
                f"[decode] ids {ids.shape} of {ids.dtype}: expected one axis of integers; "
                "decode a batch row by row"
            )
        values = ids.tolist()
    for place, number in enumerate(values):
        if isinstance(number, bool) or not isinstance(number, int):
            raise TextError(f"[decode] ids[{place}] is {number!r}: expected an integer")
        if not 0 <= number < size:
            raise TextError(
                f"[decode] ids[{place}] is {number}, the vocabulary has 0 .. {size - 1}"
            )
    return list(values)


def check_encoder(encoder: object, where: str) -> None:
    """Raises `TextError` for what is no `TextEncoder`."""
    if not isinstance(encoder, TextEncoder) or isinstance(encoder, type):
        raise TextError(
            f"[{where}] tokenizer {encoder!r:.50} is no TextEncoder: give a Tokenizer, or the "
            "WordEncoder of a Dictionary"
        )


def digest(*parts: Any) -> str:
    """A fingerprint of values that JSON can say."""
    text = json.dumps(parts, sort_keys=True).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def fingerprint_of(encoder: TextEncoder) -> str:
    """The fingerprint of an encoder; raises `TextError` for one that gives none."""
    give = getattr(encoder, "fingerprint", None)
    found = give() if callable(give) else None
    if not isinstance(found, str) or len(found) != 32 or set(found) - set("0123456789abcdef"):
        raise TextError(
            f"[TokenFile] {type(encoder).__name__} gives no fingerprint: add a method "
            "fingerprint() -> str of 32 hexadecimal digits, which differ where numbers may differ"
        )
    return found
