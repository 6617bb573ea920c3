"""Small files of every kind the readers take."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import fl_tensor as ft
from fl_vision.cli import main

IdxWriter = Callable[..., Path]
sys.path.append(str(Path(__file__).parent))  # tests import `boxed_images` from there


def pytest_configure(config: pytest.Config) -> None:
    """Without a compiler kernels run in the interpreter, which says so."""
    config.addinivalue_line("filterwarnings", "ignore:kernels run in the interpreter")


@pytest.fixture
def write_idx(tmp_path: Path) -> IdxWriter:
    """write_idx(name, element code, dimensions, payload bytes) -> path."""

    def write(
        name: str, code: int, shape: Sequence[int], payload: bytes, packed: bool = False
    ) -> Path:
        data = bytes([0, 0, code, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + payload
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data) if packed else data)
        return path

    return write


@pytest.fixture
def write_digits(write_idx: IdxWriter) -> Callable[..., None]:
    """write_digits(folder, prefix, count): a pair of MNIST files of 8x8 images, classes in turn.

    The image of class k has its k-th row of pixels lit, so that a network can learn it.
    """

    def write(folder: str, prefix: str, count: int, classes: int = 4) -> None:
        images = bytearray()
        for index in range(count):
            pixels = [[(7 * index + 3 * x) % 40 for x in range(8)] for _ in range(8)]
            pixels[2 * (index % classes)] = [255 - index % 5] * 8
            images += bytes(v for row in pixels for v in row)
        labels = bytes(index % classes for index in range(count))
        write_idx(f"{folder}/{prefix}-images-idx3-ubyte", 8, (count, 8, 8), bytes(images))
        write_idx(f"{folder}/{prefix}-labels-idx1-ubyte.gz", 8, (count,), labels, packed=True)

    return write


@pytest.fixture
def write_image(tmp_path: Path) -> Callable[..., Path]:
    """write_image(name, colour, size=(height, width)) -> path of a picture of one colour."""

    def write(
        name: str, colour: tuple[int, int, int] = (10, 20, 30), size: tuple[int, int] = (6, 5)
    ) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (size[1], size[0]), colour).save(path)
        return path

    return write


@pytest.fixture
def without_rights() -> Iterator[Path]:
    """A folder of the user nobody, who runs the test where root would: root may read anything."""
    if not hasattr(os, "geteuid"):
        pytest.skip("permissions are of POSIX")
    Image.init()  # what is loaded later, the user might not be allowed to read
    ft.zeros(1).numpy()
    root = Path(tempfile.mkdtemp())
    was_root = os.geteuid() == 0
    if was_root:
        root.chmod(0o777)
        os.seteuid(65534)
    try:
        yield root
    finally:
        if was_root:
            os.seteuid(0)
        for folder in root.rglob("*"):
            folder.chmod(0o700)
        shutil.rmtree(root)


@pytest.fixture
def mnist_dir() -> Path:
    """The folder of the real MNIST files."""
    root = os.environ.get("FL_TEST_DATA")
    if not root:
        pytest.skip("FL_TEST_DATA is not set")
    return Path(root) / "mnist"


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Path]:
    """A FIFO that has no other end: who waits for it fails after a while."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("FIFOs are of POSIX")

    def waited(number: int, frame: Any) -> None:
        pytest.fail("it waits for the other end of a FIFO")

    path = tmp_path / "fifo"
    os.mkfifo(path)
    before = signal.signal(signal.SIGALRM, waited)
    signal.alarm(20)
    yield path
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    assert path.is_fifo()


@pytest.fixture
def streams(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[list[str], list[str]]]:
    """streams(*arguments) of fl-vision -> the lines on standard output, and those on standard
    error; the command must succeed."""

    def run(*arguments: Any) -> tuple[list[str], list[str]]:
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert status == 0, captured.err
        return captured.out.splitlines(), captured.err.splitlines()

    return run


@pytest.fixture
def run(streams: Callable[..., tuple[list[str], list[str]]]) -> Callable[..., list[str]]:
    """run(*arguments) of fl-vision -> the lines of both streams; the command must succeed."""
    return lambda *arguments: sum(streams(*arguments), [])


@pytest.fixture
def refuse(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """refuse(*arguments) of fl-vision -> the error of a command that must fail as misused."""

    def refuse(*arguments: Any) -> str:
        assert main([str(argument) for argument in arguments]) == 2
        return capsys.readouterr().err

    return refuse
