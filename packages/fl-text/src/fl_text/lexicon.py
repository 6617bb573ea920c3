"""``Lexicon``: words and their spellings in tokens."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fl_tensor.annotations import checked
from fl_text.corpus import TextFiles, write_text
from fl_text.dictionary import Dictionary
from fl_text.errors import TextError, TextFileError
from fl_text.replabels import pack_replabels
from fl_text.words import is_word, split_words

UNKNOWN = "<unk>"
"""The word of a lexicon and of its dictionary that stands for all others."""


class Lexicon(Mapping[str, list[list[str]]]):
    """A mapping of words to lists of spellings, each a list of tokens, in the order of a file.

    `load_words` reads one. A word may have no spelling, as `<unk>` has. Raises `TextError` for a
    spelling that a word has already, and for one without tokens.
    """

    def __init__(self, words: Mapping[str, Iterable[Sequence[str]]] | None = None) -> None:
        self._words: dict[str, dict[tuple[str, ...], None]] = {}
        for word, spellings in (words or {}).items():
            self.add(word)
            for spelling in spellings:
                self.add(word, spelling)

    def add(self, word: str, spelling: Sequence[str] | None = None) -> None:
        """Add a word, or a spelling of it after those that it has."""
        known = self._words.get(word, {})
        if spelling is not None:
            if isinstance(spelling, str) or not len(spelling):
                raise TextError(f"[Lexicon] {spelling!r} of {word!r} is no list of tokens")
            tokens = tuple(spelling)
            if tokens in known:
                raise TextError(f"[Lexicon] {word!r} has the spelling {' '.join(tokens)} already")
            known[tokens] = None
        self._words[word] = known

    def indices(self, tokens: Dictionary, max_reps: int = 0) -> Iterator[tuple[str, list[int]]]:
        """Each word with each of its spellings as numbers of `tokens`, packed by `pack_replabels`.

        Raises `TextError` naming the word for a token that `tokens` does not know.
        """
        for word, spellings in self._words.items():
            for spelling in spellings:
                try:
                    numbers = tokens.map_entries_to_indices(spelling)
                except TextError as error:
                    raise TextError(
                        f"[Lexicon] the word {word!r}, spelled {' '.join(spelling)}: {error}"
                    ) from error
                yield word, pack_replabels(numbers, tokens, max_reps)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file for `load_words`, replacing one of that name once it is complete. Words
        without spelling are left out. Raises `TextError` for words and tokens with white space."""
        lines = []
        for word, spellings in self._words.items():
            for spelling in spellings:
                if not all(map(is_word, (word, *spelling))):
                    raise TextError(
                        f"[Lexicon] {word!r}, spelled {list(spelling)}: white space and empty "
                        "tokens cannot be written: replace them"
                    )
                lines.append(f"{word} {' '.join(spelling)}\n")
        write_text(path, "".join(lines))

    def __getitem__(self, word: str) -> list[list[str]]:
        return [list(spelling) for spelling in self._words[word]]

    def __contains__(self, word: object) -> bool:
        return word in self._words

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    def __len__(self) -> int:
        return len(self._words)

    def __repr__(self) -> str:
        return f"Lexicon({len(self)} words, {sum(map(len, self._words.values()))} spellings)"


@checked
def load_words(path: str | os.PathLike[str], max_words: int = -1) -> Lexicon:
    """Read a lexicon: a line `word token token ...` for each spelling. `<unk>` is added, and has
    no spelling even if the file gives one.

    Reading ends with the line that brings word number `max_words`; -1 reads all. Raises
    `TextFileError` with file and line for a line of less than two fields, for a spelling that the
    word has already, and as `TextFiles` does.
    """
    lexicon = Lexicon()
    for number, line in enumerate(TextFiles(path), 1):
        if len(lexicon) == max_words:
            break
        word, *spelling = split_words(line) or [""]
        if not spelling:
            found = f"only the word {word!r}" if word else "nothing"
            raise TextFileError(
                path, f"line {number} has {found}", "write a word and the tokens of its spelling"
            )
        try:
            lexicon.add(word, spelling)
        except TextError as error:
            raise TextFileError(path, f"line {number}: {error}", "remove the line") from error
    lexicon._words[UNKNOWN] = {}
    return lexicon


def create_word_dict(lexicon: Mapping[str, object]) -> Dictionary:
    """The words of a lexicon in order; `<unk>` is the default of words that are not in it.

    Raises `TextError` for a lexicon without `<unk>`.
    """
    if UNKNOWN not in lexicon:
        raise TextError(
            f"[create_word_dict] the lexicon has no {UNKNOWN}: load_words adds it, and "
            f"add({UNKNOWN!r}) does"
        )
    words = Dictionary(lexicon)
    words.set_default_index(words.get_index(UNKNOWN))
    return words


def split_word(word: str | bytes) -> list[str]:
    """The characters (code points) of a word, or of its UTF-8 bytes; raises `TextError` for what is
    no UTF-8."""
    try:
        return list(word.decode() if isinstance(word, bytes) else word.encode().decode())
    except UnicodeError as error:
        raise TextError(f"[split_word] {word!r} is no UTF-8: {error}") from error
