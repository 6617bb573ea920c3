"""Every operation with a counterpart in PyTorch, on the samples of PyTorch's own tests."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

import comparison
from conventions import CONVENTIONS
from counterparts import COUNTERPARTS

CASES = [(name, dtype) for name in sorted(COUNTERPARTS) for dtype in comparison.dtypes_of(name)]


@pytest.mark.parametrize("name, dtype", CASES, ids=lambda value: str(value).removeprefix("torch."))
def test_values_and_gradients(
    name: str, dtype: torch.dtype, request: pytest.FixtureRequest
) -> None:
    share = request.config.getoption("--opinfo-share")
    seed = request.config.getoption("--opinfo-seed")
    failures = []
    for sample in comparison.samples(name, dtype, share, seed):
        try:
            comparison.check(name, sample)
        except comparison.DifferenceError as error:
            failures.append(f"sample {sample.number}: {sample.theirs.summary()}\n    {error}")
    comparison.TALLY.operations.add(name)
    assert not failures, f"{len(failures)} samples of {name} differ:\n" + "\n".join(failures[:5])


def test_there_are_enough_counterparts() -> None:
    assert len(COUNTERPARTS) >= 300


def test_every_convention_explains_a_difference(request: pytest.FixtureRequest) -> None:
    options = request.config.option
    if options.opinfo_share < 1 or options.keyword or len(request.session.items) < len(CASES):
        pytest.skip("only a run over all samples tells")
    idle = [f"{c.operations}: {c.reason}" for c in CONVENTIONS if not c.differed]
    assert not idle, "no difference needs:\n" + "\n".join(idle)
