"""Row groups as a stream of equal batches: mixed, resumed exactly, shared, with errors."""

from __future__ import annotations

import pytest

import fl_data as data

pa = pytest.importorskip("pyarrow", reason="tables take pyarrow: fl-data[arrow]")

import pyarrow.parquet as pq  # noqa: E402 - it is there

ROWS = 103


@pytest.fixture(params=["parquet", "arrow"])
def files(tmp_path, request):
    """Two files with the rows 0 .. 102 in groups of 10, as `x` and twice that as `y`."""
    found = []
    for number, (first, stop) in enumerate([(0, 55), (55, ROWS)]):
        x = list(range(first, stop))
        table = pa.table({"x": x, "y": [2.0 * i for i in x], "kind": ["ab"[i % 2] for i in x]})
        found.append(tmp_path / f"{number}.{request.param}")
        if request.param == "parquet":
            pq.write_table(table, found[-1], row_group_size=10)
        else:
            with pa.ipc.new_file(found[-1], table.schema) as file:
                file.write_table(table, max_chunksize=10)
    return found


def made(files, **options):
    options = {"categories": {"kind": ["a", "b"]}, "seed": 1, "buffer": 3, **options}
    return data.TableStream(files, 8, **options)


def listed(stream):
    return [batch["x"].tolist() for batch in stream]


def test_batches_are_equal_whatever_the_groups(files):
    batches = listed(made(files, shuffle=False))
    assert sum(batches, []) == list(range(ROWS))
    assert [len(batch) for batch in batches] == [8] * 12 + [7] and len(made(files)) == 13


def test_an_epoch_has_every_row_once_in_an_order_of_its_own(files):
    stream = made(files)
    orders = [sum(listed(stream), []) for _ in range(2)]
    assert all(sorted(order) == list(range(ROWS)) for order in orders) and orders[0] != orders[1]
    again = made(files)
    again.set_epoch(1)
    assert sum(listed(again), []) == orders[1]
    groups = {i // 10 if i < 55 else 6 + (i - 55) // 10 for i in orders[0][:20]}
    assert len(groups) > 1, "rows of several groups are mixed"
    for batch in made(files):
        assert batch["y"].tolist() == [2.0 * i for i in batch["x"].tolist()]
        assert batch["kind"].tolist() == [i % 2 for i in batch["x"].tolist()]


def test_every_moment_is_resumed_exactly(files):
    whole = listed(made(files))
    for taken in range(len(whole)):
        iterator = iter(made(files))
        for _ in range(taken):
            next(iterator)
        resumed = iter(made(files))
        resumed.load_state(iterator.state())
        assert listed(resumed) == whole[taken:]


def test_ranks_share_batches(files):
    parts = [listed(made(files).share(rank, 2)) for rank in range(2)]
    assert len(parts[0]) == len(parts[1]) == 6
    assert len({i for part in parts for batch in part for i in batch}) == 96


def test_what_cannot_be_is_named(files, tmp_path):
    with pytest.raises(data.FileFormatError, match=r"no column 'z'"):
        made(files, columns=["z"])
    with pytest.raises(data.DataError, match=r"column 'kind' has texts: give categories=\{'kind'"):
        listed(made(files, categories=None))
    other = files[0].with_name(f"other{files[0].suffix}")
    if other.suffix == ".parquet":
        pq.write_table(pa.table({"x": [1.5]}), other)
    else:
        with pa.ipc.new_file(other, pa.schema({"x": pa.float64()})) as file:
            file.write_table(pa.table({"x": [1.5]}))
    with pytest.raises(data.FileFormatError, match=r"column 'x' has (double|int64), and"):
        listed(made([files[0], other], columns=["x"], categories=None))
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(data.FileFormatError, match="convert the file, or use Table.read"):
        made([tmp_path / "a.csv"])
