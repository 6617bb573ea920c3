"""Bad inputs to everything public: an error of ours, and never a hang, a crash, or silence."""

from __future__ import annotations

from pathlib import Path

import pytest

import fl_tensor as ft
from accepted import ACCEPTED
from cases import Target, cases_of
from targets import PUBLIC, TARGETS, UNTRIED
from worker import outcomes


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_good_arguments_are_good(target: Target, tmp_path: Path) -> None:
    # A call of `ft.use` stays in force, and models that several targets share would be elsewhere.
    before = ft.current_backend()
    try:
        target.call(tmp_path)
    finally:
        ft.use(before)


def test_everything_public_is_tried() -> None:
    tried = {target.name.partition(" ")[0] for target in TARGETS}
    assert sorted(PUBLIC - tried - UNTRIED.keys()) == []
    assert sorted(UNTRIED.keys() - PUBLIC) == []
    assert sorted(tried & UNTRIED.keys()) == []


def test_bad_arguments_are_refused(request: pytest.FixtureRequest) -> None:
    share = request.config.getoption("--hostile-share")
    seed = request.config.getoption("--hostile-seed")
    cases = cases_of(TARGETS, seed, share)
    assert len(cases) >= 700 * share
    wrong, needed = [], set()
    for number, outcome in outcomes(seed, share, len(cases)):
        name = cases[number].name
        if outcome.startswith("accepted"):
            reasons = [pattern for pattern in ACCEPTED if _matches(name, pattern)]
            needed.update(reasons)
            if reasons:
                continue
        if outcome != "refused":
            wrong.append(f"{name}: {outcome}")
    assert not wrong, f"{len(wrong)} of {len(cases)} bad inputs:\n" + "\n".join(wrong)
    if share == 1:
        assert sorted(ACCEPTED.keys() - needed) == []


def _matches(name: str, pattern: str) -> bool:
    """Whether a name begins and ends with what stands around the ``*`` of a pattern."""
    start, star, end = pattern.partition("*")
    return name.startswith(start) and name.endswith(end) if star else name == pattern
