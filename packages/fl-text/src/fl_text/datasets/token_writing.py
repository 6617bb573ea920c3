"""``write_tokens``: texts into a token file, in one pass."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from array import array
from collections.abc import Iterable
from typing import BinaryIO
from zlib import crc32

from fl_tensor.annotations import explained
from fl_tensor.files import replacing
from fl_text.corpus import as_texts
from fl_text.datasets.token_file import BOS, EOS, HEAD, MAGIC, VERSION, Head
from fl_text.encoder import TextEncoder, check_encoder, fingerprint_of
from fl_text.errors import TextError, TextFileError

_IN_MEMORY = 1 << 24
_BLOCK = 1 << 20


@explained
def write_tokens(
    path: str | os.PathLike[str],
    texts: Iterable[str],
    tokenizer: TextEncoder,
    *,
    bos: bool = False,
    eos: bool = False,
    strip: bool = False,
) -> int:
    """Write the token numbers of `texts` for `TokenFile(path)`, each text a document, and return
    how many tokens there are. A file of that name is replaced once the new one is complete.

    `bos` and `eos`: the beginning token before, the end token behind each document. `strip`: leave
    out line breaks at the end of texts, and blank texts. The corpus is never in memory: texts are
    read, encoded and written some at a time; where documents begin is kept in a temporary file
    beside `path` once it takes more than 16 MiB.

    Raises `TextError` where there is no token, or for an encoder without fingerprint, and
    `TextFileError` where the file cannot be written.
    """
    check_encoder(tokenizer, "write_tokens")
    fingerprint = bytes.fromhex(fingerprint_of(tokenizer))
    if sys.byteorder != "little":
        raise TextError("[write_tokens] token files are for little-endian machines")
    given = as_texts(texts, "write_tokens")
    if strip:
        given = (text.rstrip("\r\n") for text in given if text.strip())
    kind, width = ("H", 2) if len(tokenizer) <= 1 << 16 else ("I", 4)
    try:
        with (
            replacing(path) as file,
            tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=os.path.dirname(file.name)) as starts,
        ):
            file.write(b"\0" * HEAD.size)
            content = _Summed(file)
            count, documents = 0, 0
            for ids in tokenizer.encode_corpus(given, bos=bos, eos=eos):
                content.write(_packed(ids, kind, len(tokenizer), documents))
                starts.write(count.to_bytes(8, "little"))
                count, documents = count + len(ids), documents + 1
            if count == 0:
                raise TextError(
                    f"[write_tokens] {path}: the texts have no tokens: give a corpus with some text"
                )
            starts.write(count.to_bytes(8, "little"))
            content.write(b"\0" * (-count * width % 8))
            starts.seek(0)
            shutil.copyfileobj(starts, content, _BLOCK)
            flags = BOS * bos + EOS * eos
            sizes = (width, len(tokenizer), count, documents)
            file.seek(0)
            file.write(Head(MAGIC, VERSION, flags, *sizes, fingerprint, content.checksum).packed())
    except OSError as error:
        raise TextFileError(path, f"{error.strerror}", "check its folder") from error
    return count


def _packed(ids: list[int], kind: str, vocabulary: int, document: int) -> bytes:
    try:
        return array(kind, ids).tobytes()
    except (OverflowError, TypeError) as error:
        raise TextError(
            f"[write_tokens] document {document}: the encoder of {vocabulary} tokens gives numbers "
            f"outside 0 .. {vocabulary - 1} ({error})"
        ) from error


class _Summed:
    """Writes to a file, and sums up what was written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.checksum = 0

    def write(self, data: bytes) -> int:
        self.checksum = crc32(data, self.checksum)
        return self._file.write(data)
