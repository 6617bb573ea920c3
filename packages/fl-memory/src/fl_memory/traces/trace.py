"""``Trace``: what a program asked of a memory manager, as columns of integers.

One row is one event. Every cell is an integer of 64 bits; names are numbers of a table. All kinds
have ``ns``, ``step``, ``thread``, ``operation``, ``module`` and ``phase``. Besides these:

* alloc: block, nbytes (requested), capacity (granted; 0: unknown), alignment, stream, tag
* free: block
* reserve_hint: nbytes, stream
* mark: nbytes (the number of the mark), tag (its name)
* refuse: nbytes (requested, and not granted), stream, tag

All other cells are 0.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Any

from fl_memory.argument_checks import ALIGNMENTS
from fl_memory.errors import TraceError

__all__ = ["COLUMNS", "KINDS", "TABLES", "Trace"]

KINDS = ("alloc", "free", "reserve_hint", "mark", "refuse")
ALLOC, FREE, RESERVE_HINT, MARK, REFUSE = range(len(KINDS))

#: The columns, in the order of the file.
COLUMNS = (
    "kind",  # a number of KINDS
    "block",  # number of the block, unique in the trace
    "nbytes",
    "capacity",
    "alignment",
    "ns",  # nanoseconds since the recording began
    "step",  # number of the last mark "step"
    "thread",  # in order of appearance
    "stream",
    "tag",
    "operation",
    "module",
    "phase",
)

#: Columns whose cells are numbers of a table of names. Number 0 is "": none.
TABLES = ("stream", "tag", "operation", "module", "phase")

#: A table has at most so many names, and a name so many characters.
MOST_NAMES, MOST_CHARACTERS = 1 << 12, 256
#: Where a table has so many characters, or MOST_NAMES, all further names are OTHER.
TABLE_CHARACTERS, OTHER = 1 << 17, "(other)"


class Trace:
    """Rows of memory events of one device.

    columns: an ``array("q")`` for each of ``COLUMNS``, all of one length. tables: the names of each
    of ``TABLES``. facts: what is known about the run (model, backend, versions, device), as JSON
    can say it; no paths and no host names.
    """

    def __init__(
        self,
        columns: Mapping[str, array[int]] | None = None,
        tables: Mapping[str, list[str]] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        given = columns or {}
        length = max(map(len, given.values()), default=0)
        self.columns = {
            c: given[c] if c in given else array("q", bytes(8 * length)) for c in COLUMNS
        }
        self.tables = {t: list((tables or {}).get(t) or [""]) for t in TABLES}
        self.facts = dict(facts or {})
        #: How many rows there were when ``check`` found nothing wrong.
        self.checked_rows = -1
        self._numbers = {t: {n: i for i, n in enumerate(names)} for t, names in self.tables.items()}
        self._characters = {t: sum(map(len, names)) for t, names in self.tables.items()}

    def __len__(self) -> int:
        return len(self.columns["kind"])

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} rows on {self.device}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        return (self.columns, self.tables, self.facts) == (other.columns, other.tables, other.facts)

    __hash__ = None  # type: ignore[assignment]

    @property
    def device(self) -> str:
        """The device that the events are of; "cpu" where the facts do not say."""
        return str(self.facts.get("device", "cpu"))

    def rows(self, *columns: str) -> Iterator[tuple[int, ...]]:
        """The cells of these columns, row by row."""
        return zip(*(self.columns[name] for name in columns))

    def number(self, table: str, name: str) -> int:
        """The number of a name in a table, to which it is added if it is new.

        A name is cut after 256 characters. In a table of 4096 names, or of 131,072 characters, new
        ones are "(other)".
        """
        numbers, names = self._numbers[table], self.tables[table]
        name = name[:MOST_CHARACTERS]
        if name not in numbers:
            characters = self._characters[table] + len(name)
            if len(names) >= MOST_NAMES - 1 or characters > TABLE_CHARACTERS:
                name = OTHER
        if name not in numbers:
            numbers[name] = len(names)
            names.append(name)
            self._characters[table] += len(name)
        return numbers[name]

    def append(self, kind: str, **cells: int | str) -> None:
        """Add a row. Names of tables are given as strings. Columns that are not given are 0.

        Raises TraceError for a kind or a column that does not exist.
        """
        if kind not in KINDS or not cells.keys() <= self.columns.keys():
            raise TraceError(
                f"[Trace.append] kind {kind!r}, columns {', '.join(cells)}: the kinds are "
                f"{', '.join(KINDS)}, the columns {', '.join(COLUMNS)}"
            )
        row = {"kind": KINDS.index(kind), **cells}
        for name, column in self.columns.items():
            cell = row.get(name, 0)
            column.append(self.number(name, cell) if isinstance(cell, str) else cell)

    @property
    def peak_live_bytes(self) -> int:
        """The most requested bytes that were live at the same time."""
        sizes: dict[int, int] = {}
        live = peak = 0
        for kind, block, nbytes in self.rows("kind", "block", "nbytes"):
            if kind == ALLOC:
                sizes[block] = nbytes
                live += nbytes
                peak = max(peak, live)
            elif kind == FREE:
                live -= sizes.pop(block)
        return peak

    def check(self) -> None:
        """Raise TraceError at the first row that no program can have caused: an unknown kind, a
        name that no table has, a negative size, a block that is allocated twice, or freed without
        being live."""
        kinds = self.columns["kind"]
        if any(len(column) != len(kinds) for column in self.columns.values()):
            raise TraceError("[trace] its columns differ in length")
        for name, names in self.tables.items():
            column = self.columns[name]
            if column and not 0 <= min(column) <= max(column) < len(names):
                raise TraceError(f"[trace] column {name!r} has numbers that its table lacks")
        seen: set[int] = set()
        live: set[int] = set()
        rows = self.rows("kind", "block", "nbytes", "capacity", "alignment")
        for row, (kind, block, nbytes, capacity, alignment) in enumerate(rows):
            wrong = ""
            if not 0 <= kind < len(KINDS):
                wrong = f"kind {kind} is none of 0 to {len(KINDS) - 1}"
            elif nbytes < 0 and kind != MARK:
                wrong = f"a size of {nbytes} bytes"
            elif kind == FREE:
                if block in live:
                    live.remove(block)
                else:
                    wrong = f"block {block} is freed, and is not live"
            elif kind == ALLOC:
                if block in seen:
                    wrong = f"block {block} is allocated a second time"
                elif alignment not in ALIGNMENTS:
                    wrong = f"alignment {alignment} is no power of two up to 2**30"
                elif capacity and capacity < nbytes:
                    wrong = f"{capacity} bytes are granted for {nbytes} requested ones"
                seen.add(block)
                live.add(block)
            if wrong:
                raise TraceError(f"[trace] row {row}: {wrong}")
        self.checked_rows = len(self)
