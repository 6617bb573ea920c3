"""What composing datasets costs: 1,000,000 samples, six datasets one inside the other.

Claim: at most 5 microseconds of overhead per sample, by index, iterated, and in batches. The
samples themselves cost next to nothing here; ``overhead`` is the time of six datasets minus that of
the one innermost. The other rows have one kind of dataset six times, for orientation.

    python benchmarks/data_overhead.py [--rounds 15] [--json FILE]
"""

from __future__ import annotations

import random
from collections.abc import Callable

from _measure import environment, interleave, parsed, parser_of, report

import fl_data as data
import fl_tensor as ft

#: Samples that one timed call reads.
STEP = 250

SIX = ["Span", "Concat", "Merge", "Subset", "Shuffle", "Transform"]
OUTERMOST_SPAN = [*SIX[:-1], "Span"]  # in batches: a transform of single samples would undo them
#: What is put around a dataset; the second argument is the innermost.
LAYERS: dict[str, Callable[[data.Dataset, data.Dataset], data.Dataset]] = {
    "Span": lambda ds, _: data.Span(ds, 0),
    "Concat": lambda ds, _: data.Concat(data.Span(ds, 0, 10), data.Span(ds, 10)),
    "Merge": lambda ds, innermost: data.Merge(ds, innermost),
    "Subset": lambda ds, _: data.Subset(ds, range(len(ds))),
    "Shuffle": lambda ds, _: data.Shuffle(ds, seed=1),
    "Weighted": lambda ds, _: data.Weighted(ds, [1.0] * len(ds)),
    "Transform": lambda ds, _: data.Transform(ds, lambda sample: sample),
    "RandomTransform": lambda ds, _: data.RandomTransform(ds, lambda sample, generator: sample),
}


class Numbers(data.Dataset):
    """Sample `i` is `(i,)`: nothing is cheaper."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> data.Sample:
        return (data.check_index(index, self._count, "Numbers"),)


def composed(ds: data.Dataset, names: list[str]) -> data.Dataset:
    innermost = ds
    for name in names:
        ds = LAYERS[name](ds, innermost)
    ds[0]  # orders are drawn once in an epoch
    return ds


def by_index(ds: data.Dataset) -> Callable[[], object]:
    rows = random.Random(0).sample(range(len(ds)), STEP)

    def read() -> None:
        for row in rows:
            ds[row]

    return read


def iterated(ds: data.Dataset) -> Callable[[], object]:
    def read() -> None:
        samples = ds.iterate()
        for _ in range(STEP):
            next(samples)

    return read


def in_batches(ds: data.Dataset) -> Callable[[], object]:
    rows = random.Random(0).sample(range(len(ds)), STEP)
    return lambda: ds.__getitems__(rows)


def main() -> None:
    given = parsed(parser_of(__doc__))
    count = 1_000 if given.tiny else 1_000_000
    numbers, tensor = Numbers(count), data.TensorDataset(ft.arange(count))
    cases = [
        ("six, by index", by_index, numbers, SIX),
        ("six, iterated", iterated, numbers, SIX),
        (f"six, in batches of {STEP}", in_batches, tensor, OUTERMOST_SPAN),
        *((f"6 x {name}, iterated", iterated, numbers, [name] * 6) for name in LAYERS),
    ]
    rows = []
    for name, read, innermost, layers in cases:
        deep = composed(innermost, layers)
        each = {"one": read(innermost), "six": read(deep)}
        seconds = interleave(each, given.rounds, given.moment)
        one, six = (1e6 * seconds[key] / STEP for key in ("one", "six"))
        row = {"datasets": name, "innermost, us": one, "composed, us": six, "overhead": six - one}
        rows.append(row)
    about = {**environment("fl-data"), "samples": count, "rounds": given.rounds}
    report(given, about, rows)


if __name__ == "__main__":
    main()
