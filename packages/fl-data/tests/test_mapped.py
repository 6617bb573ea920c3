"""Arrays in files as datasets."""

from __future__ import annotations

import pickle
import random

import pytest

import fl_data as data
import fl_tensor as ft

np = pytest.importorskip("numpy")
NAMES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64"


@pytest.fixture
def saved(tmp_path):
    def save(array, name="x.npy"):
        np.save(tmp_path / name, array)
        return tmp_path / name

    return save


@pytest.mark.parametrize("dtype", NAMES.split())
def test_what_numpy_saved_is_read_row_by_row(saved, dtype):
    array = (np.arange(24).reshape(4, 3, 2) % 5).astype(dtype)
    mapped = data.MappedArray.npy(saved(array))
    assert (mapped.shape, str(mapped.dtype), len(mapped)) == ((4, 3, 2), dtype, 4)
    assert mapped[-1].tolist() == array[-1].tolist()
    for rows in ([3, 0, 3], range(1, 3), range(3, 0, -2), []):
        assert mapped.gather(rows).tolist() == array[list(rows)].tolist()
        assert mapped.gather(rows).dtype is ft.dtype(dtype)


def test_a_mapped_dataset_is_a_tensor_dataset_of_files(saved, labels):
    x, y = saved(np.ones((5, 2), np.float32), "x.npy"), saved(np.arange(5), "y.npy")
    ds = data.MappedDataset(x, data.MappedArray.npy(y))
    assert labels(data.Batch(data.Shuffle(ds, seed=1), 2)) == list(data.Shuffle(ds, seed=1).order)
    assert data.MappedDataset(image=x, label=str(y))[4]["label"].item() == 4
    assert labels(pickle.loads(pickle.dumps(ds))) == [0, 1, 2, 3, 4]
    with pytest.raises(data.SampleIndexError):
        ds[5]
    with pytest.raises(data.DataError, match=r"\[5, 4\] samples"):
        data.MappedDataset(x, saved(np.zeros(4), "z.npy"))
    with pytest.raises(data.DataError, match="at least one"):
        data.MappedDataset()


def test_raw_bytes_are_read_as_told(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"head" + np.arange(6, dtype="<i2").tobytes())
    array = data.MappedArray.raw(path, "int16", (3, 2), offset=4)
    assert array.gather(range(3)).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert data.MappedArray.raw(path, ft.int16, (-1, 3), offset=4).shape == (2, 3)
    assert data.MappedArray.raw(path, ft.uint8, (2,), 0)[1].item() == ord("e")
    with pytest.raises(data.FileFormatError, match=r"has 16 bytes.*end at byte 20"):
        data.MappedArray.raw(path, "int16", (4, 2), offset=4)
    with pytest.raises(data.FileFormatError, match="12 bytes are no multiple of 8"):
        data.MappedArray.raw(path, "int16", (-1, 4), offset=4)
    with pytest.raises(data.DataError, match="an extent must be at least 0"):
        data.MappedArray.raw(path, "int16", (1, -1))


def test_empty_arrays_have_no_samples(saved, tmp_path):
    assert data.MappedArray.npy(saved(np.zeros((0, 3)))).gather([]).shape == (0, 3)
    (tmp_path / "empty").touch()
    assert len(data.MappedArray.raw(tmp_path / "empty", "int8", (-1,))) == 0


def test_bfloat16_has_to_be_named(saved):
    bits = np.array([0x3F80, 0x4000], dtype="<u2").view("V2")
    path = saved(bits)
    assert data.MappedArray.npy(path, dtype="bfloat16").gather([0, 1]).tolist() == [1, 2]
    with pytest.raises(data.FileFormatError, match=r"'.V2'.*give dtype"):
        data.MappedArray.npy(path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.asfortranarray(np.ones((2, 3))), "Fortran order"),
        (np.float32(1), "without an axis"),
        (np.ones(2, ">f4"), "'>f4'"),
        (np.array(["a"]), "'<U1'"),
        (np.ones(2, "i4,f4"), "which no tensor has"),
    ],
)
def test_what_no_tensor_can_be_is_refused(saved, array, message):
    with pytest.raises(data.FileFormatError, match=message):
        data.MappedArray.npy(saved(array))


def test_objects_are_never_unpickled(tmp_path):
    np.save(tmp_path / "x.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(data.FileFormatError, match=r"'\|O'"):
        data.MappedArray.npy(tmp_path / "x.npy")


def headed(text: str, major: int = 1) -> bytes:
    return b"\x93NUMPY" + bytes([major, 0, len(text), 0]) + text.encode()


def described(shape: str) -> bytes:
    return headed(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no .npy file"),
        (headed("", major=9) + bytes(20), "version 9"),
        (b"\x93NUMPY\x02\0\xff\xff\xff\xff" + bytes(20), "header of 4294967295 bytes"),
        (described("(4,)")[:40], "cut off inside its header"),
        (headed("{}  "), "cannot be read"),
        (headed("[" * 200), "cannot be read"),
        (described("(2 ** 9,)"), "cannot be read"),
        (described("(-1,)"), "shape"),
        (described("(True,)"), "shape"),
        (described("(9223372036854775807,)"), "end at byte 3689"),
        (described("(9223372036854775807, 9223372036854775807)"), "end at byte 3402"),
    ],
)
def test_damaged_headers_are_errors(tmp_path, content, message):
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    with pytest.raises(data.FileFormatError, match=message):
        data.MappedArray.npy(path)
    with pytest.raises(data.FileFormatError, match="cannot be read"):
        data.MappedArray.npy(tmp_path / "none.npy")


def test_any_cut_is_noticed(saved):
    path = saved(np.arange(40, dtype=np.float32))
    whole = path.read_bytes()
    for seed in range(50):
        path.write_bytes(whole[: random.Random(seed).randrange(len(whole))])
        with pytest.raises(data.FileFormatError):
            data.MappedArray.npy(path)
