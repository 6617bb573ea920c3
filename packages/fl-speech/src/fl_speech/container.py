"""Is an audio file complete? The decoder reads a cut-off WAV or AIFF without a word."""

from __future__ import annotations

from typing import BinaryIO

from fl_speech.errors import AudioError

_ANY_LENGTH = 0x7FFFF000
"""Writers that stream put a size from here on, meaning: until the end of the file."""

_MAX_CHUNKS = 10_000


def check_complete(path: str, file: BinaryIO, size: int) -> None:
    """Raises `AudioError` if the header of a WAV or AIFF file promises more samples than follow.

    `file` is open at its beginning and `size` bytes long. Other formats are left to the decoder.
    """
    if size == 0:
        raise AudioError(path, "the file is empty", "write it again")
    kind = file.read(12)
    if kind[:4] in (b"RIFF", b"RF64") and kind[8:12] == b"WAVE":
        _walk(path, file, size, "little", b"data")
    elif kind[:4] == b"FORM" and kind[8:12] in (b"AIFF", b"AIFC"):
        _walk(path, file, size, "big", b"SSND")


def _walk(path: str, file: BinaryIO, size: int, order: str, wanted: bytes) -> None:
    """Step from chunk to chunk until the one with the samples; compare its end with the file's."""
    long_size = None  # RF64 keeps sizes beyond 4 GiB in a chunk of their own
    for _ in range(_MAX_CHUNKS):
        header = file.read(8)
        if len(header) < 8:
            raise AudioError(
                path, "the file ends before its samples", "it was cut off; copy or write it again"
            )
        length = int.from_bytes(header[4:], order)  # type: ignore[arg-type]
        start = file.tell()
        if header[:4] == b"ds64":
            long_size = int.from_bytes(file.read(16)[8:], "little")
        if header[:4] == wanted:
            if length == 0xFFFFFFFF and long_size is not None:
                length = long_size
            elif length >= _ANY_LENGTH:
                return
            if start + length > size:
                raise AudioError(
                    path,
                    f"truncated: the header promises {length} bytes of samples, "
                    f"{size - start} are there",
                    "it was cut off; copy or write it again",
                )
            return
        file.seek(start + length + length % 2)
    raise AudioError(path, f"no samples among its first {_MAX_CHUNKS} chunks", "write it again")
