"""Splits at random: into parts, and into the folds of a cross-validation."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import fl_tensor as ft
from fl_data.dataset import as_dataset
from fl_data.errors import DataError
from fl_data.samples import check_count
from fl_data.seeds import Seed
from fl_data.views.permutation import permutation
from fl_data.views.select import Subset
from fl_tensor.annotations import checked


@checked
def random_split(
    ds: object,
    parts: Sequence[float],
    *,
    stratify: Iterable[Hashable] | None = None,
    groups: Iterable[Hashable] | None = None,
    seed: int | None = None,
) -> list[Subset]:
    """The samples of `ds` at random in disjoint parts, each in the order of `ds`.

    parts      the sizes: fractions with the sum 1, or numbers of samples with the sum `len(ds)`.
               Fractions of a sample go to the parts that lose most by rounding
    stratify   the class of each sample: every class is divided as the whole, to a sample or two
    groups     the group of each sample (a speaker, a patient): it stays in one part. Sizes are then
               met as well as the groups allow; larger groups are placed first
    seed       decides alone about the split; without it one is drawn (`ft.seed`)

    Raises `DataError` for sizes with another sum, for a class with fewer samples than there are
    parts, for a group that is larger than all parts, and for groups that leave a part empty.
    """
    source = as_dataset(ds)
    sizes = _sizes(parts, len(source))
    given = _parts("random_split", len(source), sizes, stratify, groups, seed)
    return [Subset(source, rows) for rows in given]


@checked
def k_fold(
    ds: object,
    k: int,
    *,
    stratify: Iterable[Hashable] | None = None,
    groups: Iterable[Hashable] | None = None,
    seed: int | None = None,
) -> list[tuple[Subset, Subset]]:
    """`k` pairs `(training, validation)`: each sample is in one validation part, whose sizes differ
    by one at most. `stratify`, `groups`, `seed` and errors are those of `random_split`; `DataError`
    for more folds than samples, too."""
    source = as_dataset(ds)
    count = len(source)
    if check_count(k, "k", "k_fold", least=2) > count:
        raise DataError(f"[k_fold] {k} folds of {count} samples: give at most {count}")
    sizes = [count // k + (i < count % k) for i in range(k)]
    folds = _parts("k_fold", count, sizes, stratify, groups, seed)
    owner = [0] * count
    for number, rows in enumerate(folds):
        for row in rows:
            owner[row] = number
    return [
        (
            Subset(source, [row for row in range(count) if owner[row] != number]),
            Subset(source, rows),
        )
        for number, rows in enumerate(folds)
    ]


def _sizes(parts: Sequence[float], count: int) -> list[int]:
    if not parts or any(not 0 <= part < math.inf for part in parts):
        raise DataError(f"[random_split] parts {list(parts)}: give sizes of at least 0")
    if all(isinstance(part, int) for part in parts):
        sizes = [int(part) for part in parts]
        if sum(sizes) != count:
            raise DataError(
                f"[random_split] parts {sizes} have {sum(sizes)} samples, the data set {count}: "
                "give sizes with that sum, or fractions with the sum 1"
            )
        return sizes
    if abs(math.fsum(parts) - 1) > 1e-9:
        raise DataError(
            f"[random_split] fractions {list(parts)} have the sum {math.fsum(parts):g}: it must be "
            "1; add the rest as a part of its own"
        )
    exact = [part * count for part in parts]
    sizes = [math.floor(x + 1e-9) for x in exact]
    order = sorted(range(len(parts)), key=lambda i: sizes[i] - exact[i])
    for i in order[: count - sum(sizes)]:
        sizes[i] += 1
    return sizes


def _parts(
    where: str,
    count: int,
    sizes: Sequence[int],
    stratify: Iterable[Hashable] | None,
    groups: Iterable[Hashable] | None,
    seed: int | None,
) -> list[list[int]]:
    if stratify is not None and groups is not None:
        raise DataError(f"[{where}] stratify and groups: give one of the two")
    order = permutation(count, ft.Generator(Seed(seed, where).value))
    if groups is not None:
        parts = _grouped(where, _by_label(where, "groups", groups, order), sizes)
    elif stratify is not None:
        classes = _by_label(where, "stratify", stratify, order)
        parts = _stratified(where, classes, sizes, count)
    else:
        ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
        parts = [list(order[start:end]) for start, end in zip(ends, ends[1:])]
    return [sorted(rows) for rows in parts]


def _by_label(
    where: str, name: str, labels: Iterable[Any], order: Sequence[int]
) -> dict[Hashable, list[int]]:
    """The samples of each label, in a random order."""
    given = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if len(given) != len(order):
        raise DataError(f"[{where}] {name} has {len(given)} entries for {len(order)} samples")
    found: dict[Hashable, list[int]] = defaultdict(list)
    for row in order:
        found[given[row]].append(row)
    return found


def _stratified(
    where: str, classes: dict[Hashable, list[int]], sizes: Sequence[int], count: int
) -> list[list[int]]:
    used = sum(size > 0 for size in sizes)
    for label, rows in classes.items():
        if len(rows) < used:
            raise DataError(
                f"[{where}] class {label!r} has {len(rows)} sample{'s' * (len(rows) > 1)} for "
                f"{used} parts: collect more, join it with another class, or leave its samples out"
            )
    # Class by class, each sample goes to the part that lags most behind its share.
    parts: list[list[int]] = [[] for _ in sizes]
    dealt = 0
    for label in sorted(classes, key=lambda label: len(classes[label])):
        for row in classes[label]:
            dealt += 1
            open_parts = [i for i, size in enumerate(sizes) if len(parts[i]) < size]
            parts[max(open_parts, key=lambda i: sizes[i] * dealt / count - len(parts[i]))].append(
                row
            )
    return parts


def _grouped(
    where: str, groups: dict[Hashable, list[int]], sizes: Sequence[int]
) -> list[list[int]]:
    parts: list[list[int]] = [[] for _ in sizes]
    for label in sorted(groups, key=lambda label: -len(groups[label])):
        rows = groups[label]
        if len(rows) > max(sizes):
            raise DataError(
                f"[{where}] group {label!r} has {len(rows)} samples, the largest part "
                f"{max(sizes)}: give larger parts, or divide the group"
            )
        parts[max(range(len(sizes)), key=lambda i: sizes[i] - len(parts[i]))] += rows
    for number, (rows, size) in enumerate(zip(parts, sizes)):
        if size and not rows:
            raise DataError(
                f"[{where}] no group is left for part {number} of {size} samples: there are "
                f"{len(groups)} groups for {len(sizes)} parts; give larger parts, or fewer"
            )
    return parts
