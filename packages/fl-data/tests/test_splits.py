"""Splits at random: disjoint, complete, of the sizes that were asked for, decided by the seed."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import fl_data as data
import fl_tensor as ft

ROWS = [(i,) for i in range(100)]


def rows(part):
    return [sample[0] for sample in part]


@pytest.mark.parametrize(
    ("count", "parts", "sizes"),
    [
        (100, (0.8, 0.2), [80, 20]),
        (10, (0.75, 0.25), [8, 2]),
        (10, (1 / 3, 1 / 3, 1 / 3), [4, 3, 3]),
        (100, (70, 20, 10), [70, 20, 10]),
        (3, (0.9, 0.1), [3, 0]),
        (0, (0.5, 0.5), [0, 0]),
    ],
)
def test_parts_are_disjoint_and_have_their_sizes(count, parts, sizes):
    found = data.random_split(ROWS[:count], parts, seed=1)
    assert [len(part) for part in found] == sizes
    assert sorted(sum(map(rows, found), [])) == list(range(count))
    assert all(rows(part) == sorted(rows(part)) for part in found)


def test_the_seed_decides():
    one, other = (data.random_split(ROWS, (0.5, 0.5), seed=1)[0] for _ in range(2))
    assert rows(one) == rows(other) != rows(data.random_split(ROWS, (0.5, 0.5), seed=2)[0])
    ft.seed(3)
    drawn = rows(data.random_split(ROWS, (0.5, 0.5))[0])
    ft.seed(3)
    assert rows(data.random_split(ROWS, (0.5, 0.5))[0]) == drawn


@pytest.mark.parametrize("seed", range(5))
def test_classes_are_divided_as_the_whole(seed):
    draw = random.Random(seed)
    labels = draw.choices("abcd", [50, 30, 15, 8], k=400)
    ds = [(i,) for i in range(400)]
    fractions = (0.7, 0.2, 0.1)
    parts = data.random_split(ds, fractions, stratify=labels, seed=seed)
    assert [len(part) for part in parts] == [280, 80, 40]
    whole = Counter(labels)
    for part, fraction in zip(parts, fractions, strict=True):
        found = Counter(labels[i] for i in rows(part))
        assert all(abs(found[label] - fraction * whole[label]) < 2 for label in whole)


@pytest.mark.parametrize("seed", range(5))
def test_groups_stay_together(seed):
    draw = random.Random(seed)
    speakers = ft.asarray([draw.randrange(12) for _ in range(300)])
    parts = data.random_split([(i,) for i in range(300)], (0.8, 0.2), groups=speakers, seed=seed)
    found = [{speakers.tolist()[i] for i in rows(part)} for part in parts]
    assert not found[0] & found[1] and len(found[0] | found[1]) == 12
    assert abs(len(parts[1]) - 60) < 30


@pytest.mark.parametrize("option", [{}, {"stratify": [i % 3 for i in range(50)]}])
def test_every_sample_is_validated_once(option):
    folds = data.k_fold(ROWS[:50], 4, seed=2, **option)
    assert [len(validation) for _, validation in folds] == [13, 13, 12, 12]
    assert sorted(sum((rows(v) for _, v in folds), [])) == list(range(50))
    for training, validation in folds:
        assert sorted(rows(training) + rows(validation)) == list(range(50))


def test_folds_of_groups():
    groups = [i // 5 for i in range(50)]
    for training, validation in data.k_fold(ROWS[:50], 5, groups=groups, seed=1):
        assert not {groups[i] for i in rows(training)} & {groups[i] for i in rows(validation)}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: data.random_split(ROWS, (0.8, 0.3)), r"sum 1.1: it must be 1; add the rest"),
        (lambda: data.random_split(ROWS, (80, 30)), r"\[80, 30\] have 110 samples, .* set 100"),
        (lambda: data.random_split(ROWS, (1.5, -0.5)), "give sizes of at least 0"),
        (lambda: data.random_split(ROWS, ()), "give sizes of at least 0"),
        (lambda: data.k_fold(ROWS[:3], 5), "5 folds of 3 samples: give at most 3"),
        (
            lambda: data.random_split(ROWS, (0.5, 0.5), stratify=["x"] + ["y"] * 99),
            "class 'x' has 1 sample for 2 parts: collect more",
        ),
        (
            lambda: data.random_split(ROWS, (0.5, 0.5), groups=[0] * 70 + [1] * 30),
            "group 0 has 70 samples, the largest part 50: give larger",
        ),
        (
            lambda: data.random_split(ROWS, (0.8, 0.2), groups=[0] * 100),
            "group 0 has 100 samples, the largest part 80",
        ),
        (
            lambda: data.random_split(ROWS, (0.4, 0.3, 0.3), groups=[i // 40 for i in range(80)]),
            "groups has 80 entries for 100 samples",
        ),
        (
            lambda: data.random_split(ROWS, (60, 39, 1), groups=[i // 50 for i in range(100)]),
            "no group is left for part 2 of 1 samples: there are 2 groups for 3 parts",
        ),
        (lambda: data.random_split(ROWS, (1.0,), stratify=[], groups=[]), "give one of the two"),
    ],
)
def test_splits_that_cannot_be(call, message):
    with pytest.raises(data.DataError, match=message):
        call()
