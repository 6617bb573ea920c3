"""Datasets that the tests share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fl_data as data
import fl_tensor as ft

sys.path.append(str(Path(__file__).parent))  # worker processes import `prefetched` from there


class Numbers(data.Dataset):
    """Sample `i` is `(float i, int i)`; no `__getitems__` of its own. Notes what was asked."""

    def __init__(self, n: int, on_get: Callable[[int], None] | None = None) -> None:
        self.n = n
        self.requests: list[int] = []
        self._on_get = on_get

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> data.Sample:
        number = data.check_index(index, self.n, "Numbers")
        self.requests.append(number)
        if self._on_get is not None:
            self._on_get(number)
        return ft.asarray([float(number)]), ft.asarray(number)


@pytest.fixture
def numbers() -> type[Numbers]:
    return Numbers


@pytest.fixture
def rows() -> Callable[[int], data.TensorDataset]:
    """A tensor dataset of n samples: x (2,) float32 with x = [i, -i], y int64 with y = i."""

    def make(n: int) -> data.TensorDataset:
        x = [[float(i), -float(i)] for i in range(n)]
        labels = ft.arange(n, dtype=ft.int64)
        return data.TensorDataset(ft.asarray(x, dtype=ft.float32).reshape(n, 2), labels)

    return make


@pytest.fixture
def labels() -> Callable[[Any], list[int]]:
    """The last field of every batch or sample, as one flat list of integers."""

    def read(samples: Any) -> list[int]:
        found: list[int] = []
        for sample in samples:
            found.extend(sample[-1].reshape(-1).tolist())
        return found

    return read


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
