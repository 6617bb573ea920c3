"""Files as Arrow tables, with errors that name the file and what to do (pyarrow)."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_data.errors import FileFormatError
from fl_data.files import opened

PARQUET = frozenset({".parquet", ".pq"})
ARROW = frozenset({".arrow", ".feather", ".ipc"})
CSV = frozenset({".csv", ".tsv", ".txt"})
#: Suffixes of compressed text, before which the suffix of the text stands.
COMPRESSED = frozenset({".gz", ".bz2", ".zst"})


def pyarrow() -> Any:
    """The package, which `fl-data[arrow]` installs. Raises MissingError without it."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise ft.MissingError(
            "data.Table takes pyarrow: python -m pip install './packages/fl-data[arrow]' in a "
            "clone of the repository, or pyarrow itself"
        ) from error
    return pyarrow


def read(
    path: Path,
    columns: Sequence[str] | None,
    texts: Collection[str],
    missing_values: Sequence[str],
    delimiter: str | None,
    encoding: str,
) -> Any:
    """The table of one file, by its suffix. Columns named in `texts` are read as text."""
    opened(path).close()  # says what is wrong with a file that is missing, or none
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    kind = suffixes[-1] if suffixes else ""
    if kind in PARQUET:
        table = _parquet(path, columns)
    elif kind in ARROW:
        table = _arrow(path)
    elif kind in CSV:
        separator = delimiter or ("\t" if kind == ".tsv" else ",")
        table = _csv(path, texts, missing_values, separator, encoding)
    else:
        known = ", ".join(sorted(CSV | PARQUET | ARROW))
        raise FileFormatError(f"[Table] {path}: the suffix is none of {known}: rename the file")
    repeated = {name for name in table.column_names if table.column_names.count(name) > 1}
    if repeated:
        raise FileFormatError(f"[Table] {path}: the columns {sorted(repeated)} come twice")
    if columns is None:
        return table
    require(path, columns, table.column_names)
    return table.select(list(columns))


def require(path: Path, wanted: Collection[str], present: Sequence[str]) -> None:
    """Raises `FileFormatError` for a column that the file lacks."""
    for name in wanted:
        if name not in present:
            close = difflib.get_close_matches(name, present, 1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise FileFormatError(
                f"[Table] {path}: no column {name!r}{hint}; the file has {list(present)}"
            )


def _parquet(path: Path, columns: Sequence[str] | None) -> Any:
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path, memory_map=True, page_checksum_verification=True)
        if columns is not None:
            require(path, columns, file.schema_arrow.names)
    except (OSError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(
            f"[Table] {path}: no whole Parquet file ({_first_line(error)}): copy or write it again"
        ) from error
    groups = []
    for number in range(file.num_row_groups):
        try:
            groups.append(file.read_row_group(number, columns))
        except (OSError, ValueError) as error:
            raise FileFormatError(
                f"[Table] {path}: row group {number} of {file.num_row_groups} cannot be read "
                f"({_first_line(error)}): copy or write the file again"
            ) from error
    return pyarrow().concat_tables(groups) if groups else file.schema_arrow.empty_table()


def _arrow(path: Path) -> Any:
    arrow = pyarrow()
    try:
        return arrow.ipc.open_file(arrow.memory_map(str(path))).read_all()
    except (OSError, ValueError) as error:
        raise FileFormatError(
            f"[Table] {path}: no whole Arrow file ({_first_line(error)}): write it with "
            "pyarrow.ipc.new_file, or to_feather(path, compression='uncompressed') of pandas"
        ) from error


def _csv(
    path: Path, texts: Collection[str], missing_values: Sequence[str], delimiter: str, encoding: str
) -> Any:
    arrow = pyarrow()
    from pyarrow import csv

    try:
        table = csv.read_csv(
            path,
            csv.ReadOptions(encoding=encoding),
            csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            csv.ConvertOptions(
                column_types={name: arrow.string() for name in texts},
                null_values=list(missing_values),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except (OSError, ValueError) as error:
        text = _first_line(error)
        remedy = "repair that row, or give delimiter="
        if isinstance(error, UnicodeError) or "UTF8" in text or "UTF-8" in text:
            remedy = _other_encoding(encoding)
        elif "straddling" in text:
            remedy = "a field has more than 1 MB: is a quotation mark missing?"
        raise FileFormatError(f"[Table] {path}: {text}: {remedy}") from error
    for field in table.schema:
        if arrow.types.is_binary(field.type):  # what is no text in this encoding
            raise FileFormatError(
                f"[Table] {path}: column {field.name!r}: {_other_encoding(encoding)}"
            )
    return table


def _other_encoding(encoding: str) -> str:
    return f"the text is not {encoding}: give encoding='latin-1', or what it is in"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
