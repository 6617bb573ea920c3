"""``TokenCounts``: how often each token stands in text files, and dictionaries of the frequent."""

from __future__ import annotations

import io
import multiprocessing
import os
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from fl_tensor.annotations import checked
from fl_text.dictionary import Dictionary
from fl_text.errors import TextError
from fl_text.file_parts import PartialFile

if TYPE_CHECKING:
    import numpy as np


class TokenCounts:
    """How often each token stands in some texts; `counts` maps tokens to counts.

    Made by `TokenCounts.from_files`, or from a mapping. A token is what stands between ASCII white
    space, a sentence is a line. `total_tokens` and `total_sentences` are of the texts: pruning does
    not change them.
    """

    @checked
    def __init__(self, counts: Mapping[str, int], total_sentences: int = 0) -> None:
        self.counts = dict(counts)
        bad = next((t for t, n in self.counts.items() if not isinstance(n, int) or n < 1), None)
        if bad is not None:
            raise TextError(
                f"[TokenCounts] {bad!r} has the count {self.counts[bad]!r}: counts are integers "
                "of at least 1"
            )
        self.total_tokens = sum(self.counts.values())
        self.total_sentences = total_sentences
        self.sentences: list[np.ndarray] = []
        """For each file, if they were asked for: int64 `(lines, 2)`, the position of each line in
        bytes and the number of its tokens."""

    @classmethod
    @checked
    def from_files(
        cls,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        workers: int = 1,
        sentences: bool = False,
    ) -> TokenCounts:
        """Count the tokens of UTF-8 files, each in `workers` parts by as many processes.

        `sentences`: also find where each line begins and how many tokens it has. Processes are
        started with `spawn`, so the main module of a program needs `if __name__ == "__main__"`.
        Raises `TextFileError` with file, line and byte for what is no UTF-8 text.
        """
        if workers < 1:
            raise TextError(f"[TokenCounts] workers={workers}: at least 1 is needed")
        files = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        if not files:
            raise TextError("[TokenCounts] give at least one path")
        ranks = range(workers)
        tasks = [(os.fspath(path), r, workers, sentences) for path, r in product(files, ranks)]
        if workers == 1:
            parts = [_count(*task) for task in tasks]
        else:
            with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
                parts = list(pool.map(_count, *zip(*tasks, strict=True)))
        total: Counter[bytes] = Counter()
        for part in parts:
            total.update(part.counts)
        found = cls({token.decode(): n for token, n in total.items()}, sum(p.lines for p in parts))
        if sentences:
            import numpy as np  # not with fl_text

            tables = [np.frombuffer(part.table, np.int64).reshape(-1, 2) for part in parts]
            found.sentences = [
                np.concatenate(tables[first : first + workers])
                for first in range(0, len(tables), workers)
            ]
        return found

    def most_common(self) -> list[tuple[str, int]]:
        """Tokens and counts, the most frequent first, equally frequent ones by code points."""
        return sorted(self.counts.items(), key=lambda pair: (-pair[1], pair[0]))

    @checked
    def prune(self, max_size: int = -1, min_count: int = 0) -> None:
        """Forget tokens seen less than `min_count` times, then all but the `max_size` most frequent
        (-1: keep all)."""
        kept = [pair for pair in self.most_common() if pair[1] >= min_count]
        self.counts = dict(kept if max_size < 0 else kept[:max_size])

    def dictionary(self, first: Iterable[str] = ()) -> Dictionary:
        """The tokens in the order of `most_common`, after the tokens of `first`."""
        made = Dictionary(first)
        for token, _ in self.most_common():
            if token not in made:
                made.add_entry(token)
        return made

    def __repr__(self) -> str:
        return (
            f"TokenCounts({len(self.counts)} different tokens; {self.total_tokens} tokens and "
            f"{self.total_sentences} sentences counted)"
        )


class _Part(NamedTuple):
    counts: dict[bytes, int]
    lines: int
    table: bytes


def _count(path: str, rank: int, world: int, sentences: bool) -> _Part:
    counts: Counter[bytes] = Counter()
    lines, table = 0, array("q")
    for position, block in PartialFile(path, rank, world).blocks():
        if position == 0 and block.startswith(b"\xef\xbb\xbf"):
            block = block[3:]
            position = 3
        lines += block.count(b"\n") + (not block.endswith(b"\n"))
        if not sentences:
            counts.update(block.split())
            continue
        for line in io.BytesIO(block):
            tokens = line.split()
            counts.update(tokens)
            table.extend((position, len(tokens)))
            position += len(line)
    return _Part(dict(counts), lines, table.tobytes())
