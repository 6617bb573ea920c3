"""Tables: CSV, Parquet and Arrow files as datasets, and errors that name file, column and row."""

from __future__ import annotations

import gzip
import math

import numpy as np
import pytest

import fl_data as data
import fl_tensor as ft

pa = pytest.importorskip("pyarrow", reason="tables take pyarrow: fl-data[arrow]")

import pyarrow.parquet as pq  # noqa: E402 - it is there

TEXT = "size,colour,count\n1.5,red,3\n,blue,4\n2.5,red,5\n"


@pytest.fixture
def written(tmp_path):
    def write(text, name="a.csv", encoding="utf8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding) if isinstance(text, str) else text)
        return path

    return write


def test_a_csv_file_is_rows_and_batches(written):
    table = data.Table.read(written(TEXT))
    assert len(table) == 3 and table.categories == {"colour": ("blue", "red")}
    row = table[0]
    assert [row[name].item() for name in ("size", "colour", "count")] == [1.5, 1, 3]
    assert row["size"].dtype == ft.float64 and row["count"].dtype == ft.int64
    assert math.isnan(table[1]["size"].item()), "a missing value of a floating column"
    batch = next(iter(data.Batch(data.Subset(table, [2, 0]), 2)))
    assert batch["count"].tolist() == [5, 3] and batch["colour"].tolist() == [1, 1]


def test_columns_are_chosen_converted_and_filled(written):
    path = written("a;b;c\n1;x;\n2;y;7\n")
    table = data.Table.read(
        path, ["c", "a"], delimiter=";", missing={"c": -1}, dtypes={"a": "float32"}
    )
    assert list(table[0]) == ["c", "a"] and table.tensors[0].tolist() == [-1, 7]
    assert table.tensors[1].dtype == ft.float32
    fixed = data.Table.read(path, ["b"], delimiter=";", categories={"b": ["z", "y", "x"]})
    assert fixed.tensors[0].tolist() == [2, 1] and fixed.categories == {"b": ("z", "y", "x")}
    digits = data.Table.read(written("zip\n01\n10\n"), categories={"zip": ["10", "01"]})
    assert digits.tensors[0].tolist() == [1, 0], "categories are read as text"


def test_texts_that_are_missing_become_a_category(written):
    path = written("a,b\n1,x\n2,\n3,NA\n")
    table = data.Table.read(path, missing={"b": "unknown"})
    assert table.categories["b"] == ("unknown", "x") and table.tensors[1].tolist() == [1, 0, 0]


@pytest.mark.parametrize("suffix", [".csv.gz", ".tsv"])
def test_suffixes_say_how_a_file_is_read(written, suffix):
    text = TEXT.replace(",", "\t") if suffix == ".tsv" else TEXT
    content = gzip.compress(text.encode()) if suffix == ".csv.gz" else text
    assert len(data.Table.read(written(content, f"a{suffix}"))) == 3


COLUMNS = {
    "flag": pa.array([True, False, True]),
    "small": pa.array([1, -2, 3], pa.int8()),
    "half": pa.array(np.array([1, 0.5, 2], np.float16)),
    "wide": pa.array([1.5, 2.5, -3.0]),
    "pair": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2)),
    "kind": pa.array(["b", "a", "b"]).dictionary_encode(),
}


@pytest.mark.parametrize("kind", ["parquet", "arrow", "pieces"])
def test_parquet_and_arrow_keep_their_types(tmp_path, kind):
    table = pa.table({name: x for name, x in COLUMNS.items() if name != "half" or kind == "arrow"})
    path = tmp_path / f"a.{'arrow' if kind == 'arrow' else 'parquet'}"
    if kind == "arrow":
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    else:
        pq.write_table(table, path, row_group_size=2 if kind == "pieces" else None)
    found = data.Table.read(path)
    rows = found.__getitems__([2, 0])
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name == "kind":
            assert rows[name].tolist() == [1, 1] and found.categories[name] == ("a", "b")
            continue
        wanted = column.to_pylist()
        assert rows[name].tolist() == [wanted[2], wanted[0]]
    assert rows["flag"].dtype == ft.bool and rows["small"].dtype == ft.int8
    assert rows["pair"].shape == (2, 2) and rows["wide"].dtype == ft.float64


def test_columns_of_arrow_are_not_copied():
    if ft.current_backend().name not in ("numpy", "jit"):
        pytest.skip("the backend keeps its elements elsewhere")
    column = pa.array(np.arange(1000.0))
    table = data.Table(pa.table({"x": column}))
    assert np.shares_memory(np.asarray(table.tensors[0]), column.to_numpy())


def test_files_are_joined(written):
    paths = [written(TEXT, "a.csv"), written("count,colour,size\n9,green,0.5\n", "b.csv")]
    table = data.Table.read(paths)
    assert len(table) == 4 and table.categories["colour"] == ("blue", "green", "red")
    assert table.tensors[2].tolist() == [3, 4, 5, 9]


def broken(path, keep):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    return path


def parquet(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": list(range(1000))}), path)
    return path


REFUSED = [
    (lambda w, t: t / "none.csv", {}, data.FileFormatError, r"none.csv: cannot be read"),
    (lambda w, t: w(TEXT, "a.xls"), {}, data.FileFormatError, "suffix is none of .arrow, .csv"),
    (
        lambda w, t: w(TEXT),
        {"columns": ["size", "color"]},
        data.FileFormatError,
        r"no column 'color' \(did you mean 'colour'\?\); the file has \['size', 'colour', 'count'",
    ),
    (
        lambda w, t: w("a,b\n1,2\n3\n"),
        {},
        data.FileFormatError,
        "Expected 2 columns, got 1.*repair that row",
    ),
    (lambda w, t: w("a,a\n1,2\n"), {}, data.FileFormatError, r"columns \['a'\] come twice"),
    (
        lambda w, t: w("a\nä\n", encoding="latin-1"),
        {},
        data.FileFormatError,
        "is not utf8: give encoding='latin-1'",
    ),
    (
        lambda w, t: w('a,b\n1,"' + "x" * 3_000_000),
        {},
        data.FileFormatError,
        "quotation mark missing",
    ),
    (
        lambda w, t: w("a,b\n1,x\n2,3\n3,4\n"),
        {},
        data.DataError,
        r"column 'b' has numbers, and in row 0 'x': repair the file, give missing_values=\['x'\]",
    ),
    (
        lambda w, t: w("a,b\n1,2\n,3\n"),
        {},
        data.DataError,
        r"column 'a' lacks 1 of 2 values, the first in row 1: give missing=\{'a': 0\}",
    ),
    (
        lambda w, t: w("a,b\n1,x\n2,y\n"),
        {"categories": {"b": ["x"]}},
        data.DataError,
        "column 'b', row 1: 'y' is none of the 1 categories",
    ),
    (
        lambda w, t: w("a\n2020-01-01\n"),
        {},
        data.DataError,
        "column 'a' has date32.*cast it to int64",
    ),
    (
        lambda w, t: w("a\n1\n\n"),
        {"missing": {"b": 0}},
        data.DataError,
        r"missing names the columns \['b'\]; there are \['a'\]",
    ),
    (
        lambda w, t: w("a,b\n,1\n1,2\n"),
        {"missing": {"a": "none"}},
        data.DataError,
        "'none'} does not fit int64",
    ),
    (
        lambda w, t: broken(parquet(t), 0.6),
        {},
        data.FileFormatError,
        r"a.parquet: no whole Parquet file .*copy or write it again",
    ),
    (lambda w, t: w(b"ARROW1", "a.arrow"), {}, data.FileFormatError, "no whole Arrow file"),
]


@pytest.mark.parametrize(("make", "options", "error", "message"), REFUSED)
def test_what_cannot_be_read_is_named(written, tmp_path, make, options, error, message):
    with pytest.raises(error, match=message):
        data.Table.read(make(written, tmp_path), **options)


def test_a_damaged_row_group_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"x": np.random.default_rng(0).integers(0, 1 << 60, 4000)})
    options = {"use_dictionary": False, "write_page_checksum": True}
    pq.write_table(table, path, row_group_size=1000, **options)
    content = bytearray(path.read_bytes())
    content[len(content) * 5 // 8 : len(content) * 5 // 8 + 200] = bytes(200)
    path.write_bytes(content)
    with pytest.raises(data.FileFormatError, match=r"row group 2 of 4 cannot be read"):
        data.Table.read(path)


def test_files_of_other_types_are_refused(written):
    paths = [written("a\n1\n", "a.csv"), written("a\n1.5\n", "b.csv")]
    with pytest.raises(data.FileFormatError, match="b.csv: column 'a' has double, and int64 in"):
        data.Table.read(paths)


def test_other_objects_are_refused():
    with pytest.raises(data.DataError, match=r"pyarrow.Table.from_pandas\(frame\)"):
        data.Table({"x": [1]})
