"""``Tokenizer``: text to token numbers and back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import fl_tensor as ft
from fl_tensor.annotations import checked
from fl_tensor.files import open_regular, replacing
from fl_text import tokenizer_training
from fl_text.corpus import as_texts
from fl_text.encoder import as_numbers, digest
from fl_text.errors import TextError, TextFileError
from fl_text.parallel import many_threads, settle
from fl_text.special import FOREIGN, SpecialTokens

if TYPE_CHECKING:
    import tokenizers

MAX_FILE = 1 << 28
"""The largest tokenizer.json that `Tokenizer.load` reads unless told otherwise: 256 MiB."""


class Tokenizer:
    """A vocabulary of `len(tokenizer)` tokens, numbered from 0.

    Made by `Tokenizer.train` or `Tokenizer.load`. The numbers of its special tokens are `pad_id`,
    `unk_id`, `bos_id`, `eos_id`, `mask_id`; `None` for one that it does not have. Text never
    becomes a special token: `"</s>"` in a text is encoded as the characters that it is.
    """

    def __init__(self, inner: tokenizers.Tokenizer, special: SpecialTokens) -> None:
        settle()
        self._inner = inner
        self._inner.no_padding()
        self._inner.no_truncation()
        self._inner.encode_special_tokens = True
        self.special = special
        find = inner.token_to_id
        self.pad_id: int | None = find(special.pad) if special.pad else None
        self.unk_id: int | None = find(special.unk) if special.unk else None
        self.bos_id: int | None = find(special.bos) if special.bos else None
        self.eos_id: int | None = find(special.eos) if special.eos else None
        self.mask_id: int | None = find(special.mask) if special.mask else None
        self._size: int = inner.get_vocab_size()

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        kind: tokenizer_training.Kind = "bpe",
        vocab_size: int = 8000,
        *,
        min_frequency: int = 2,
        special: SpecialTokens | None = None,
        lowercase: bool = False,
    ) -> Tokenizer:
        """Learn a vocabulary from `texts`: any iterable of str, `TextFiles(path)` for files.

        `kind`: "bpe" (byte pairs; lossless, knows every text), "wordpiece" (words and pieces; white
        space is not kept), "char" (one token per character), "word" (one per word between white
        space, by falling frequency). `vocab_size` is the most that it may have, special tokens (the
        first ones) included; pieces seen less than `min_frequency` times do not count. Raises
        `TextError` for empty texts and settings out of range. Warns where one of the first texts is
        the name of a file.
        """
        special = special or SpecialTokens()
        inner = tokenizer_training.train(texts, kind, vocab_size, min_frequency, special, lowercase)
        return cls(inner, special)

    @classmethod
    @checked
    def load(
        cls,
        path: str | os.PathLike[str],
        special: SpecialTokens | None = None,
        max_bytes: int = MAX_FILE,
    ) -> Tokenizer:
        """Read a `tokenizer.json`. `special` says how its special tokens are spelled; by default
        the spelling used here, BERT's and GPT-2's are tried.

        Raises `TextFileError` naming the file if it is missing, too large, or malformed.
        """
        import tokenizers

        text = _read(path, max_bytes)
        try:
            inner = tokenizers.Tokenizer.from_str(text)
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:  # a panic of the library is no Exception
            raise TextFileError(
                path, f"not a tokenizer file ({error})", "write it with Tokenizer.save"
            ) from error
        if inner.get_vocab_size() == 0:
            raise TextFileError(path, "its vocabulary is empty", "train the tokenizer again")
        return cls(inner, special or _spelling(inner))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `tokenizer.json`, replacing a file of that name once the new one is complete."""
        text = self._inner.to_str(pretty=True)
        try:
            with replacing(path) as file:
                file.write(text.encode())
        except OSError as error:
            raise TextFileError(path, str(error.strerror), "check its folder") from error

    def fingerprint(self) -> str:
        """32 hexadecimal digits, which differ where a text may have other numbers."""
        return digest(self._inner.to_str(), self.special.names())

    def __len__(self) -> int:
        return self._size

    def id(self, token: str) -> int:
        """The number of a token; raises `TextError` if there is none such."""
        number = self._inner.token_to_id(token)
        if number is None:
            raise TextError(f"[tokenizer] there is no token {token!r} among {self._size}")
        return number

    def token(self, number: int) -> str:
        """The token of a number, as the vocabulary spells it."""
        return self._inner.id_to_token(as_numbers([number], self._size)[0]) or ""

    def encode(self, text: str, *, bos: bool = False, eos: bool = False) -> list[int]:
        """The token numbers of `text`; with `bos` / `eos` between those."""
        return self.encode_lists([text], bos=bos, eos=eos)[0]

    def encode_lists(
        self, texts: Iterable[str], *, bos: bool = False, eos: bool = False
    ) -> list[list[int]]:
        """The token numbers of each text."""
        before = [self.need("bos")] if bos else []
        after = [self.need("eos")] if eos else []
        with _library_errors():
            found = self._inner.encode_batch_fast(
                list(as_texts(texts, "encode")), add_special_tokens=False
            )
        return [before + encoding.ids + after for encoding in found]

    def encode_batch(
        self,
        texts: Iterable[str],
        *,
        length: int | None = None,
        bos: bool = False,
        eos: bool = False,
    ) -> tuple[ft.Tensor, ft.Tensor]:
        """`(ids, lengths)`: int64 `(n, length)`, padded at the end with `pad_id`, and int64 `(n,)`.

        `length` defaults to the longest text's. Raises `TextError` if a text is longer than
        `length`, if there is no text, or if the tokenizer has no padding token.
        """
        rows = self.encode_lists(texts, bos=bos, eos=eos)
        if not rows:
            raise TextError("[encode_batch] no texts: a batch needs at least one")
        lengths = [len(row) for row in rows]
        width = max(lengths) if length is None else length
        if max(lengths) > width:
            raise TextError(
                f"[encode_batch] text {lengths.index(max(lengths))} has {max(lengths)} tokens, "
                f"more than length={width}: shorten it, or raise length"
            )
        pad = self.need("pad")
        padded = [row + [pad] * (width - len(row)) for row in rows]
        ids = ft.asarray(padded, dtype=ft.int64).reshape(len(rows), width)
        return ids, ft.asarray(lengths, dtype=ft.int64)

    def encode_corpus(
        self, texts: Iterable[str], *, bos: bool = False, eos: bool = False
    ) -> Iterator[list[int]]:
        """The token numbers of each text, one after another; encodes many at a time."""
        group: list[str] = []
        size = 0
        for text in as_texts(texts, "encode_corpus"):
            group.append(text)
            size += len(text)
            if size >= 1 << 20:
                yield from self._encode_group(group, bos, eos)
                group, size = [], 0
        if group:
            yield from self._encode_group(group, bos, eos)

    def _encode_group(self, group: list[str], bos: bool, eos: bool) -> list[list[int]]:
        with many_threads():
            return self.encode_lists(group, bos=bos, eos=eos)

    def decode(self, ids: Sequence[int] | ft.Array, *, skip_special: bool = True) -> str:
        """The text of token numbers (a list, or a 1-d integer tensor), without special tokens.

        Raises `TextError` for a number outside the vocabulary.
        """
        numbers = as_numbers(ids, self._size)
        with _library_errors():
            return self._inner.decode(numbers, skip_special_tokens=skip_special)

    def need(self, role: str) -> int:
        """The number of the special token "pad", "unk", "bos", "eos" or "mask"; raises `TextError`
        if there is none."""
        number: int | None = getattr(self, f"{role}_id")
        if number is None:
            raise TextError(
                f"[tokenizer] it has no {role} token (spelling {getattr(self.special, role)!r}): "
                f"name the token with SpecialTokens({role}=...)"
            )
        return number

    def __repr__(self) -> str:
        return f"Tokenizer({type(self._inner.model).__name__}, {self._size} tokens)"


def _spelling(inner: tokenizers.Tokenizer) -> SpecialTokens:
    """The known spelling of which most tokens are there."""
    vocabulary = inner.get_vocab()
    return max(FOREIGN, key=lambda special: sum(n in vocabulary for n in special.names()))


def _read(path: str | os.PathLike[str], max_bytes: int) -> str:
    try:
        with open_regular(path) as file:
            raw = file.read(max_bytes + 1)
    except OSError as error:
        raise TextFileError(path, f"unreadable ({error.strerror})", "check the path") from error
    if len(raw) > max_bytes:
        raise TextFileError(path, f"more than max_bytes={max_bytes}", "raise max_bytes")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TextFileError(
            path, "not a tokenizer file (it is not UTF-8)", "write it with Tokenizer.save"
        ) from error


@contextmanager
def _library_errors() -> Iterator[None]:
    """Whatever the library raises about texts or tokens, as our error."""
    try:
        yield
    except (TextError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a panic of the library is no Exception
        raise TextError(f"[tokenizer] it cannot process this text: {error}") from error
