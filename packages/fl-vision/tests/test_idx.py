"""The IDX reader: what it reads, and what it says of files that are not what they claim."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import fl_tensor as ft
from fl_vision import DataFileError, DataMissingError, read_idx

IdxWriter = Callable[..., Path]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_reads_bytes_in_row_major_order(write_idx: IdxWriter, packed: bool) -> None:
    found = read_idx(write_idx("x", 0x08, (2, 3), bytes([0, 1, 2, 253, 254, 255]), packed))
    assert found.dtype == ft.uint8
    assert found.shape == (2, 3)
    assert found.tolist() == [[0, 1, 2], [253, 254, 255]]


@pytest.mark.parametrize(
    ("code", "form", "dtype", "values"),
    [
        (0x09, "b", ft.int8, [-128, 127]),
        (0x0B, "h", ft.int16, [-2, 300]),
        (0x0C, "i", ft.int32, [-2, 70000]),
        (0x0D, "f", ft.float32, [0.5, -3.25]),
        (0x0E, "d", ft.float64, [0.1, -3e200]),
    ],
)
def test_reads_every_element_type_big_endian(
    write_idx: IdxWriter, code: int, form: str, dtype: ft.DType, values: list[float]
) -> None:
    found = read_idx(write_idx("x", code, (2,), struct.pack(f">2{form}", *values)))
    assert found.dtype == dtype
    assert found.tolist() == values


def test_an_empty_dimension_is_an_empty_tensor(write_idx: IdxWriter) -> None:
    assert read_idx(write_idx("x", 0x08, (0, 28, 28), b"")).shape == (0, 28, 28)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    ("code", "shape", "payload", "message"),
    [
        (0x08, (2, 3), b"12345", "holds 5 of the 6 bytes"),
        (0x08, (2, 3), b"1234567", "has bytes after the 6"),
        (0x0A, (2,), b"12", "unknown element type 0x0a"),
        (0x08, (), b"", "declares 0 dimensions"),
        (0x08, (1,) * 9, b"1", "declares 9 dimensions"),
        (0x08, (1 << 31, 1 << 31), b"1", "more than the limit"),
        (0x0E, (1 << 28,), b"1", "more than the limit"),
    ],
)
def test_a_header_that_does_not_fit_names_the_file(
    write_idx: IdxWriter,
    packed: bool,
    code: int,
    shape: tuple[int, ...],
    payload: bytes,
    message: str,
) -> None:
    path = write_idx("bad.idx", code, shape, payload, packed)
    with pytest.raises(DataFileError, match=message) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)
    assert caught.value.path == path


def test_the_limit_is_the_callers(write_idx: IdxWriter) -> None:
    path = write_idx("x", 0x08, (100,), bytes(100))
    assert read_idx(path, max_bytes=100).shape == (100,)
    with pytest.raises(DataFileError, match="limit of 99"):
        read_idx(path, max_bytes=99)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\x08", b"\0\0\x08\x02\0\0\0\x01"])
def test_a_file_cut_off_in_its_header(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "short"
    path.write_bytes(data)
    with pytest.raises(DataFileError, match="holds|ends within"):
        read_idx(path)


def test_another_kind_of_file(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    with pytest.raises(DataFileError, match="starts with bytes 89 50 4e 47"):
        read_idx(path)


def test_damaged_gzip(tmp_path: Path) -> None:
    whole = gzip.compress(bytes([0, 0, 8, 1]) + struct.pack(">I", 5000) + bytes(range(250)) * 20)
    cut = tmp_path / "cut.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataFileError, match=r"cut\.gz.*ends too early"):
        read_idx(cut)
    flipped = tmp_path / "flipped.gz"
    flipped.write_bytes(whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:])
    with pytest.raises(DataFileError, match=r"flipped\.gz.*damaged gzip"):
        read_idx(flipped)


def test_a_missing_file_is_also_a_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match="nowhere"):
        read_idx(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        read_idx(tmp_path / "nowhere")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="cannot be read"):
        read_idx(tmp_path)
