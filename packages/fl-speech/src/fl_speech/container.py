"""Completeness checks of audio files: the decoder accepts truncated WAV, AIFF and OGG."""

from __future__ import annotations

from typing import BinaryIO

from fl_speech.errors import AudioError

_ANY_LENGTH = 0x7FFFF000
"""Writers that stream put a size from here on, meaning: until the end of the file."""

_MAX_CHUNKS = 10_000

# Ogg (RFC 3533): "OggS", version 0, flags, 20 bytes more, the number of segments, their lengths.
_PAGE = b"OggS\0"
_PAGE_HEADER = 27
_LONGEST_PAGE = _PAGE_HEADER + 255 + 255 * 255
_END_OF_STREAM = 4
_AGAIN = "it was cut off; copy or write it again"


def check_complete(path: str, file: BinaryIO, size: int) -> None:
    """Raises `AudioError` if the header of a WAV or AIFF file promises more samples than follow, or
    the last page of an OGG file does not end its stream.

    `file` is open at its beginning and `size` bytes long. Other formats are left to the decoder.
    """
    if size == 0:
        raise AudioError(path, "the file is empty", "write it again")
    kind = file.read(12)
    if kind[:4] in (b"RIFF", b"RF64") and kind[8:12] == b"WAVE":
        _walk(path, file, size, "little", b"data")
    elif kind[:4] == b"FORM" and kind[8:12] in (b"AIFF", b"AIFC"):
        _walk(path, file, size, "big", b"SSND")
    elif kind[:5] == _PAGE and not _ends(file, size):
        raise AudioError(path, "truncated: its last page does not end the stream", _AGAIN)


def _ends(file: BinaryIO, size: int) -> bool:
    """Whether the last page of an OGG file is whole and ends a stream (of several, the last)."""
    start = max(0, size - 2 * _LONGEST_PAGE)  # a whole page begins behind it
    file.seek(start)
    rest = file.read(size - start)
    begin = rest.find(_PAGE)
    while begin >= 0:
        # What looks like a page may be samples: then no page follows it.
        place, pages, flags = begin, 0, 0
        while (end := _page_end(rest, place)) is not None and end <= len(rest):
            place, pages, flags = end, pages + 1, rest[place + 5]
        is_cut = place < len(rest) and _PAGE.startswith(rest[place : place + len(_PAGE)])
        if pages and flags & _END_OF_STREAM and not is_cut:
            return True  # what may follow is no page: tags of other formats, or zeros
        if pages > 1 or pages and place == len(rest):
            return False
        begin = rest.find(_PAGE, begin + 1)
    return False


def _page_end(data: bytes, place: int) -> int | None:
    """Where the page that begins at `place` ends; None where none begins."""
    lengths = place + _PAGE_HEADER
    if data[place : place + 5] != _PAGE or lengths > len(data):
        return None
    return lengths + data[lengths - 1] + sum(data[lengths : lengths + data[lengths - 1]])


def _walk(path: str, file: BinaryIO, size: int, order: str, wanted: bytes) -> None:
    """Step from chunk to chunk until the one with the samples; compare its end with the file's."""
    long_size = None  # RF64 keeps sizes beyond 4 GiB in a chunk of their own
    for _ in range(_MAX_CHUNKS):
        header = file.read(8)
        if len(header) < 8:
            raise AudioError(path, "the file ends before its samples", _AGAIN)
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
                    _AGAIN,
                )
            return
        file.seek(start + length + length % 2)
    raise AudioError(path, f"no samples among its first {_MAX_CHUNKS} chunks", "write it again")
