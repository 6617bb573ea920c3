"""The file format of traces: what is written is read, and nothing else is taken for a trace."""

from __future__ import annotations

import json
import os
import random
import tracemalloc
import zlib
from array import array
from pathlib import Path
from typing import Any

import pytest

from fl_memory import TraceError, traces
from fl_memory.traces import COLUMNS, Trace

RECORDED = sorted((Path(__file__).parent / "traces").glob("*.flmt"))


def small() -> Trace:
    """A trace with every kind of row."""
    trace = Trace(facts={"model": "tiny", "device": "cpu", "sizes": [1, 2.5, None]})
    trace.append("mark", tag="step", nbytes=1, ns=5)
    trace.append("reserve_hint", nbytes=1 << 40, ns=7)
    cause = {"operation": "matmul", "module": "layer.0", "phase": "forward"}
    sizes = {"nbytes": 100, "capacity": 512, "alignment": 256}
    trace.append("alloc", block=7, stream="stream 1", tag="weights ±", thread=2, **cause, **sizes)
    trace.append("refuse", nbytes=1 << 62, ns=11)
    trace.append("free", block=7, ns=9, step=1)
    return trace


def parts(trace: Trace, path: Path) -> tuple[dict[str, Any], list[bytes]]:
    """The header of a file, and its columns as they are there."""
    traces.write(trace, path)
    _, line, rest = path.read_bytes().split(b"\n", 2)
    header = json.loads(line)
    columns = []
    for entry in header["columns"]:
        columns.append(rest[: entry["bytes"]])
        rest = rest[entry["bytes"] :]
    return header, columns


def assemble(path: Path, header: dict[str, Any], columns: list[bytes]) -> Path:
    for entry, data in zip(header["columns"], columns):
        entry["bytes"] = len(data)
    path.write_bytes(b"FLMT1\n" + json.dumps(header).encode() + b"\n" + b"".join(columns))
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.flmt"
    for trace in (small(), Trace(), Trace(facts={"model": "none"})):
        traces.write(trace, path)
        again = traces.read(path)
        assert again == trace and again.facts == trace.facts
    assert os.listdir(tmp_path) == ["a.flmt"]


def test_the_bytes_are_as_documented(tmp_path: Path) -> None:
    header, columns = parts(small(), tmp_path / "a.flmt")
    assert header["rows"] == 5
    assert [entry["name"] for entry in header["columns"]] == list(COLUMNS)
    assert header["tables"]["tag"] == ["", "step", "weights ±"]
    raw = zlib.decompress(columns[COLUMNS.index("ns")])
    differences = [raw[row::5] for row in range(5)]
    assert [int.from_bytes(d, "little", signed=True) for d in differences] == [5, 2, -7, 11, -2]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_row_takes_at_most_8_bytes(path: Path, tmp_path: Path) -> None:
    trace = traces.read(path)
    again = tmp_path / "again.flmt"
    traces.write(trace, again)
    assert again.stat().st_size <= 8 * len(trace)
    assert traces.read(again) == trace


def test_unknown_columns_and_tables_are_skipped_and_missing_ones_are_0(tmp_path: Path) -> None:
    path = tmp_path / "a.flmt"
    header, columns = parts(small(), path)
    header["columns"].insert(1, {"name": "temperature"})
    columns.insert(1, b"not even zlib")
    header["tables"]["weather"] = 3
    header["colour"] = "green"
    kept = [n for n, entry in enumerate(header["columns"]) if entry["name"] not in ("ns", "phase")]
    header["columns"] = [header["columns"][n] for n in kept]
    trace = traces.read(assemble(path, header, [columns[n] for n in kept]))
    assert list(trace.columns["nbytes"]) == list(small().columns["nbytes"])
    assert set(trace.columns["ns"]) == set(trace.columns["phase"]) == {0}


def test_every_truncation_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.flmt"
    traces.write(small(), path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(TraceError, match=r"a\.flmt"):
            traces.read(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(TraceError, match="longer than it says"):
        traces.read(path)


def test_damaged_bytes_raise_trace_error_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.flmt"
    traces.write(small(), path)
    whole = path.read_bytes()
    draw = random.Random(0)
    for _ in range(2000):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        path.write_bytes(damaged)
        try:
            traces.read(path).check()
        except TraceError:
            pass


def header_with(**changes: Any) -> Any:
    def change(header: dict[str, Any]) -> None:
        for key, value in changes.items():
            header[key] = value

    return change


def with_column(**entry: Any) -> Any:
    return lambda header: header["columns"][0].update(entry)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (header_with(rows=-1), "rows -1"),
        (header_with(rows="5"), "rows '5'"),
        (header_with(rows=1 << 80), "rows"),
        (header_with(rows=1 << 40), "cannot come from"),
        (header_with(rows=4), "bytes of 4 rows"),
        (header_with(columns={}), "columns"),
        (header_with(columns=[{"name": "x", "bytes": 0}] * 300), "too many"),
        (with_column(bytes=-1), "column"),
        (with_column(bytes=1 << 61), "truncated"),
        (with_column(name="block"), "column"),
        (with_column(name="colour"), "no column kind"),
        (with_column(name=None), "column"),
        (header_with(tables=[]), "tables"),
        (header_with(facts=None), "facts"),
        (header_with(tables={"tag": []}), "table 'tag'"),
        (header_with(tables={"tag": ["x"]}), "table 'tag'"),
        (header_with(tables={"tag": ["", 5]}), "no strings"),
        (header_with(tables={"tag": ["", "x" * 300]}), "too long"),
        (header_with(tables={"tag": [""] * 5000}), "table 'tag'"),
        (header_with(tables={"tag": ["", "step"]}), "table lacks"),
    ],
)
def test_absurd_headers(change: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.flmt"
    header, columns = parts(small(), path)
    change(header)
    path.write_bytes(b"FLMT1\n" + json.dumps(header).encode() + b"\n" + b"".join(columns))
    with pytest.raises(TraceError, match=message):
        traces.read(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"FLMT2\n{}\n",
        b"PK\3\4 an archive",
        b"FLMT1\n",
        b"FLMT1\n[1, 2]\n",
        b"FLMT1\n{\xff}\n",
        b"FLMT1\nnull\n",
        b"FLMT1\n" + b"[" * 100_000 + b"\n",
        b"FLMT1\n" + b" " * (1 << 23) + b"{}\n",
    ],
    ids=range(9),
)
def test_what_is_no_trace(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.flmt"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"a\.flmt"):
        traces.read(path)


def test_a_column_that_expands_without_end_is_not_expanded(tmp_path: Path) -> None:
    path = tmp_path / "a.flmt"
    header, columns = parts(small(), path)
    columns[3] = zlib.compress(bytes(1 << 26), 9)
    assemble(path, header, columns)
    tracemalloc.start()
    with pytest.raises(TraceError, match="has not the 40 bytes"):
        traces.read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
    columns[3] = zlib.compress(bytes(40)) + b"more"
    with pytest.raises(TraceError, match="has not the 40 bytes"):
        traces.read(assemble(path, header, columns))
    columns[3] = zlib.compress(b"\xff" * 35 + b"\x7f" * 5)  # 5 times 2**63 - 1
    with pytest.raises(TraceError, match="beyond 64 bits"):
        traces.read(assemble(path, header, columns))


def test_longer_traces_are_read_on_request_only(tmp_path: Path) -> None:
    path = tmp_path / "a.flmt"
    traces.write(small(), path)
    with pytest.raises(TraceError, match="max_rows=5"):
        traces.read(path, max_rows=4)
    assert len(traces.read(path, max_rows=5)) == 5


def test_what_no_program_does() -> None:
    def of(*rows: tuple[str, dict[str, int]]) -> Trace:
        trace = Trace()
        for kind, cells in rows:
            trace.append(kind, **({"alignment": 64} if kind == "alloc" else {}), **cells)
        return trace

    for message, rows in {
        "row 0: block 3 is freed": [("free", {"block": 3})],
        "row 1: block 3 is allocated a second": [("alloc", {"block": 3}), ("alloc", {"block": 3})],
        "row 0: a size of -5": [("alloc", {"nbytes": -5})],
        "row 0: 5 bytes are granted for 6": [("alloc", {"nbytes": 6, "capacity": 5})],
        "row 0: a size of -1": [("refuse", {"nbytes": -1})],
    }.items():
        with pytest.raises(TraceError, match=message):
            of(*rows).check()
    unaligned = Trace()
    unaligned.append("alloc", alignment=48)
    with pytest.raises(TraceError, match="alignment 48"):
        unaligned.check()
    kinds = of(("free", {}))
    kinds.columns["kind"][0] = 9
    with pytest.raises(TraceError, match="kind 9"):
        kinds.check()
    with pytest.raises(TraceError, match="differ in length"):
        Trace({"kind": array("q", [3]), "block": array("q", [1, 2])}).check()
    with pytest.raises(TraceError, match="the kinds are alloc, free"):
        Trace().append("malloc")
    with pytest.raises(TraceError, match="the columns kind, block"):
        Trace().append("alloc", colour=3)


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.flmt"
    traces.write(small(), path)
    before = path.read_bytes()
    wrong = small()
    wrong.append("free", block=99)
    with pytest.raises(TraceError, match="row 5"):
        traces.write(wrong, path)
    with pytest.raises(TraceError, match="not JSON"):
        traces.write(Trace(facts={"model": object()}), path)
    with pytest.raises(TraceError, match="not JSON"):
        traces.write(Trace(facts={"loss": float("nan")}), path)
    with pytest.raises(TraceError, match="names and facts"):
        traces.write(Trace(facts={"log": "x" * (1 << 23)}), path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.flmt"]


def test_a_full_disk_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.flmt"
    traces.write(small(), path)
    before = path.read_bytes()

    def full(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        traces.write(Trace(), path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.flmt"]


def test_only_regular_files(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="not a regular file"):
        traces.read(tmp_path)
    with pytest.raises(TraceError, match="not a regular file"):
        traces.write(small(), tmp_path)
    with pytest.raises(FileNotFoundError):
        traces.read(tmp_path / "absent")
    with pytest.raises(FileNotFoundError):
        traces.write(small(), tmp_path / "absent" / "a.flmt")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(TraceError, match="not a regular file"):
            traces.read(tmp_path / "pipe")


def test_tables_are_bounded() -> None:
    trace = Trace()
    for number in range(5000):
        trace.append("mark", tag=f"mark {number}")
    trace.append("mark", tag="y" * 1000)
    names = trace.tables["tag"]
    assert len(names) == 4096 and names[-1] == "(other)" and names[-2] == "mark 4093"
    assert trace.columns["tag"][-1] == 4095
    trace.check()
    other = Trace()
    other.append("mark", tag="y" * 1000)
    assert other.tables["tag"] == ["", "y" * 256]


def test_the_longest_tables_can_be_written(tmp_path: Path) -> None:
    trace = Trace()
    for number in range(5000):
        name = f"{number:04}" + 252 * "\U0001f525"
        trace.append("refuse", **dict.fromkeys(traces.TABLES, name))
    assert {names[-1] for names in trace.tables.values()} == {"(other)"}
    traces.write(trace, tmp_path / "a.flmt")
    assert traces.read(tmp_path / "a.flmt") == trace


def test_a_symbolic_link_stays(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a.flmt")
    traces.write(small(), tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and traces.read(tmp_path / "a.flmt") == small()
