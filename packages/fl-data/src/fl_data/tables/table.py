"""`Table`: the columns of a table as one dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from fl_data.arrays.tensors import TensorDataset
from fl_data.errors import DataError
from fl_data.tables import reading
from fl_data.tables.columns import tensor_of

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]
#: What means a missing value in a CSV file, beside an empty field.
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")


class Table(TensorDataset):
    """Sample `i` is row `i`, a dict of 0-d tensors; a batch is one gather for each column.

    table       a `pyarrow.Table`
    missing     by column, what stands in place of a missing value: a number, or a text for a column
                of texts. Without it a missing value is NaN in floating columns, and an error in
                others
    categories  by column, its texts in the order of their numbers, so that several tables agree;
                without it the texts that occur, sorted. `table.categories` has them
    dtypes      by column, another dtype: `{"x": "float32"}`

    Numbers keep their type, texts and dictionaries become int64 numbers of categories, lists of one
    length rows of a 2-d tensor. A column in one piece of memory is shown and not copied. Takes
    pyarrow: `pip install "fl-data[arrow]"`.

    Raises `DataError` with column and row for missing values, unknown categories, and columns with
    texts among numbers.
    """

    def __init__(
        self,
        table: Any,
        *,
        missing: Mapping[str, Any] | None = None,
        categories: Mapping[str, Sequence[str]] | None = None,
        dtypes: Mapping[str, Any] | None = None,
    ) -> None:
        arrow = reading.pyarrow()
        if not isinstance(table, arrow.Table):
            raise DataError(
                f"[Table] takes a pyarrow.Table, not a {type(table).__name__}: Table.read(path) "
                "reads files, pyarrow.Table.from_pandas(frame) and from_pydict(columns) convert"
            )
        if not table.num_columns:
            raise DataError("[Table] there are no columns")
        for what, given in (("missing", missing), ("categories", categories), ("dtypes", dtypes)):
            if unknown := sorted(set(given or ()) - set(table.column_names)):
                raise DataError(
                    f"[Table] {what} names the columns {unknown}; there are {table.column_names}"
                )
        columns: dict[str, Any] = {}
        other = dtypes or {}
        #: The texts of each column of categories: number `i` is text `i`.
        self.categories: dict[str, tuple[str, ...]] = {}
        for name in table.column_names:
            tensor, texts = tensor_of(
                name,
                table.column(name),
                (missing or {}).get(name),
                (categories or {}).get(name),
            )
            columns[name] = tensor.astype(other[name]) if name in other else tensor
            if texts is not None:
                self.categories[name] = texts
        super().__init__(**columns)

    @classmethod
    def read(
        cls,
        path: Paths,
        columns: Sequence[str] | None = None,
        *,
        missing: Mapping[str, Any] | None = None,
        categories: Mapping[str, Sequence[str]] | None = None,
        dtypes: Mapping[str, Any] | None = None,
        missing_values: Sequence[str] = MISSING,
        delimiter: str | None = None,
        encoding: str = "utf8",
    ) -> Table:
        """The table of a file, or of several with the same columns, one after the other.

        path            `.csv`, `.tsv` (also compressed: `.csv.gz`), `.parquet`, or an Arrow file
                        (`.arrow`, `.feather`), which is memory-mapped
        columns         those to read, in this order; all of them otherwise
        missing_values  what means a missing value in CSV files, where it is not quoted
        delimiter       between the fields of CSV files: a comma, a tabulator in `.tsv`
        encoding        of CSV files

        Raises `FileFormatError` with file, column or row group for a file that is missing, damaged,
        in another encoding, or without a column; `DataError` as the class.
        """
        arrow = reading.pyarrow()
        files = paths_of(path)
        texts = set(categories or ())
        tables = [
            reading.read(file, columns, texts, missing_values, delimiter, encoding)
            for file in files
        ]
        for file, table in zip(files, tables):
            reading.same_columns(file, table, files[0], tables[0])
        joined = arrow.concat_tables([table.select(tables[0].column_names) for table in tables])
        return cls(joined, missing=missing, categories=categories, dtypes=dtypes)


def paths_of(paths: Paths) -> list[Path]:
    """One or several paths as a list. Raises `DataError` for none."""
    given = [paths] if isinstance(paths, (str, PathLike)) else list(paths)
    if not given:
        raise DataError("[Table] there are no files")
    return [Path(path) for path in given]
