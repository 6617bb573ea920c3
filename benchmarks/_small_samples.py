"""Rows of a table and their batches: the cases of ``data_loading.py`` with small samples.

``table`` is a Parquet file of ten float columns and a label, read before and shuffled: ours is a
``data.Table``, PyTorch's data set indexes two tensors. In the other cases a row is a line of text
with ten floats and a label, parsed when it is asked for. PyTorch's data set gives a tensor and a
number for it, as its tutorial does; ours gives the list and the number.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BATCH = 256
#: Kinds, and the workers that each is measured with.
KINDS = {
    "rows": ("none", "processes"),
    "stream": ("none",),
    "table": ("none",),
    "collate": ("none",),
    "collate-arrays": ("none",),
}
COUNT = {True: 512, False: 20_480}
TABLE_ROWS = {True: 512, False: 1_000_000}


def lines(tiny: bool) -> list[str]:
    """The text of the table."""
    rng = random.Random(0)
    return [
        ",".join(f"{rng.gauss(0, 1):.4f}" for _ in range(10)) + f",{i % 10}"
        for i in range(COUNT[tiny])
    ]


def parsed(line: str) -> tuple[list[float], int]:
    """Ten floats and a label."""
    *values, label = line.split(",")
    return [float(value) for value in values], int(label)


def _count(batches: Any) -> int:
    return sum(len(y) for x, y in batches)


class OurRows:
    """As a data set, with what `fl_data` asks for."""

    def __init__(self, tiny: bool) -> None:
        self.lines = lines(tiny)

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> tuple[list[float], int]:
        return parsed(self.lines[index])


def ours(case: str, workers: int, tiny: bool) -> Callable[[], object]:
    """A pass of ``fl_data`` over a kind, or one call of ``collate``."""
    import numpy as np

    import fl_data as data
    import fl_tensor as ft

    if case == "table":
        with tempfile.TemporaryDirectory() as folder:
            table = data.Table.read(_parquet(folder, tiny))
        batches = data.Batch(data.Shuffle(table), BATCH)
        return lambda: sum(len(batch["label"]) for batch in batches)
    rows = OurRows(tiny)
    if case == "collate":
        samples: Any = [(ft.asarray(x), y) for x, y in (rows[i] for i in range(BATCH))]
        return lambda: data.collate(samples)
    if case == "collate-arrays":
        samples = [(np.asarray(x, np.float32), y) for x, y in (rows[i] for i in range(BATCH))]
        return lambda: data.collate(samples)
    if case == "stream":

        def read() -> Iterator[tuple[list[float], int]]:
            return map(parsed, rows.lines)

        stream = data.IterableStream(read).batch(BATCH)
        return lambda: _count(stream)
    batches = data.Batch(data.Shuffle(rows), BATCH)
    loader = data.Prefetch(batches, processes=workers) if workers else batches
    return lambda: _count(loader)


def torch(case: str, workers: int, tiny: bool) -> Callable[[], object]:
    """The same in PyTorch."""
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, TensorDataset, default_collate

    torch.set_num_threads(1)
    if case == "table":
        from pyarrow import parquet

        with tempfile.TemporaryDirectory() as folder:
            frame = parquet.read_table(_parquet(folder, tiny))
        x = torch.tensor(np.stack([column.to_numpy() for column in frame.columns[:-1]], 1))
        tensors = TensorDataset(x, torch.tensor(frame["label"].to_numpy()))
        table = DataLoader(tensors, BATCH, shuffle=True)
        return lambda: _count(table)
    rows = TorchRows(tiny)
    if case == "collate":
        samples: Any = [rows[i] for i in range(BATCH)]
        return lambda: default_collate(samples)
    if case == "collate-arrays":
        samples = [(np.asarray(x, np.float32), y) for x, y in map(parsed, rows.lines[:BATCH])]
        return lambda: default_collate(samples)
    if case == "stream":

        class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc,no-any-unimported]
            def __iter__(self) -> Iterator[tuple[Any, int]]:
                return (rows[i] for i in range(len(rows)))

        stream = DataLoader(Stream(), BATCH)
        return lambda: _count(stream)
    loader = DataLoader(
        rows, BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0
    )
    return lambda: _count(loader)


def _parquet(folder: str, tiny: bool) -> Path:
    import numpy as np
    import pyarrow
    from pyarrow import parquet

    rng, count = np.random.default_rng(0), TABLE_ROWS[tiny]
    columns = {f"x{i}": rng.standard_normal(count, np.float32) for i in range(10)}
    path = Path(folder) / "rows.parquet"
    parquet.write_table(pyarrow.table({**columns, "label": rng.integers(0, 10, count)}), path)
    return path


class TorchRows:
    """As a data set, with what PyTorch asks for."""

    def __init__(self, tiny: bool) -> None:
        self.lines = lines(tiny)

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        import torch

        values, label = parsed(self.lines[index])
        return torch.tensor(values), label


def samples(case: str, tiny: bool) -> int:
    """How many samples a call is."""
    if case == "table":
        return TABLE_ROWS[tiny]
    return BATCH if case.startswith("collate") else COUNT[tiny]
