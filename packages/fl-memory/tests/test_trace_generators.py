"""Synthetic traces: valid, repeatable, and as difficult as they say."""

from __future__ import annotations

import inspect
import statistics

import pytest

from fl_memory import TraceError, traces
from fl_memory.traces.synthetic import GENERATORS


@pytest.mark.parametrize("name", GENERATORS)
def test_equal_seeds_give_equal_traces(name: str) -> None:
    generator = GENERATORS[name]
    trace = generator(seed=3)
    trace.check()
    assert trace == generator(seed=3) and trace.columns != generator(seed=4).columns
    assert trace.facts["seed"] == 3 and trace.facts["generator"] == name.replace("-", "_")
    kinds = list(trace.columns["kind"])
    assert kinds.count(0) == kinds.count(1) > 100  # nothing lives on


@pytest.mark.parametrize("name", GENERATORS)
def test_arguments_that_make_no_program(name: str) -> None:
    generator = GENERATORS[name]
    for argument in inspect.signature(generator).parameters:
        if argument != "seed":
            with pytest.raises(TraceError, match=f"{argument}=0"):
                generator(**{argument: 0})
    with pytest.raises(TraceError, match="smallest"):
        traces.power_law(smallest=10, largest=9)
    with pytest.raises(TraceError, match="shortest"):
        traces.random_lengths(shortest=10, longest=9)
    with pytest.raises(TraceError, match="at most 1"):
        traces.phases(kept=1.5)


def sizes(trace: traces.Trace) -> list[int]:
    return [nbytes for kind, nbytes in trace.rows("kind", "nbytes") if kind == 0]


def test_sizes_follow_a_power_law() -> None:
    found = sizes(traces.power_law(blocks=20_000, exponent=1.0, smallest=1000, largest=10**9))
    assert 1000 <= min(found) and max(found) <= 10**9
    for multiple in (2, 10, 100):
        share = sum(size > multiple * 1000 for size in found) / len(found)
        assert share == pytest.approx(1 / multiple, rel=0.15)


def test_about_so_many_blocks_live() -> None:
    trace = traces.power_law(blocks=20_000, live=100)
    live, seen = 0, []
    for kind in trace.columns["kind"]:
        live += 1 if kind == 0 else -1
        seen.append(live)
    assert max(seen) <= 101 and 80 <= statistics.mean(seen[1000:-1000]) <= 101


def test_lengths_differ_from_step_to_step() -> None:
    trace = traces.random_lengths(steps=6)
    by_step = [
        {n for kind, n, at in trace.rows("kind", "nbytes", "step") if kind == 0 and at == step}
        for step in range(1, 7)
    ]
    assert len({frozenset(found) for found in by_step}) == 6
    assert trace.tables["phase"] == ["", "forward", "backward"]


def test_survivors_of_a_phase_lie_between_the_next() -> None:
    trace = traces.phases(count=3, blocks=50, kept=0.2)
    born = {block: step for kind, block, step in trace.rows("kind", "block", "step") if kind == 0}
    died = {block: step for kind, block, step in trace.rows("kind", "block", "step") if kind == 1}
    assert sum(died[block] == born[block] + 1 for block in born) == 20


def test_the_adversary_of_buddies_has_sizes_above_powers_of_two() -> None:
    trace = traces.buddy_adversary()
    rounded = [1 << (size - 1).bit_length() for size in sizes(trace)]
    assert sum(rounded) > 1.99 * sum(sizes(trace))
