"""Datasets for worker processes, which import them by name."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import fl_data as data
import fl_tensor as ft
from fl_tensor.threads import get_num_threads

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES += ("float16", "float32", "float64", "complex64", "complex128")


class Numbered(data.Dataset):
    """Sample `i` is `(width floats of value i, int i)`, after `do(i)`."""

    def __init__(self, n: int, width: int = 1, do: Any = None) -> None:
        self.n, self.width, self.do = n, width, do

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> data.Sample:
        number = data.check_index(index, self.n, "Numbered")
        if self.do is not None:
            self.do(number)
        return ft.full((self.width,), float(number)), ft.asarray(number)


class Runs(data.Dataset):
    """Sample `i` is `lengths[i]` times the number `i`, and `i`."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = list(lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> data.Sample:
        number = data.check_index(index, len(self), "Runs")
        return ft.full((self.lengths[number],), number), ft.asarray(number)


class Everything(data.Dataset):
    """Nested samples of all dtypes, whose sizes go up and down; with empty tensors and texts."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> data.Sample:
        size = (index * 7919) % 12 * 3000
        tensors = {name: ft.asarray([index % 2] * size).astype(name) for name in DTYPES}
        shared = ft.full((3, 2), index)
        return {
            "all": tensors,
            "nested": (shared, [shared, {"text": f"sample {index}", "none": None}]),
            "empty": ft.zeros((0, 3)),
            "turned": ft.arange(20_000).reshape(100, 200).permute(1, 0),
            "number": index,
        }


class Unpackable(data.Dataset):
    """A dataset whose samples hold what cannot be pickled."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> data.Sample:
        return (threading.Lock(),)


class Unreadable(data.Dataset):
    """A dataset that is pickled, but cannot be made again."""

    def __reduce__(self) -> Any:
        return int, ("no number",)

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> data.Sample:
        return ()


class Fussy(Exception):
    """Cannot be made again from its `args`."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def fail_at_3(index: int) -> None:
    if index == 3:
        raise ValueError("file 3 is broken")


def fail_fussily(index: int) -> None:
    raise Fussy("one", "another")


def leave_at_4(index: int) -> None:
    if index == 4:
        os._exit(7)


def be_killed_at_4(index: int) -> None:
    if index == 4:
        os.kill(os.getpid(), signal.SIGKILL)


def sleep(index: int) -> None:
    time.sleep(0.002 * (index % 3))


def sleep_long(index: int) -> None:
    time.sleep(60)


def interrupt_workers(index: int) -> None:
    """What control-C and a scheduler do: a signal for each process of the group."""
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)


def add_noise(sample: data.Sample) -> data.Sample:
    return sample[0] + ft.rand((2,)), sample[1]  # type: ignore[index]


def augment(sample: data.Sample, generator: ft.Generator) -> data.Sample:
    return sample[0] * generator.uniform((2,)), sample[1]  # type: ignore[index]


def process_of(sample: data.Sample) -> data.Sample:
    return ft.asarray(os.getpid()), sample[1]  # type: ignore[index]


def threads_of(sample: data.Sample) -> data.Sample:
    return (get_num_threads(),)


def shard(number: int) -> Iterator[data.Sample]:
    return ((ft.asarray(number * 10 + i), ft.full((3,), float(i))) for i in range(10))


def one_more(sample: data.Sample) -> data.Sample:
    return sample[0] + 1, sample[1]  # type: ignore[index]
