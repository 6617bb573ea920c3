"""Tokens per second of the datasets of ``fl_text``, beside PyTorch's ``DataLoader``.

Claims: at least twice as many as PyTorch for windows, and 0.9 times as many for lines and masking.
Batches have 32 samples of a mapped token file. PyTorch reads it by ``numpy.memmap``, as loaders of
language models do.

    windows   random stretches of 512 tokens, with their targets
    lines     random documents of 8 to 120 tokens, padded to the longest of each batch
    masked    windows of 128 tokens, of which 15 % are hidden as for BERT. PyTorch hides whole
              batches in its collate function by vector operations.

Each library runs in a process of its own with one thread, without workers, and the two take turns.

    python benchmarks/text_data.py [--rounds 9] [--only windows] [--json FILE]
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from _measure import OneAtATime, Worker, environment, parsed, parser_of, report, serve, take_turns
from _peers import installed

import fl_text as text

KINDS = ("windows", "lines", "masked")
SIZES = {"windows": 512, "masked": 128}
BATCH, BATCHES, WORDS = 32, 50, 20_000
FILE = "TEXT_DATA_FILE"


def encoder() -> text.WordEncoder:
    special = text.SpecialTokens()
    words = [*special.names(), *map(str, range(WORDS))]
    return text.WordEncoder(text.Dictionary(words), special)


def documents(count: int) -> Iterator[str]:
    rng = random.Random(0)
    for _ in range(count):
        yield " ".join(str(rng.randrange(WORDS)) for _ in range(rng.randint(8, 120)))


def drained(batches: Iterable[Any]) -> Callable[[], int]:
    """How many tokens of input the first batches have."""

    def run() -> int:
        found = 0
        for number, (x, y) in enumerate(batches, 1):
            found += x.shape[0] * x.shape[1]
            str(y[0, 0])  # deferred work counts
            if number == BATCHES:
                break
        return found

    return run


def _ours(case: str) -> Callable[[], int]:
    from fl_data import Batch, RandomTransform, Shuffle

    file = text.TokenFile(os.environ[FILE])
    if case == "lines":
        return drained(Batch(Shuffle(text.TokenLines(file, None, pad=0), seed=1), BATCH))
    stream: Any = text.TokenStream(file, SIZES[case])
    if case == "masked":
        stream = RandomTransform(stream, text.TokenMasking(encoder()), seed=1)
    return drained(Batch(Shuffle(stream, seed=1), BATCH))


def _torch(case: str) -> Callable[[], int]:
    import numpy as np
    import torch
    from torch.nn.utils.rnn import pad_sequence
    from torch.utils.data import DataLoader, Dataset

    torch.set_num_threads(1)
    file = text.TokenFile(os.environ[FILE])
    tokens = np.memmap(file.path, dtype="<u2", mode="r", offset=64, shape=(file.count,))
    starts = np.asarray(file.starts)

    class Windows(Dataset[Any]):
        def __len__(self) -> int:
            return (len(tokens) - 1) // SIZES[case]

        def __getitem__(self, i: int) -> Any:
            at = i * SIZES[case]
            stretch = torch.from_numpy(tokens[at : at + SIZES[case] + 1].astype(np.int64))
            return stretch[:-1], stretch[1:]

    class Lines(Dataset[Any]):
        def __len__(self) -> int:
            return len(starts) - 1

        def __getitem__(self, i: int) -> Any:
            row = torch.from_numpy(tokens[starts[i] : starts[i + 1]].astype(np.int64))
            return row[:-1], row[1:]

    def padded(samples: list[Any]) -> Any:
        return tuple(pad_sequence(list(rows), batch_first=True) for rows in zip(*samples))

    def masked(samples: list[Any]) -> Any:
        x = torch.stack([sample[0] for sample in samples])
        hidden = (torch.rand(x.shape) < 0.15) & (x >= 5)
        y = torch.where(hidden, x, -100)
        kinds = torch.rand(x.shape)
        x = torch.where(hidden & (kinds < 0.8), 4, x)
        other = torch.randint(5, WORDS + 5, x.shape)
        return torch.where(hidden & (kinds >= 0.9), other, x), y

    dataset = Lines() if case == "lines" else Windows()
    collate = {"lines": padded, "masked": masked}.get(case)
    return drained(DataLoader(dataset, BATCH, shuffle=True, collate_fn=collate))


LOADERS = {"ours": _ours, "torch": _torch}


def main() -> None:
    parser = parser_of(__doc__, rounds=9)
    parser.add_argument("--only", nargs="+", default=KINDS, choices=KINDS, metavar="KIND")
    parser.add_argument("--serve", metavar="LIBRARY")
    given = parsed(parser)
    if given.serve:
        serve(OneAtATime(LOADERS[given.serve]))
        return
    compares = installed("torch") and not given.tiny
    libraries = ["ours", "torch"] if compares else ["ours"]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus.tokens")
        text.write_tokens(path, documents(300 if given.tiny else 30_000), encoder())
        workers = {name: Worker(name, tiny=given.tiny, **{FILE: str(path)}) for name in libraries}
        try:
            for case in given.only:
                times = take_turns(workers, case, given.rounds, given.moment)
                tokens = {name: worker.value(case) for name, worker in workers.items()}
                rates = {name: tokens[name] / seconds for name, seconds in times.items()}
                row: dict[str, Any] = {"case": case}
                row |= {f"{name}, tokens/s": rate for name, rate in rates.items()}
                if compares:
                    row["ours / torch"] = rates["ours"] / rates["torch"]
                rows.append(row)
        finally:
            for worker in workers.values():
                worker.__exit__()
    report(given, environment("fl-text", "fl-data", "fl-jit", "numpy", "torch"), rows)


if __name__ == "__main__":
    main()
