"""Columns of an Arrow table as tensors: numbers as they are, texts as numbers of categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fl_tensor as ft
from fl_data.errors import DataError
from fl_data.tables.reading import is_text, pyarrow


def tensor_of(
    name: str, column: Any, missing: Any, categories: Sequence[str] | None
) -> tuple[Any, tuple[str, ...] | None]:
    """The tensor of a column, and its categories if it has texts.

    missing     what stands in place of a missing value; None: NaN in a floating column, an error in
                others
    categories  the texts whose places are the numbers; None: those that occur, sorted

    Raises `DataError` for missing values and for texts that are no category, with the row; and for
    types that are no numbers.
    """
    types = pyarrow().types
    kind = column.type
    if is_text(kind):
        return _codes(name, column, missing, categories)
    if categories is not None:
        raise DataError(
            f"[Table] column {name!r} has {kind} and no texts: it has no categories. For CSV files "
            f"they have to be given to Table.read, which then reads the column as text"
        )
    if types.is_fixed_size_list(kind) and _is_number(kind.value_type):
        whole = column.combine_chunks()
        whole = whole.combine_chunks() if hasattr(whole, "combine_chunks") else whole
        if whole.null_count or whole.flatten().null_count:
            raise _missing(name, whole, "give whole lists")
        numbers = _numbers(whole.flatten())
        return ft.reshape(numbers, (len(column), kind.list_size)), None
    if not _is_number(kind):
        way = "convert it before"
        if types.is_temporal(kind):
            way = (
                "cast it to int64 before (pyarrow.Table.set_column), or leave it out with columns="
            )
        elif types.is_null(kind):
            way = "all its values are missing: leave it out with columns="
        elif types.is_decimal(kind):
            way = "cast it to float64 before"
        raise DataError(f"[Table] column {name!r} has {kind}, which is no number: {way}")
    if column.null_count:
        if missing is None and types.is_floating(kind):
            missing = float("nan")
        if missing is None:
            raise _missing(name, column, f"give missing={{{name!r}: 0}}")
        column = _filled(name, column, missing)
    return _numbers(column), None


def _is_number(kind: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _numbers(column: Any) -> Any:
    # One chunk of Arrow's memory is shown without a copy, where the backend can.
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    if len(chunks) == 1 and not pyarrow().types.is_boolean(column.type) and len(column):
        array = chunks[0].to_numpy(zero_copy_only=True)
        try:
            return ft.asarray(array, copy=False)
        except ft.ArgumentError:
            return ft.asarray(array)
    return ft.asarray(column.to_numpy(**({} if hasattr(column, "chunks") else _COPIED)))


_COPIED = {"zero_copy_only": False}


def _filled(name: str, column: Any, value: Any) -> Any:
    arrow = pyarrow()
    try:
        return column.fill_null(arrow.scalar(value).cast(column.type))
    except (arrow.ArrowInvalid, arrow.ArrowTypeError, arrow.ArrowNotImplementedError) as error:
        raise DataError(
            f"[Table] missing={{{name!r}: {value!r}}} does not fit {column.type}: {error}"
        ) from error


def _codes(
    name: str, column: Any, missing: Any, categories: Sequence[str] | None
) -> tuple[Any, tuple[str, ...]]:
    arrow = pyarrow()
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type)):
        raise DataError(f"[Table] column {name!r} has categories of {column.type}: texts are read")
    if column.null_count:
        if not isinstance(missing, str):
            raise _missing(name, column, f"give missing={{{name!r}: 'unknown'}}")
        column = column.fill_null(missing)
    if categories is None:
        _refuse_mixed(name, column)
        categories = sorted(column.unique().to_pylist())
    elif len(set(categories)) < len(categories):
        raise DataError(f"[Table] categories of {name!r}: a text comes twice in {list(categories)}")
    index = arrow.compute.index_in(column, value_set=arrow.array(list(categories), column.type))
    if index.null_count:
        row = _first_null(index)
        raise DataError(
            f"[Table] column {name!r}, row {row}: {column[row].as_py()!r} is none of the "
            f"{len(categories)} categories: add it to categories={{{name!r}: [...]}}"
        )
    return _numbers(index.cast(arrow.int64())), tuple(categories)


def _refuse_mixed(name: str, column: Any) -> None:
    """A column with texts and numbers is a mistake in the file, most often."""
    compute = pyarrow().compute
    number = compute.match_substring_regex(column, r"^\s*[-+]?[0-9.]+([eE][-+]?[0-9]+)?\s*$")
    count = compute.sum(number).as_py() or 0
    if 0 < count < len(column):
        row = compute.index(number, False).as_py()
        text = column[row].as_py()
        raise DataError(
            f"[Table] column {name!r} has numbers, and in row {row} {text!r}: repair the file, "
            f"give missing_values=[{text!r}] where that means a missing value, or "
            f"categories={{{name!r}: [...]}} where all are texts"
        )


def _missing(name: str, column: Any, way: str) -> DataError:
    return DataError(
        f"[Table] column {name!r} lacks {column.null_count} of {len(column)} values, the first in "
        f"row {_first_null(column)}: {way}, or leave the column out with columns="
    )


def _first_null(column: Any) -> int:
    found: int = pyarrow().compute.index(column.is_null(), True).as_py()
    return found
