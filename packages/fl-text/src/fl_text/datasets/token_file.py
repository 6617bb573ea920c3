"""Token files: the token numbers of a corpus, mapped into memory and not read.

    file    := head, tokens, padding to 8 bytes, starts
    head    := magic (8), version u32, flags u32, bytes of a token u32, size of the vocabulary u32,
               tokens u64, documents u64, fingerprint of the tokenizer (16),
               CRC-32 of tokens, padding and starts u32, CRC-32 of the head before it u32
    starts  := where each document begins among the tokens, and the end of the last: u64 each

All numbers are little-endian. Tokens are uint16 where the vocabulary has at most 65,536, and uint32
otherwise. Flags: 1, every document begins with the beginning token; 2, it ends with the end token.

Files are untrusted: counts must give the size of the file, and bounds of a document are checked
when it is asked for. `verify` reads everything.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import fl_tensor as ft
from fl_tensor.annotations import checked
from fl_tensor.files import open_regular
from fl_text.datasets.documents import Documents
from fl_text.encoder import TextEncoder, fingerprint_of
from fl_text.errors import TextError, TextFileError

MAGIC = b"fltokens"
VERSION = 1
HEAD = struct.Struct("<8sIIIIQQ16sII")
BOS, EOS = 1, 2
_AGAIN = "write the file again with write_tokens"
_BLOCK = 1 << 22


class Head(NamedTuple):
    magic: bytes
    version: int
    flags: int
    width: int
    vocabulary: int
    tokens: int
    documents: int
    fingerprint: bytes
    content: int

    def packed(self) -> bytes:
        start = HEAD.pack(*self, 0)[:-4]
        return start + struct.pack("<I", crc32(start))

    @property
    def starts(self) -> int:
        """The byte at which `starts` begin."""
        return HEAD.size + -(-self.tokens * self.width // 8) * 8

    @property
    def size(self) -> int:
        return self.starts + 8 * (self.documents + 1)


class TokenFile(Documents):
    """The tokens that `write_tokens` wrote, of `len(file)` documents and `count` tokens.

    The file is mapped, not read: it may be larger than memory, processes share what the system
    keeps of it, and a copy sent to another process is a path. `TokenStream`, `TokenLines`,
    `PackedDocuments` and `lm_dataset` take it in place of texts. With `tokenizer`, that must be the
    one that wrote the file: see `check_tokenizer`.

    Raises `TextFileError` for a file that is missing, cut off, or no token file. The file must not
    be cut while it is mapped; `write_tokens` replaces files as a whole.
    """

    @checked
    def __init__(self, path: str | os.PathLike[str], tokenizer: TextEncoder | None = None) -> None:
        self.path = os.fspath(path)
        if sys.byteorder != "little":
            raise TextFileError(self.path, "is for little-endian machines", "tokenize it here")
        try:
            with open_regular(path) as file:
                self._head = _checked_head(self.path, file.read(HEAD.size))
                self._check_size(os.fstat(file.fileno()).st_size)
                mapped = mmap.mmap(file.fileno(), self._head.size, access=mmap.ACCESS_READ)
        except OSError as error:
            raise TextFileError(
                self.path, f"unreadable ({error.strerror})", "check the path"
            ) from error
        self._content = memoryview(mapped)
        head = self._head
        tokens = self._content[HEAD.size : HEAD.size + head.tokens * head.width]
        numbers = tokens.cast("H") if head.width == 2 else tokens.cast("I")
        super().__init__(numbers, self._content[head.starts :].cast("Q"))
        if self.starts[0] != 0 or self.starts[len(self)] != self.count:
            raise self._damaged("the documents do not add up to its tokens")
        if tokenizer is not None:
            self.check_tokenizer(tokenizer)

    def _check_size(self, size: int) -> None:
        if size != self._head.size:
            raise self._damaged(
                f"has {size} bytes, but {self._head.tokens} tokens in {self._head.documents} "
                f"documents take {self._head.size}: it was cut off, or something was appended"
            )

    @property
    def count(self) -> int:
        """How many tokens there are."""
        return self._head.tokens

    @property
    def dtype(self) -> ft.DType:
        """uint16 or uint32: what a token takes in the file."""
        return ft.uint16 if self._head.width == 2 else ft.uint32

    @property
    def vocabulary(self) -> int:
        """How many tokens the tokenizer has that wrote the file."""
        return self._head.vocabulary

    @property
    def fingerprint(self) -> str:
        """That of the tokenizer that wrote the file."""
        return self._head.fingerprint.hex()

    @property
    def bos(self) -> bool:
        """Whether every document begins with the beginning token."""
        return bool(self._head.flags & BOS)

    @property
    def eos(self) -> bool:
        """Whether every document ends with the end token."""
        return bool(self._head.flags & EOS)

    def check_tokenizer(self, tokenizer: TextEncoder) -> None:
        """Raises `TextError` unless this tokenizer wrote the file, by its fingerprint."""
        fingerprint = fingerprint_of(tokenizer)
        if fingerprint != self.fingerprint:
            raise TextError(
                f"[TokenFile] {self.path} was written by a tokenizer of {self.vocabulary} tokens "
                f"with the fingerprint {self.fingerprint}; {tokenizer!r:.80} has {len(tokenizer)} "
                f"and {fingerprint}: use the tokenizer that wrote it, or write it again"
            )

    def bounds(self, index: int) -> tuple[int, int]:
        start, stop = self.starts[index], self.starts[index + 1]
        if not start <= stop <= self.count:
            raise self._damaged(f"document {index} is said to be tokens {start} .. {stop}")
        return start, stop

    def __getitem__(self, index: int) -> ft.Tensor:
        """The tokens of a document: int64 `(n,)`."""
        if not isinstance(index, int) or not -len(self) <= index < len(self):
            raise TextError(f"[TokenFile] there is no document {index!r} among {len(self)}")
        start, stop = self.bounds(index % len(self))
        return self.stretches([start], stop - start)[0]

    def framed(self, first: int, last: int) -> Documents:
        """The documents from the number `first` to the number `last`, whichever of the two are in
        the file already."""
        return _Framed(self, [] if self.bos else [first], [] if self.eos else [last])

    def stretches(self, starts: Sequence[int], length: int) -> ft.Tensor:
        """`length` tokens from each of `starts`: int64 `(len(starts), length)`."""
        tokens = self.tokens
        assert isinstance(tokens, memoryview)
        joined = b"".join([tokens[start : start + length] for start in starts])
        return ft.frombytes(joined, (len(starts), length), self.dtype).astype(ft.int64)

    def verify(self) -> None:
        """Read the whole file. Raises `TextFileError` where it is not as it was written."""
        found = 0
        for start in range(HEAD.size, self._head.size, _BLOCK):
            found = crc32(self._content[start : start + _BLOCK], found)
        if found != self._head.content:
            raise self._damaged("its content does not match its checksum")
        self.lengths()

    def _damaged(self, problem: str) -> TextFileError:
        return TextFileError(self.path, f"damaged: {problem}", _AGAIN)

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenFile, (self.path,)

    def __repr__(self) -> str:
        return f"TokenFile({self.path!r}, {self.count} tokens in {len(self)} documents)"


class _Framed(Documents):
    """Documents of a file, between numbers that are not in it."""

    def __init__(self, file: TokenFile, before: Sequence[int], after: Sequence[int]) -> None:
        super().__init__(file.tokens, file.starts, before, after)
        self._file = file

    def bounds(self, index: int) -> tuple[int, int]:
        return self._file.bounds(index)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Framed, (self._file, list(self.before), list(self.after))


def _checked_head(path: str, head: bytes) -> Head:
    if head[:8] != MAGIC:
        raise TextFileError(
            path, f"is no token file: it begins with {head[:8]!r}", "write one with write_tokens"
        )
    if len(head) < HEAD.size:
        raise TextFileError(path, "damaged: it was cut off inside its head", _AGAIN)
    *fields, checksum = HEAD.unpack(head)
    found = Head(*fields)
    if found.version != VERSION:
        raise TextFileError(
            path, f"has version {found.version} of the format, not {VERSION}", "update fl-text"
        )
    if checksum != crc32(head[:-4]) or found.width not in (2, 4):
        raise TextFileError(path, "damaged: its head does not match its checksum", _AGAIN)
    return found
