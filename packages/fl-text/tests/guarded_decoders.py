"""Decodes random cases with every array of the kernels beside a page that nobody may touch.

python guarded_decoders.py CASES before|behind
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from decoder_cases import Case, random_case

from fl_text.decoder import LexiconDecoder, stream, tables

_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_NOBODY = 0  # PROT_NONE
_held: list[mmap.mmap] = []


def guarded(array: Any, behind: bool) -> Any:
    """A copy that ends where a forbidden page begins, or begins where one ends."""
    if not isinstance(array, np.ndarray):
        return array
    pages = -(-max(array.nbytes, 1) // _PAGE) + 2
    memory = mmap.mmap(-1, pages * _PAGE)
    _held.append(memory)
    whole = np.frombuffer(memory, np.uint8)
    for page in (0, pages - 1):
        address = whole.ctypes.data + page * _PAGE
        assert _libc.mprotect(address, _PAGE, _NOBODY) == 0
    first = (pages - 1) * _PAGE - array.nbytes if behind else _PAGE
    copy = whole[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def main(count: int, behind: bool) -> None:
    def guard(record: Any) -> Any:
        return record._make(guarded(field, behind) for field in record)

    class Guarded(tables.Tables):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.source.scores, self.source.ngram = (
                guard(self.source.scores),
                guard(self.source.ngram),
            )
            self.chosen, self.allowed = guarded(self.chosen, behind), guarded(self.allowed, behind)
            self._guard()

        def grow(self, settings: Any) -> None:
            super().grow(settings)
            self._guard()

        def _guard(self) -> None:
            for name in ("candidates", "beam", "history", "trace"):
                setattr(self, name, guard(getattr(self, name)))

    def decoded(case: Case) -> list[Any]:
        decoder = case.decoder()
        decoder._transitions = guarded(decoder._transitions, behind)
        if isinstance(decoder, LexiconDecoder):
            decoder.trie.tables = guard(decoder.trie.tables)
            decoder._bonus = guarded(decoder._bonus, behind)
        return [(h.score, h.words) for h in decoder.decode(case.emissions)]

    plain_tables, plain_frames = tables.Tables, stream.frames_of
    tables._FIRST_SIZE = 16
    import fl_text.decoder.search as search

    with tempfile.TemporaryDirectory() as folder:
        for seed in range(count):
            case = random_case(5000 + seed, Path(folder), small=seed % 3 > 0)
            wanted = [(h.score, h.words) for h in case.decoder().decode(case.emissions)]
            search.Tables = Guarded
            stream.frames_of = lambda *arguments: guarded(plain_frames(*arguments), behind)
            assert decoded(case) == wanted, seed
            search.Tables, stream.frames_of = plain_tables, plain_frames
            _held.clear()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] == "behind")
