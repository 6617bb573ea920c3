"""`TableStream`: batches of rows from files that are larger than memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_data.errors import DataError
from fl_data.samples import Sample, check_count
from fl_data.seeds import Seed, mix
from fl_data.streams.stream import Stream, StreamPosition, position_of
from fl_data.tables import reading
from fl_data.tables.table import Paths, Table, paths_of
from fl_data.views.permutation import permutation


class TableStream(Stream):
    """Batches of `size` rows, dicts of tensors, from the row groups of Parquet files and the record
    batches of Arrow files; the last batch may be smaller.

    paths      a file, or several with the same columns
    size       rows of a batch, whatever the sizes of the row groups
    columns, missing, categories, dtypes    as in `Table`; columns of texts need `categories`
    buffer     so many row groups are in memory at once. With `shuffle` their rows are mixed
    shuffle    another order of row groups and rows in each epoch, which depends on `seed` and the
               epoch alone; without a `seed` one is drawn as in `Resample`

    A resume reads the row groups of one buffer again. For several ranks use
    `stream.share(rank, world_size)`. Takes pyarrow. Raises `FileFormatError` and `DataError` as
    `Table.read`.
    """

    def __init__(
        self,
        paths: Paths,
        size: int,
        columns: Sequence[str] | None = None,
        *,
        missing: Mapping[str, Any] | None = None,
        categories: Mapping[str, Sequence[str]] | None = None,
        dtypes: Mapping[str, Any] | None = None,
        buffer: int = 8,
        shuffle: bool = True,
        seed: int | None = None,
    ) -> None:
        self._size = check_count(size, "size", "TableStream", least=1)
        self._buffer = check_count(buffer, "buffer", "TableStream", least=1)
        self._columns = None if columns is None else list(columns)
        self._options = {"missing": missing, "categories": categories, "dtypes": dtypes}
        self._shuffle = shuffle
        self._seed = Seed(seed if shuffle else 0, "TableStream")
        #: Every row group: its file, its number there, its rows.
        self._groups: list[tuple[Path, int, int]] = []
        for path in paths_of(paths):
            counts = reading.group_sizes(path, self._columns)
            self._groups += [(path, number, rows) for number, rows in enumerate(counts)]
        self._texts = set(categories or ())

    def __len__(self) -> int:
        """The number of batches of a pass."""
        return -(-sum(rows for _, _, rows in self._groups) // self._size)

    def read(
        self, place: StreamPosition = None
    ) -> Generator[tuple[Sample, StreamPosition], None, None]:
        done = 0 if place is None else position_of(place, int, where="TableStream")[0]
        windows = self._windows()
        ends = list(accumulate(sum(rows for _, _, rows in window) for window in windows))
        total = ends[-1] if ends else 0
        held: tuple[int, Any] | None = None
        for number in range(done, -(-total // self._size)):
            first, stop = number * self._size, min((number + 1) * self._size, total)
            parts: list[Any] = []
            while first < stop:
                w = bisect_right(ends, first)
                if held is None or held[0] != w:
                    held = w, self._rows(w, windows[w])
                begin = ends[w - 1] if w else 0
                until = min(stop, ends[w])
                parts.append(held[1].slice(first - begin, until - first))
                first = until
            table = Table(reading.pyarrow().concat_tables(parts), **self._options)
            yield table.__getitems__(range(len(table))), [number + 1]

    def _windows(self) -> list[list[tuple[Path, int, int]]]:
        order: Sequence[int] = range(len(self._groups))
        if self._shuffle:
            generator = ft.Generator(mix(self._seed.value, self._epoch))
            order = permutation(len(order), generator)
        groups = [self._groups[i] for i in order]
        groups = [group for group in groups if group[2]]
        return [groups[i : i + self._buffer] for i in range(0, len(groups), self._buffer)]

    def _rows(self, number: int, window: Sequence[tuple[Path, int, int]]) -> Any:
        tables = [reading.read_group(path, group, self._columns) for path, group, _ in window]
        for (path, _, _), table in zip(window, tables):
            reading.same_columns(path, table, self._groups[0][0], tables[0])
            for field in table.schema:
                if reading.is_text(field.type) and field.name not in self._texts:
                    raise DataError(
                        f"[TableStream] column {field.name!r} has texts: give "
                        f"categories={{{field.name!r}: [...]}}, as no row group has all of them, "
                        "or leave the column out with columns="
                    )
        arrow = reading.pyarrow()
        joined = arrow.concat_tables([table.select(tables[0].column_names) for table in tables])
        if not self._shuffle:
            return joined
        generator = ft.Generator(mix(self._seed.value, self._epoch, number))
        order: Any = permutation(len(joined), generator)[:]
        return joined.take(arrow.array(memoryview(order), arrow.int64()))
