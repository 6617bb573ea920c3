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
        table = _arrow_file(path).read_all()
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


def same_columns(path: Path, table: Any, first_path: Path, first: Any) -> None:
    """Raises `FileFormatError` unless a table has the columns of the first one, in their types."""
    for field in first.schema:
        require(path, [field.name], table.column_names)
        kind = table.schema.field(field.name).type
        if kind != field.type:
            raise FileFormatError(
                f"[Table] {path}: column {field.name!r} has {kind}, and {field.type} in "
                f"{first_path}: write the files with one type"
            )


def is_text(kind: Any) -> bool:
    """Whether a column of this type has texts, or numbers of them."""
    types = pyarrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind))


def group_sizes(path: Path, columns: Sequence[str] | None) -> list[int]:
    """The rows of each row group of a Parquet file, or record batch of an Arrow file."""
    opened(path).close()
    if path.suffix.lower() in PARQUET:
        metadata = _parquet_file(path, columns).metadata
        return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    if path.suffix.lower() in ARROW:
        reader = _arrow_file(path)
        require(path, columns or [], reader.schema.names)
        return [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
    raise FileFormatError(
        f"[TableStream] {path}: row groups are in {', '.join(sorted(PARQUET | ARROW))}: convert "
        "the file, or use Table.read"
    )


def read_group(path: Path, number: int, columns: Sequence[str] | None) -> Any:
    """One row group, or record batch, as a table."""
    if path.suffix.lower() in PARQUET:
        return _row_group(path, _parquet_file(path, columns), number, columns)
    table = pyarrow().Table.from_batches([_arrow_file(path).get_batch(number)])
    return table if columns is None else table.select(list(columns))


def _parquet(path: Path, columns: Sequence[str] | None) -> Any:
    file = _parquet_file(path, columns)
    groups = [_row_group(path, file, i, columns) for i in range(file.num_row_groups)]
    return pyarrow().concat_tables(groups) if groups else file.schema_arrow.empty_table()


def _parquet_file(path: Path, columns: Sequence[str] | None) -> Any:
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path, memory_map=True, page_checksum_verification=True)
    except (OSError, ValueError) as error:
        raise FileFormatError(
            f"[Table] {path}: no whole Parquet file ({_first_line(error)}): copy or write it again"
        ) from error
    require(path, columns or [], file.schema_arrow.names)
    return file


def _row_group(path: Path, file: Any, number: int, columns: Sequence[str] | None) -> Any:
    try:
        return file.read_row_group(number, columns)
    except (OSError, ValueError) as error:
        raise FileFormatError(
            f"[Table] {path}: row group {number} of {file.num_row_groups} cannot be read "
            f"({_first_line(error)}): copy or write the file again"
        ) from error


def _arrow_file(path: Path) -> Any:
    arrow = pyarrow()
    try:
        return arrow.ipc.open_file(arrow.memory_map(str(path)))
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
