"""Building and training a tokenizer of the underlying library."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from fl_text.corpus import as_texts
from fl_text.errors import TextError
from fl_text.parallel import many_threads
from fl_text.special import SpecialTokens

if TYPE_CHECKING:
    import tokenizers

Kind = Literal["bpe", "wordpiece", "char", "word"]

_MAY_BE_PATHS = 100
"""How many texts are compared with the names of files: who gives paths gives few texts."""


def train(
    texts: Iterable[str],
    kind: Kind,
    vocab_size: int,
    min_frequency: int,
    special: SpecialTokens,
    lowercase: bool,
) -> tokenizers.Tokenizer:
    """A trained tokenizer; special tokens come first in its vocabulary. See `Tokenizer.train`."""
    import tokenizers

    builders = {"bpe": _bpe, "wordpiece": _wordpiece, "char": _char, "word": _word}
    if kind not in builders:
        raise TextError(f"[train] unknown kind {kind!r}: use one of {tuple(builders)}")
    if special.unk is None and kind != "bpe":
        raise TextError(f"[train] a {kind} tokenizer needs an unk token")
    least = len(special.names()) + (256 if kind == "bpe" else 1)
    if vocab_size < least:
        raise TextError(f"[train] vocab_size {vocab_size} must be at least {least} for {kind}")
    if min_frequency < 1:
        raise TextError(f"[train] min_frequency {min_frequency} must be at least 1")
    tokenizer, trainer = builders[kind](vocab_size, min_frequency, special)
    if lowercase:
        tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    counted = _Counted(texts)
    with many_threads():
        tokenizer.train_from_iterator(counted, trainer)
    if counted.characters == 0:
        raise TextError("[train] the texts are empty: there is nothing to learn from")
    if counted.file is not None:
        warnings.warn(
            f"[train] the text {counted.file!r} is the name of a file, and the name was learnt, "
            "not the file: give TextFiles(path) to learn from its lines",
            stacklevel=3,
        )
    return tokenizer


class _Counted:
    """The texts, how many characters went by, and the first text that is the name of a file."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = as_texts(texts, "train")
        self.characters = 0
        self.file: str | None = None

    def __iter__(self) -> Iterator[str]:
        for number, text in enumerate(self._texts):
            self.characters += len(text)
            if number < _MAY_BE_PATHS and self.file is None and _is_file(text):
                self.file = text
            yield text


def _is_file(text: str) -> bool:
    try:
        return os.path.isfile(text)
    except ValueError:  # half of a surrogate pair, or a zero
        return False


def _bpe(size: int, frequency: int, special: SpecialTokens) -> tuple[tokenizers.Tokenizer, Any]:
    """Byte pairs over all 256 bytes: every text can be encoded, and decodes to itself."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=frequency,
        special_tokens=special.names(),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    return tokenizer, trainer


def _wordpiece(
    size: int, frequency: int, special: SpecialTokens
) -> tuple[tokenizers.Tokenizer, Any]:
    """Words and their pieces; white space only separates and is not kept."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token=special.unk))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=frequency,
        special_tokens=special.names(),
        show_progress=False,
    )
    return tokenizer, trainer


def _char(size: int, frequency: int, special: SpecialTokens) -> tuple[tokenizers.Tokenizer, Any]:
    """One token for each character (code point) seen."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordLevel(unk_token=special.unk))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    trainer = trainers.WordLevelTrainer(
        vocab_size=size,
        min_frequency=frequency,
        special_tokens=special.names(),
        show_progress=False,
    )
    return tokenizer, trainer


def _word(size: int, frequency: int, special: SpecialTokens) -> tuple[tokenizers.Tokenizer, Any]:
    """One token for each word between white space, numbered by falling frequency."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordLevel(unk_token=special.unk))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordLevelTrainer(
        vocab_size=size,
        min_frequency=frequency,
        special_tokens=special.names(),
        show_progress=False,
    )
    return tokenizer, trainer
