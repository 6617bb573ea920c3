"""``TextShards``: a stream of the lines of many files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from fl_data import ShardStream, check_count
from fl_text.corpus import MAX_LINE, read_lines
from fl_text.errors import TextError, TextFileError


class TextShards(ShardStream):
    """The lines of many UTF-8 files, plain or compressed by gzip, as samples `(line,)`.

    Every epoch has a new order of shards, which depends on `seed` and the epoch alone; `rank`,
    `world_size`, `shuffle`, and what a resume does, are as in `fl_data.ShardStream`. Several
    workers of a rank are ranks of their own: `rank=rank * workers + worker`,
    `world_size=ranks * workers`. Lines keep their `"\\n"`.

    A line that is not UTF-8, one over `max_line` bytes, a missing file, and damaged gzip data raise
    `TextFileError` with file and line. With `skip_bad`, a bad line is left out, and so is what
    follows damaged gzip data in a shard. `skipped` counts them.
    """

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        *,
        shuffle: bool = True,
        seed: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        skip_bad: bool = False,
        max_line: int = MAX_LINE,
    ) -> None:
        if isinstance(paths, str | bytes | os.PathLike):
            raise TextError(f"[TextShards] got the one path {paths!r}: give a list of paths")
        names = [os.fspath(path) for path in paths]
        if not names:
            raise TextError("[TextShards] no paths: give at least one")
        self._skip_bad = skip_bad
        self._max_line = check_count(max_line, "max_line", "TextShards", least=1)
        #: How many bad lines each shard has, as far as it was read.
        self._bad: dict[str, int] = {}
        super().__init__(
            names, self._lines, shuffle=shuffle, seed=seed, rank=rank, world_size=world_size
        )

    @property
    def skipped(self) -> int:
        """How many bad lines were met and left out, each of them counted once. What another process
        reads (`prefetch(process=True)`) is not counted here."""
        return sum(self._bad.values())

    def _lines(self, path: str) -> Iterator[tuple[str]]:
        met = 0

        def skip(error: TextFileError) -> None:
            nonlocal met
            met += 1
            self._bad[path] = max(met, self._bad.get(path, 0))

        for line in read_lines(path, self._max_line, skip=skip if self._skip_bad else None):
            yield (line,)

    def __repr__(self) -> str:
        return f"TextShards({len(self._shards)} files)"
