"""Random programs do here what they do in NumPy, or what the table of differences says."""

from __future__ import annotations

import pytest
from fuzzing import stress
from fuzzing.differences import TABLE
from fuzzing.lockstep import DisagreementError, Program
from fuzzing.step import Step

import fl_tensor as ft


def test_programs_agree_with_numpy():
    report = stress.run(programs=300)
    assert report.counts["programs"] >= 300
    assert report.counts["operations"] > 1500
    assert report.counts["errors that agreed"] > 50


def program(*lines):
    made = Program()
    for line in lines:
        made.run(Step(line))
    return made


def test_a_disagreement_prints_a_script():

    with ft.override(add=lambda inner, x, y: inner.subtract(x, y)):
        with pytest.raises(DisagreementError, match="values differ") as caught:
            program("ft.asarray(np.array([1, 2]))", "v0[:1]", "v0 + v1")
    script = str(caught.value).partition("\n\n")[2]
    scope = {"print": lambda *values: printed.extend(values)}
    printed: list[str] = []
    exec(script, scope)
    assert scope["y2"].tolist() == [2, 3] == scope["x2"].tolist(), "without the override"
    assert len(printed) == 2


def test_a_change_behind_the_back_is_seen():
    def careless(inner, x, starts, steps, updates, donate=False):
        x.array[:1] = updates.array
        return x

    with ft.override(slice_update=careless), pytest.raises(DisagreementError, match="has changed"):
        program("ft.asarray(np.array([1, 2]))", "v0.copy()", "v1[0] = 5")


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry.name)
def test_every_documented_difference_exists(entry):
    # Its example differs so, and would fail without the entry.
    *before, last = entry.example
    made = Program()
    for step in before:
        made.run(step)
    assert not made.differences
    made.run(last)
    assert dict(made.differences) == {entry.name: 1}
    bare = Program(table=[e for e in TABLE if e is not entry])
    with pytest.raises(DisagreementError):
        for step in entry.example:
            bare.run(step)
