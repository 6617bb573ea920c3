"""Round-robin partition of samples among ranks, batch by batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import fl_tensor as ft
from fl_data.dataset import check_count
from fl_data.errors import DataError
from fl_data.views.select import check_rank, share
from fl_tensor.annotations import checked


@checked
def partition_by_round_robin(
    count: int, rank: int, world_size: int, batch_size: int, allow_empty: bool = False
) -> list[int]:
    """The samples of `rank` when ranks take `batch_size` of `count` samples in turns.

    The last, shorter round is shared out evenly among the ranks; where it has fewer samples than
    there are ranks it is left out, or with `allow_empty` some ranks get nothing of it.

    >>> partition_by_round_robin(11, rank=0, world_size=2, batch_size=2)
    [0, 1, 4, 5, 8, 9]
    """
    where = "partition_by_round_robin"
    check_rank(rank, world_size, where)
    count = check_count(count, "count", where)
    size = check_count(batch_size, "batch_size", where, least=1)
    found: list[int] = []
    for first in range(0, count, size * world_size):
        samples = min(size * world_size, count - first)
        if samples >= world_size or allow_empty:
            start, stop = share(samples, rank, world_size)
            found.extend(range(first + start, first + stop))
    return found


@checked
def dynamic_partition_by_round_robin(
    lengths: Sequence[float],
    rank: int,
    world_size: int,
    max_size: float,
    allow_empty: bool = False,
) -> tuple[list[int], list[int]]:
    """`(samples, batch sizes)` of `rank` when ranks take batches of bounded padded size in turns.

    A batch is a run of neighbours, as many as fit: its longest length times its number of samples
    is at most `max_size`. Where the batches of the last round do not suffice for all ranks, the
    largest are split; with fewer samples than ranks the round is left out, or with `allow_empty`
    some ranks get nothing. `Batch(Subset(ds, samples), sizes)` are the batches; `DynamicBatch` does
    both.

    Raises `DataError` for a sample that is longer than `max_size`.

    >>> dynamic_partition_by_round_robin([2, 4, 1, 2, 3, 7, 4, 3], 0, 2, max_size=12)
    ([0, 1, 2, 5], [3, 1])
    """
    check_rank(rank, world_size, "dynamic_partition_by_round_robin")
    turns = [turn[rank] for turn in dynamic_rounds(lengths, world_size, max_size, allow_empty)]
    return [sample for run in turns for sample in run], [len(run) for run in turns]


def dynamic_rounds(
    lengths: Sequence[float], world_size: int, max_size: float, allow_empty: bool
) -> list[list[range]]:
    """For each round, the run of neighbours that every rank takes."""
    if not max_size > 0:
        raise DataError(f"[dynamic batches] max_size must be above 0, got {max_size}")
    runs = _fitting_runs(lengths_of(lengths), max_size)
    rounds = [runs[first : first + world_size] for first in range(0, len(runs), world_size)]
    if rounds and len(rounds[-1]) < world_size:
        last = rounds.pop()
        if sum(map(len, last)) >= world_size or allow_empty:
            rounds.append(_split(last, world_size))
    return rounds


def _split(runs: list[range], count: int) -> list[range]:
    """`runs`, the largest of them halved until there are `count`: parts of what fits fit."""
    runs = list(runs)
    while len(runs) < count:
        at = max(range(len(runs)), key=lambda i: (len(runs[i]), -i))
        middle = runs[at].start + (len(runs[at]) + 1) // 2
        runs[at : at + 1] = [range(runs[at].start, middle), range(middle, runs[at].stop)]
    return runs


def _fitting_runs(lengths: Sequence[float], max_size: float) -> list[range]:
    runs: list[range] = []
    start, longest = 0, 0.0
    for i, length in enumerate(lengths):
        if length > max_size:
            raise DataError(
                f"[dynamic batches] sample {i} has length {length}, more than max_size {max_size}: "
                "raise max_size, or leave such samples out with Subset"
            )
        if i > start and max(longest, length) * (i + 1 - start) > max_size:
            runs.append(range(start, i))
            start, longest = i, 0.0
        longest = max(longest, length)
    if start < len(lengths):
        runs.append(range(start, len(lengths)))
    return runs


def lengths_of(lengths: Sequence[float]) -> Sequence[float]:
    """`lengths`, a list or 1-d tensor of finite numbers of at least 0, as plain numbers."""
    numbers = lengths.tolist() if isinstance(lengths, ft.Array) else lengths
    for i, length in enumerate(numbers):
        if not 0 <= length < math.inf:
            raise DataError(f"[lengths] length {i} is {length}: lengths are finite and at least 0")
    return numbers
