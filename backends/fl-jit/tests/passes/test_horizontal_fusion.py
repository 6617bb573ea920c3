"""Horizontal fusion: which tasks run together, and when."""

from __future__ import annotations

import random

import fl_tensor as ft
from fl_jit.passes.horizontal_fusion import together
from fl_jit.passes.schedule import Task
from fl_tensor.graph import Value


class Values(dict):
    """Values by name, of 4 bytes."""

    def __missing__(self, name):
        self[name] = Value(len(self), (1,), ft.float32, ft.CPU, name)
        return self[name]


def tasks(*lines):
    """``"x y -> z"``: one that reads x and y and makes z."""
    values, made = Values(), []
    for line in lines:
        reads, makes = line.split("->")
        made.append(Task(*([values[name] for name in side.split()] for side in (reads, makes))))
    return made


def test_updates_run_together_when_the_last_of_them_would():
    found = tasks("p g -> p2", "x -> y", "q h -> q2", "y -> z", "r i -> r2", "z -> w")
    small = {0, 2, 4}
    assert together(found, small.__contains__) == [[1], [3], [0, 2, 4], [5]]


def test_operations_on_computed_values_are_not_deferred():
    found = tasks("x -> a", "x -> b", "b -> c", "x -> d")
    assert together(found, lambda number: True) == [[1], [0, 2, 3]]


def test_those_that_do_not_join_run_alone():
    found = tasks("x -> a", "x -> b", "x -> c")
    assert together(found, lambda number: False) == [[0], [1], [2]]
    assert together(found, lambda number: number != 1) == [[1], [0, 2]]


def test_a_group_holds_no_more_than_so_many_bytes():
    found = tasks(*(f"p{i} g{i} -> q{i}" for i in range(7)))
    assert together(found, lambda number: True, most=36) == [[0, 1, 2], [3, 4, 5], [6]]
    assert together(found, lambda number: True, most=1) == [[i] for i in range(7)]


def test_every_order_can_run():
    rng = random.Random(1)
    for _ in range(200):
        count = rng.randint(1, 12)
        lines = [
            f"{' '.join(f'v{rng.randrange(i)}' for _ in range(rng.randint(0, 2)) if i)} -> v{i}"
            for i in range(count)
        ]
        found = tasks(*lines)
        joins = {i for i in range(count) if rng.random() < 0.7}
        groups = together(found, joins.__contains__, most=rng.choice([1, 20, 1 << 20]))
        assert sorted(number for group in groups for number in group) == list(range(count))
        there = set()
        made = {v for task in found for v in task.makes}
        for group in groups:
            needed = {v for number in group for v in found[number].reads} & made
            assert needed <= there
            there |= {v for number in group for v in found[number].makes}
