"""The file format ``FLMT1``, which docs/memory-traces.md describes: ``read`` and ``write``.

A file is the line ``FLMT1``, a line of JSON, and the columns. A column is the differences of its
cells as 64-bit integers, little endian: first the lowest byte of each, then the second one, and so
on (a shuffle filter, as in HDF5), compressed by zlib (RFC 1950).
"""

from __future__ import annotations

import json
import operator
import os
import stat
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import IO, Any, NamedTuple, TypeAlias, TypeGuard

from fl_memory.errors import TraceError
from fl_memory.traces.trace import COLUMNS, MOST_CHARACTERS, MOST_NAMES, TABLES, Trace

__all__ = ["MAX_ROWS", "read", "replacing", "write"]

AnyPath: TypeAlias = "str | os.PathLike[str]"

MAGIC = b"FLMT1\n"
#: Rows that ``read`` accepts unless told otherwise. A row takes 104 bytes of memory.
MAX_ROWS = 1 << 22
#: The longest line of JSON, and the most columns.
MOST_HEADER = 1 << 23
MOST_COLUMNS = 256
#: zlib cannot compress better than 1032 : 1 (https://zlib.net/zlib_tech.html).
BEST_RATIO = 1032


def write(trace: Trace, path: AnyPath) -> None:
    """Write ``trace`` to the file ``path``: all of it, or nothing.

    A file of that name stays until its successor is complete. Raises TraceError for a trace that
    ``Trace.check`` rejects or facts that JSON cannot say, OSError where the file cannot be written.
    """
    trace.check()
    packed = {name: zlib.compress(_raw(column), 9) for name, column in trace.columns.items()}
    header = {
        "rows": len(trace),
        "columns": [{"name": name, "bytes": len(data)} for name, data in packed.items()],
        "tables": trace.tables,
        "facts": trace.facts,
    }
    try:
        line = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise TraceError(f"[write] the facts {trace.facts!r} are not JSON: {error}") from error
    if len(line) >= MOST_HEADER:
        raise TraceError(f"[write] the names and facts take {len(line)} bytes of {MOST_HEADER}")
    with replacing(path) as file:
        file.write(MAGIC + line + b"\n")
        for data in packed.values():
            file.write(data)


def read(path: AnyPath, max_rows: int = MAX_ROWS) -> Trace:
    """The trace in a file.

    Columns that this version does not know are skipped; columns that the file lacks are 0. No more
    memory is taken than ``max_rows`` rows need, whatever the file claims. Raises TraceError for a
    file that is no trace, is truncated or damaged, or has more rows; OSError where it cannot be
    read.
    """
    where = f"[read] {os.fspath(path)}"
    _require_regular(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if file.read(len(MAGIC)) != MAGIC:
            raise TraceError(f"{where}: no trace: its first line is not {MAGIC.decode().strip()}")
        line = file.readline(MOST_HEADER)
        if not line.endswith(b"\n"):
            raise TraceError(f"{where}: truncated in, or longer than allowed in, its second line")
        rows, columns, tables, facts = _header(where, line)
        if rows > max_rows:
            raise TraceError(
                f"{where}: {rows} rows, and at most {max_rows} are read; "
                f"read(..., max_rows={rows}) takes {rows * 8 * len(COLUMNS) >> 20} MiB"
            )
        there, stated = size - file.tell(), sum(columns.values())
        if there != stated:
            state = "truncated" if there < stated else "longer than it says"
            raise TraceError(f"{where}: {state}: {there} bytes of columns instead of {stated}")
        found = {}
        for name, nbytes in columns.items():
            if name in COLUMNS:
                found[name] = _column(f"{where}: column {name!r}", file.read(nbytes), rows)
            else:
                file.seek(nbytes, os.SEEK_CUR)
    trace = Trace(found, tables, facts)
    try:
        trace.check()
    except TraceError as error:
        raise TraceError(f"{where}: {error}") from None
    return trace


@contextmanager
def replacing(path: AnyPath) -> Iterator[IO[bytes]]:
    """A file to write that becomes ``path`` when the block ends, and vanishes if it fails. Where
    ``path`` is a symbolic link, the link stays."""
    path = os.path.realpath(path)
    if os.path.exists(path):
        _require_regular(path)
    draft = f"{path}.{os.getpid()}.new"
    file = open(draft, "xb")
    try:
        with file:
            yield file
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _require_regular(path: AnyPath) -> None:
    """TraceError for a folder, a FIFO, a device; OSError for what is not there."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise TraceError(f"{os.fspath(path)}: not a regular file")


class _Header(NamedTuple):
    """The second line of a file."""

    rows: int
    columns: dict[str, int]  # bytes of each in the file
    tables: dict[str, list[str]]
    facts: dict[str, Any]


def _header(where: str, line: bytes) -> _Header:
    try:
        header = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{where}: its second line is not JSON: {error}") from None

    def fail(what: str) -> TraceError:
        return TraceError(f"{where}: its header is damaged: {what}")

    if not isinstance(header, dict):
        raise fail("it is no object")
    rows, listed, tables, facts = (header.get(k) for k in ("rows", "columns", "tables", "facts"))
    if not _is_count(rows):
        raise fail(f"rows {rows!r}")
    if not isinstance(listed, list) or len(listed) > MOST_COLUMNS:
        raise fail("columns are no list, or too many")
    columns: dict[str, int] = {}
    for entry in listed:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or name in columns or not _is_count(entry.get("bytes")):
            raise fail(f"column {entry!r}")
        if name in COLUMNS and 8 * rows > BEST_RATIO * entry["bytes"]:
            raise fail(f"{rows} rows cannot come from {entry['bytes']} bytes of column {name!r}")
        columns[name] = entry["bytes"]
    if missing := {"kind", "block", "nbytes", "alignment"} - columns.keys():
        raise fail(f"there is no column {', '.join(sorted(missing))}")
    if not isinstance(facts, dict) or not isinstance(tables, dict):
        raise fail("tables and facts are no objects")
    for table in TABLES:
        names = tables.get(table, [""])
        if not isinstance(names, list) or not 0 < len(names) <= MOST_NAMES or names[0] != "":
            raise fail(f"table {table!r} is no list of names that begins with an empty one")
        if not all(isinstance(name, str) and len(name) <= MOST_CHARACTERS for name in names):
            raise fail(f"table {table!r} has names that are no strings, or too long")
    return _Header(rows, columns, {name: tables[name] for name in TABLES if name in tables}, facts)


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 62


def _column(where: str, data: bytes, rows: int) -> array[int]:
    expander = zlib.decompressobj()
    try:
        raw = expander.decompress(data, 8 * rows + 1)
    except zlib.error as error:
        raise TraceError(f"{where} is damaged: {error}") from None
    if len(raw) != 8 * rows or not expander.eof or expander.unused_data:
        raise TraceError(f"{where} has not the {8 * rows} bytes of {rows} rows")
    cells = bytearray(8 * rows)
    for place in range(8):
        cells[place::8] = raw[place * rows : (place + 1) * rows]
    differences = array("q", cells)
    if sys.byteorder == "big":
        differences.byteswap()
    try:
        return array("q", accumulate(differences))
    except OverflowError:
        raise TraceError(f"{where} has numbers beyond 64 bits") from None


def _raw(column: array[int]) -> bytes:
    cells: Iterable[int] = (operator.sub(b, a) for a, b in pairwise(column))
    differences = array("q", [*column[:1], *cells])
    if sys.byteorder == "big":
        differences.byteswap()
    raw = differences.tobytes()
    return b"".join(raw[place::8] for place in range(8))
