"""Which groups must run before which, while they grow and merge."""

from __future__ import annotations

import random

from fl_jit.passes.group_order import Precedence


def ordered(*after):
    """Groups 0, 1, ..., each after those."""
    made = Precedence()
    for number, before in enumerate(after):
        made.add(number, before)
    return made


def test_a_path_through_a_third_group_keeps_two_apart():
    order = ordered([], [0], [0, 1], [])
    assert order.needs(2, 0) and not order.needs(0, 2)
    assert order.can_merge(0, 1) and order.can_merge(1, 2) and order.can_merge(2, 3)
    assert not order.can_merge(0, 2) and not order.can_merge(2, 0)


def test_who_comes_after_one_comes_after_both_that_merged():
    order = ordered([], [0], [0, 1], [])
    order.merge(0, 3)
    assert order.needs(1, 3) and order.needs(2, 3) and order.order() == [3, 1, 2]


def test_who_comes_after_a_group_comes_after_what_that_comes_to_need():
    order = ordered([], [0], [])
    order.extend(0, [2])
    assert order.needs(0, 2) and order.needs(1, 2) and order.order() == [2, 0, 1]


def test_so_does_who_came_after_one_that_merged_into_it():
    order = ordered([], [0], [], [])
    order.merge(0, 2)  # nobody came after 2 before
    order.extend(2, [3])
    assert order.needs(1, 3)


def test_what_either_needed_is_needed_after_a_merge():
    order = ordered([], [], [0], [1], [3])
    order.merge(2, 3)
    assert order.needs(3, 0) and order.needs(3, 1) and order.needs(4, 0)


def test_against_paths_found_by_walking():
    rng = random.Random(1)
    for _ in range(300):
        order, edges = Precedence(), {}

        def reached(start, edges=edges):
            found, waiting = set(), list(edges[start])
            while waiting:
                if (one := waiting.pop()) not in found:
                    found.add(one)
                    waiting += edges[one]
            return found

        for number in range(rng.randint(2, 10)):
            edges[number] = {n for n in edges if rng.random() < 0.3}
            order.add(number, edges[number])
            one, other = rng.choice(list(edges)), rng.choice(list(edges))
            if one == other:
                continue
            if rng.random() < 0.5:
                if one not in reached(other):
                    order.extend(one, [other])
                    edges[one].add(other)
                continue
            between = any(
                third not in (one, other)
                and (one in reached(third) and third in reached(other))
                | (other in reached(third) and third in reached(one))
                for third in edges
            )
            assert order.can_merge(one, other) is not between
            if not between:
                order.merge(one, other)
                edges[other] |= edges.pop(one)
                for found in edges.values():
                    if one in found:
                        found.remove(one)
                        found.add(other)
                edges[other].discard(other)
        for one in edges:
            assert {other for other in edges if order.needs(one, other)} == reached(one)
        there = set()
        for number in order.order():
            assert edges[number] <= there
            there.add(number)
        assert there == edges.keys()
