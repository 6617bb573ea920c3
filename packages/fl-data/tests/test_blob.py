"""Blobs: what goes in comes out, from files that grow, are shared, and outlive their writers."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading

import pytest

import fl_data as data
import fl_tensor as ft
from fl_data.blobs import container

DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 bfloat16 float32 float64 complex64 complex128"
).split()


def same(a, b):
    if isinstance(a, ft.Array):
        assert (a.shape, a.dtype, bytes(a.tobytes())) == (b.shape, b.dtype, bytes(b.tobytes()))
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for name in a:
            same(a[name], b[name])
    elif isinstance(a, tuple | list):
        assert (type(a), len(a)) == (type(b), len(b))
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert (type(a), a) == (type(b), b)
    return True


@pytest.fixture(params=["file", "memory"])
def blob(request, tmp_path):
    """An empty blob to which samples can be added."""
    if request.param == "memory":
        yield data.MemoryBlob()
    else:
        with data.FileBlob(tmp_path / "some.blob", "w") as made:
            yield made


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 1, 3, 1, 2, 1)])
def test_every_dtype_and_shape_comes_back_bit_for_bit(blob, dtype, shape):
    x = (ft.randn(shape) * 5).astype(dtype)
    blob.add((x,))
    assert same(blob[0], (x,))


@pytest.mark.parametrize(
    "sample",
    [
        (),
        {},
        {"text": "äß\0", "bytes": b"\0\xff", "nothing": None, "yes": True, "no": False},
        (1, -(2**63), 2**63 - 1, 0.5, float("inf"), ""),
        {"boxes": [ft.ones((2, 4)), ft.ones((0, 4))], "meta": {"id": 7, "tags": ("a", "b", [])}},
    ],
)
def test_numbers_text_and_nested_values_come_back(blob, sample):
    blob.add(sample)
    assert same(blob[0], sample)


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ((object(),), r"sample\[0\] is a object"),
        ({"a": [1, {2: 3}]}, r"sample\['a'\]\[1\] has the key 2"),
        ((2**63,), "no int64"),
        (("\ud800",), "no proper text"),
        ([1], "a tuple or a dict, got list"),
        (1, "a tuple or a dict, got int"),
    ],
)
def test_what_cannot_be_stored_says_where_and_adds_nothing(blob, sample, message):
    with pytest.raises(data.SampleTypeError, match=message):
        blob.add(sample)
    assert len(blob) == 0
    nested = ()
    for _ in range(40):
        nested = (nested,)
    with pytest.raises(data.SampleTypeError, match="more than 32 levels"):
        blob.add(nested)


def test_a_blob_is_a_dataset(blob, rows, labels):
    for sample in rows(7):
        blob.add(sample)
    assert labels(data.Batch(blob, 3)) == list(range(7))
    assert blob[-1][1].item() == 6
    with pytest.raises(data.SampleIndexError, match="index 7 is out of range"):
        blob[7]
    iterator = iter(data.Shuffle(blob))
    next(iterator)
    resumed = iter(data.Shuffle(blob))
    resumed.load_state(iterator.state())
    assert labels(resumed) == labels(iterator)


def test_raw_is_what_is_stored(blob):
    blob.add({"x": ft.asarray([1, 2], dtype=ft.int16), "name": "a"})
    sample = blob.raw(0)
    assert sample["name"] == "a"
    assert (bytes(sample["x"].data), sample["x"].shape) == (b"\1\0\2\0", (2,))
    assert sample["x"].data.readonly
    assert sample["x"].dtype is ft.int16
    blob.add(sample)
    assert same(blob[1], blob[0])


def test_a_host_transform_sees_bytes_shape_and_dtype(tmp_path):
    seen = []

    def decode(content, shape, dtype):
        seen.append((bytes(content), shape, dtype))
        return ft.zeros((2, 2))

    path = tmp_path / "x.blob"
    with data.FileBlob(path, "w") as blob:
        blob.add((ft.asarray([7, 8], dtype=ft.uint8), 1))
    for stored in (data.FileBlob(path, host_transforms={0: decode}), pickle_free(path, decode)):
        image, label = stored[0]
        assert (image.shape, label) == ((2, 2), 1)
    assert seen == [(b"\7\10", (2,), ft.uint8)] * 2
    for field, why in ((1, "no tensor"), (2, "not in the sample")):
        with pytest.raises(data.DataError, match=f"field {field}, which is {why}"):
            data.FileBlob(path, host_transforms={field: decode})[0]


def pickle_free(path, hook):
    memory = data.MemoryBlob(host_transforms={0: hook})
    memory.add(data.FileBlob(path))
    return memory


def test_a_file_is_opened_again_and_grows(tmp_path, rows, labels):
    path = tmp_path / "x.blob"
    for start in (0, 3, 5):
        with data.FileBlob(path, "a") as blob:
            for sample in data.Span(rows(7), start, min(3, 7 - start) if start else 3):
                blob.add(sample)
                assert labels([blob[-1]]) == [sample[1].item()]  # before it is committed
    assert labels(data.FileBlob(path)) == [0, 1, 2, 3, 4, 5, 5, 6]
    with data.FileBlob(path, "a"):
        assert len(data.FileBlob(path)) == 8
    with data.FileBlob(path, "w") as blob:
        assert len(blob) == 0
    assert len(data.FileBlob(path)) == 0


def test_a_blob_is_added_to_a_blob(tmp_path, rows, labels):
    with data.FileBlob(tmp_path / "a.blob", "w") as one:
        one.add(rows(2)[1])
        one.add(data.MemoryBlob(rows(3)))
        one.add(one)
    assert labels(data.FileBlob(tmp_path / "a.blob")) == [1, 0, 1, 2] * 2
    memory = data.MemoryBlob()
    memory.add(data.FileBlob(tmp_path / "a.blob"))
    assert labels(memory) == [1, 0, 1, 2] * 2


def test_readers_see_what_was_committed_when_they_came(tmp_path, rows):
    path = tmp_path / "x.blob"
    with data.FileBlob(path, "w") as blob:
        blob.add(rows(1)[0])
        early = data.FileBlob(path)
        blob.commit()
        late = data.FileBlob(path)
        blob.add(rows(1)[0])
        assert (len(early), len(late), len(blob)) == (0, 1, 2)
        assert same(late[0], rows(1)[0])


def test_there_is_one_writer(tmp_path):
    with (
        data.FileBlob(tmp_path / "x.blob", "w"),
        pytest.raises(data.BlobError, match="one writer at a time"),
    ):
        data.FileBlob(tmp_path / "x.blob", "a")
    data.FileBlob(tmp_path / "x.blob", "a").close()


def test_an_error_inside_with_commits_nothing(tmp_path, rows):
    path = tmp_path / "x.blob"
    with pytest.raises(KeyError), data.FileBlob(path, "a") as blob:
        blob.add(rows(1)[0])
        blob.commit()
        blob.add(rows(1)[0])
        raise KeyError
    assert len(data.FileBlob(path)) == 1
    left_behind = path.stat().st_size
    data.FileBlob(path, "a").close()
    assert path.stat().st_size < left_behind
    with data.FileBlob(path, "a") as blob:  # and what it left behind does no harm
        blob.add(rows(3)[2])
    assert [sample[1].item() for sample in data.FileBlob(path)] == [0, 2]


def test_a_writer_that_is_killed_loses_only_what_it_had_not_committed(tmp_path):
    path = tmp_path / "x.blob"
    code = f"""
import os, signal, fl_data as data
blob = data.FileBlob({str(path)!r}, "w")
for i in range(100):
    blob.add((i, "x" * 1000))
    if i == 59:
        blob.commit()
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    assert path.stat().st_size > 100_000
    assert [sample[0] for sample in data.FileBlob(path)] == list(range(60))


def test_a_write_that_stops_anywhere_loses_nothing_that_was_committed(tmp_path, monkeypatch):
    path = tmp_path / "x.blob"
    with data.FileBlob(path, "w") as blob:
        blob.add((0,))
    before, writes = path.read_bytes(), []
    write_at = container.write_at

    def noted(file, at, content):
        writes.append((at, bytes(content)))
        write_at(file, at, content)

    monkeypatch.setattr(container, "write_at", noted)
    with data.FileBlob(path, "a") as blob:
        blob.add((1,))
    monkeypatch.undo()
    *_, (slot, content) = writes
    states = set()
    for stop in range(1 + sum(len(content) for _, content in writes)):
        found, left = bytearray(before), stop
        for at, part in writes:
            found[at : at + min(left, len(part))] = part[:left]
            left = max(0, left - len(part))
        path.write_bytes(found)
        torn = found[slot : slot + len(content)] not in (content, before[slot:][: len(content)])
        if torn:
            with pytest.raises(data.BlobError, match=r"header is damaged.*repair"):
                data.FileBlob(path)
            data.FileBlob.repair(path)
        states.add((torn, tuple(sample[0] for sample in data.FileBlob(path))))
    assert states == {(False, (0,)), (True, (0,)), (False, (0, 1))}


def test_threads_add_and_read_at_once(blob):
    count, failures = 200, []

    def work(worker):
        try:
            for i in range(count):
                blob.add((worker, i, ft.full((50,), worker * count + i)))
                who, n, x = blob[(worker * i) % len(blob)]
                assert x.tolist() == [who * count + n] * 50
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    assert sorted(sample[:2] for sample in blob) == [(w, i) for w in range(4) for i in range(count)]


def test_other_processes_read_while_one_writes(tmp_path):
    path = tmp_path / "x.blob"
    code = f"""
import fl_data as data
for _ in range(30):
    blob = data.FileBlob({str(path)!r})
    blob.verify()
    assert [sample[0] for sample in blob] == list(range(len(blob)))
"""
    with data.FileBlob(path, "w") as blob:
        readers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
        i = 0
        while any(reader.poll() is None for reader in readers):
            if i < 3000:
                blob.add((i, "x" * (i % 50)))
                blob.commit()
            i += 1
        assert [reader.returncode for reader in readers] == [0, 0]


def test_a_reader_goes_to_other_processes_and_a_writer_does_not(tmp_path, rows):
    path = tmp_path / "x.blob"
    with data.FileBlob(path, "w") as blob:
        blob.add(rows(1)[0])
        with pytest.raises(data.BlobError, match="is being written"):
            pickle.dumps(blob)
    assert same(pickle.loads(pickle.dumps(data.FileBlob(path)))[0], rows(1)[0])


def test_a_closed_blob_keeps_what_was_taken(tmp_path, rows):
    path = tmp_path / "x.blob"
    with data.FileBlob(path, "w") as blob:
        blob.add(rows(2)[1])
    blob = data.FileBlob(path)
    raw = blob.raw(0)[0]
    blob.close()
    assert raw.tensor().tolist() == [1, -1]
    with pytest.raises(data.BlobError, match="was closed"):
        blob[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda path: data.FileBlob(path / "none.blob"), "cannot be opened"),
        (lambda path: data.FileBlob(path, "a"), "cannot be opened"),
        (lambda path: data.FileBlob(path / "x.blob", "rw"), "unknown mode 'rw'"),
        (lambda path: data.FileBlob(path / "x.blob").add((1,)), "open to read"),
        (lambda path: data.FileBlob(path / "x.blob").commit(), "open to read"),
        (lambda path: data.FileBlob.repair(path / "none.blob"), "cannot be opened"),
    ],
)
def test_wrong_use_is_an_error(tmp_path, call, message):
    data.FileBlob(tmp_path / "x.blob", "w").close()
    with pytest.raises(data.DataError, match=message):
        call(tmp_path)


def grown(path, commits=3):
    with data.FileBlob(path, "w") as blob:
        for i in range(commits):
            blob.add((i, ft.full((10,), i)))
            blob.commit()
    return path


def test_repair_goes_back_to_the_last_whole_commit(tmp_path):
    path = grown(tmp_path / "x.blob")
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size - 1)
    with pytest.raises(data.BlobError, match=r"cut off.*repair"):
        data.FileBlob(path)
    assert data.FileBlob.repair(path) == 2
    assert [sample[0] for sample in data.FileBlob(path)] == [0, 1]
    with data.FileBlob(path, "a") as blob:
        blob.add((9,))
    assert [sample[0] for sample in data.FileBlob(path)] == [0, 1, 9]


def test_repair_of_a_torn_header_and_of_what_cannot_be_repaired(tmp_path):
    path = grown(tmp_path / "x.blob")
    content = bytearray(path.read_bytes())
    content[17] ^= 1  # one of the two slots
    path.write_bytes(content)
    with pytest.raises(data.BlobError, match="header is damaged"):
        data.FileBlob(path)
    assert data.FileBlob.repair(path) in (2, 3)
    data.FileBlob(path).verify()
    content[70] ^= 1  # the first sample, which every commit has
    path.write_bytes(content)
    with pytest.raises(data.BlobError, match="no commit is whole"):
        data.FileBlob.repair(path)


def test_a_file_of_a_later_version_says_so(tmp_path):
    import struct
    from zlib import crc32

    path = grown(tmp_path / "x.blob")
    head = container.MAGIC + struct.pack("<I", 2)
    path.write_bytes(head + struct.pack("<I", crc32(head)) + path.read_bytes()[16:])
    with pytest.raises(data.BlobError, match="version 2 of the format, this package reads 1"):
        data.FileBlob(path)


def test_a_commit_that_does_not_reach_the_disk_is_none(tmp_path, monkeypatch):
    with data.FileBlob(tmp_path / "some.blob", "w") as blob:
        blob.add((1,))
    blob = data.FileBlob(tmp_path / "some.blob", "a")
    blob.add((2,))

    def fails(descriptor):
        raise OSError("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(container.os, "fsync", fails)
        with pytest.raises(OSError, match="gone"):
            blob.commit()
    assert list(data.FileBlob(tmp_path / "some.blob")) == [(1,)]
    blob.close()  # commits again
    assert list(data.FileBlob(tmp_path / "some.blob")) == [(1,), (2,)]
