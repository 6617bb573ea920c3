"""Scheduling: orders that can run, and what they need of memory."""

from __future__ import annotations

import itertools
import random

import pytest

import fl_tensor as ft
from fl_jit.passes.schedule import Task, memory, schedule
from fl_tensor.graph import Value


class Values(dict):
    """Values by name; their bytes are given, or 4."""

    def __missing__(self, name):
        self[name] = Value(len(self), (1,), ft.float32, ft.CPU, name)
        return self[name]

    def of(self, name, count):
        self[name] = Value(len(self), (count,), ft.float32, ft.CPU, name)


def tasks(values, *lines):
    """``"x y -> z"``: one that reads x and y and makes z."""
    made = []
    for line in lines:
        reads, makes = line.split("->")
        made.append(Task(*([values[name] for name in side.split()] for side in (reads, makes))))
    return made


def peak(found, order, kept):
    return max(memory(found, order, kept))


def can_run(found, order):
    made = {v for task in found for v in task.makes}
    seen = set()
    for number in order:
        if (set(found[number].reads) & made) - seen - set(found[number].makes):
            return False
        seen |= set(found[number].makes)
    return sorted(order) == list(range(len(found)))


def test_memory_is_what_was_made_and_is_still_needed():
    values = Values()
    found = tasks(values, "x -> a", "a -> b", "a b -> c", "c -> d")
    # x was there before; a and b die after the third task, c after the last, d is kept
    assert memory(found, range(4), [values["d"]]) == [4, 8, 12, 8]


def test_what_nobody_reads_dies_at_once():
    found = tasks(Values(), "-> a", "-> b")
    assert memory(found, [0, 1], []) == [4, 4]


def test_so_it_is_made_before_what_stays():
    values = Values()
    values.of("unread", 100)
    found = tasks(values, "-> stays", "-> unread")
    assert schedule(found, [values["stays"]]) == [1, 0]


def test_branches_run_one_after_the_other():
    """Large values that give small ones: none is to wait while another is made."""
    values = Values()
    for name in "abcd":
        values.of(name, 1000)
    found = tasks(
        values,
        *(f"x -> {n}" for n in "abcd"),
        *(f"{n} -> s{n}" for n in "abcd"),
        "sa sb sc sd -> t",
    )
    order = schedule(found, [values["t"]])
    assert can_run(found, order)
    assert peak(found, range(9), [values["t"]]) == 16_004
    assert peak(found, order, [values["t"]]) == 4_016


def test_what_frees_memory_runs_before_what_takes_more():
    values = Values()
    for name in "ab":
        values.of(name, 1000)
    found = tasks(values, "-> a", "-> b", "a -> s", "b s -> t")
    assert schedule(found, [values["t"]]) == [0, 2, 1, 3]


def test_equal_tasks_keep_close_to_their_operands():
    """Two chains: one is finished before the other begins."""
    values = Values()
    found = tasks(values, "-> a", "-> b", "a -> c", "b -> d", "c -> e", "d -> f", "e f -> g")
    order = schedule(found, [values["g"]])
    assert peak(found, order, [values["g"]]) <= peak(found, range(7), [values["g"]])


def random_tasks(rng, count):
    values = Values()
    lines = []
    for i in range(count):
        values.of(f"v{i}", rng.choice((1, 10, 100)))
        reads = rng.sample(range(i), min(i, rng.randint(0, 3)))
        lines.append(" ".join(f"v{r}" for r in reads) + f" -> v{i}")
    found = tasks(values, *lines)
    return found, {values[f"v{i}"] for i in range(count) if rng.random() < 0.2}


@pytest.mark.parametrize("seed", range(100))
def test_orders_can_run_and_are_never_worse(seed):
    found, kept = random_tasks(random.Random(seed), 40)
    order = schedule(found, kept)
    assert can_run(found, order)
    assert peak(found, order, kept) <= peak(found, range(40), kept)


def test_orders_are_near_the_best():
    """Of small graphs every order is tried."""
    ratios = []
    for seed in range(40):
        found, kept = random_tasks(random.Random(seed), 7)
        ways = (o for o in itertools.permutations(range(7)) if can_run(found, o))
        best = min(peak(found, order, kept) for order in ways)
        ratios.append(peak(found, schedule(found, kept), kept) / best)
    assert min(ratios) == 1.0
    assert sum(ratios) / len(ratios) < 1.05


def test_a_task_that_reads_what_it_makes():
    values = Values()
    found = tasks(values, "x a -> a b", "b -> c")
    assert schedule(found, [values["c"]]) == [0, 1]


def test_nothing():
    assert schedule([], []) == []
