"""Edit distance against every alignment there is, and against the table of cells."""

from __future__ import annotations

import functools
import math
import random

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError


def alignments(a, b):
    """(deletions, insertions, substitutions) of every alignment of two short strings."""
    if not a or not b:
        return {(len(a), len(b), 0)}
    paired = {(d, i, s + (a[-1] != b[-1])) for d, i, s in alignments(a[:-1], b[:-1])}
    deleted = {(d + 1, i, s) for d, i, s in alignments(a[:-1], b)}
    inserted = {(d, i + 1, s) for d, i, s in alignments(a, b[:-1])}
    return paired | deleted | inserted


def by_cells(a, b):
    """The documented choice among the shortest alignments, from the table of all distances."""

    @functools.cache
    def distance(i, j):
        if not i or not j:
            return i + j
        paired = distance(i - 1, j - 1) + (a[i - 1] != b[j - 1])
        return min(paired, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    i, j, counts = len(a), len(b), [0, 0, 0]
    while i and j:
        if distance(i, j) == distance(i - 1, j - 1) + (a[i - 1] != b[j - 1]):
            counts[2] += a[i - 1] != b[j - 1]
            i, j = i - 1, j - 1
        elif distance(i, j) == distance(i - 1, j) + 1:
            counts[0], i = counts[0] + 1, i - 1
        else:
            counts[1], j = counts[1] + 1, j - 1
    return (counts[0] + i, counts[1] + j, counts[2])


def counted(prediction, target):
    meter = nn.EditDistanceMeter()
    meter.add(prediction, target)
    assert meter.value.errors == sum(meter.value[2:]) and meter.value.n == len(target)
    return tuple(meter.value[2:])


def random_pairs(count, longest, letters, seed):
    rng = random.Random(seed)
    for _ in range(count):
        yield tuple(
            "".join(rng.choice(letters) for _ in range(rng.randint(0, longest))) for _ in "ab"
        )


def test_counts_are_those_of_a_shortest_alignment():
    for target, prediction in random_pairs(300, 5, "abc", 0):
        ways = alignments(target, prediction)
        fewest = min(map(sum, ways))
        assert counted(prediction, target) in {way for way in ways if sum(way) == fewest}


@pytest.mark.parametrize(("count", "longest"), [(1000, 8), (60, 100)])
def test_ties_are_broken_as_documented(count, longest):
    for target, prediction in random_pairs(count, longest, "abcd", 1):
        assert counted(prediction, target) == by_cells(target, prediction), (target, prediction)


def test_substitutions_go_before_deletions_with_insertions():
    assert counted("ba", "ab") == (0, 0, 2)
    assert counted("kitten", "sitting") == (1, 0, 2)
    assert counted("", "abc") == (3, 0, 0) and counted("abc", "") == (0, 3, 0)


def test_tokens_are_words_letters_or_numbers():
    expected = counted([1, 4, 3, 5], [1, 2, 3])
    assert expected == (0, 1, 1)
    assert counted(ft.asarray([1, 4, 3, 5]), ft.asarray([1, 2, 3])) == expected
    assert counted((1, 4, 3, 5), ft.asarray([1, 2, 3])) == expected
    assert counted("the dog sat down".split(), "the cat sat".split()) == expected
    assert counted([(0, 1)], [(0, 1)]) == (0, 0, 0)


def test_rates_are_percentages_of_the_target_tokens():
    meter = nn.EditDistanceMeter()
    meter.add("abxd", "abcd")
    meter.add("", "efgh")
    assert meter.value == (5, 8, 4, 0, 1)
    assert meter.error_rate == (62.5, 8, 50.0, 0.0, 12.5) and meter.result() == 62.5


def test_errors_without_target_tokens_are_infinitely_many_and_nothing_has_no_rate():
    meter = nn.EditDistanceMeter()
    assert all(math.isnan(rate) for rate in (meter.result(), meter.error_rate.insertions))
    meter.add("ab", "")
    assert meter.result() == meter.error_rate.insertions == math.inf
    assert math.isnan(meter.error_rate.deletions)


def test_errors_that_were_counted_elsewhere():
    meter = nn.EditDistanceMeter()
    meter.add_counts(10, deletions=1, insertions=2, substitutions=3)
    assert meter.value == (6, 10, 1, 2, 3)
    for counts in [(1, 1, 0, 1), (3, -1, 0, 0), (-1, 0, 0, 0)]:
        with pytest.raises(ModuleError, match="once at most"):
            meter.add_counts(*counts)


def test_a_batch_is_added_one_by_one():
    with pytest.raises(ft.ShapeError, match=r"target \(2, 3\): expected one axis"):
        nn.EditDistanceMeter().add([1], ft.zeros((2, 3), ft.int64))


def test_long_sequences_need_neither_recursion_nor_a_table():
    rng = random.Random(2)
    target = [rng.randrange(50) for _ in range(3000)]
    prediction = target[:1000] + [99] + target[1001:2000] + target[2003:]
    assert counted(prediction, target) == (3, 0, 1)
