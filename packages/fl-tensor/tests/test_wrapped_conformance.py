"""A wrapped backend is a backend. ``nox -s conformance`` puts the whole kit through all wrappers at
once; here are its operations in one dtype each, and the command."""

from __future__ import annotations

import pytest

import fl_tensor as ft
from fl_tensor import dtypes
from fl_tensor.testing import CASES, wording
from fl_tensor.testing.__main__ import main
from fl_tensor.testing.harness import Harness

WRAPPERS = {
    "profile": ft.profile,
    "check": lambda: ft.check(nan=False, inf=False),  # some samples are about NaN and infinities
    "count": ft.count,
    "trace": ft.trace,
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_every_operation_keeps_its_contract_behind_a_wrapper(name):
    harness = Harness(ft.wrapped("numpy", WRAPPERS[name]()))
    found = []
    for case in CASES.values():
        if case.capability and case.capability not in harness.backend.capabilities:
            continue
        dtype = next(d for d in (dtypes.float32, *dtypes.ALL.values()) if case.accepts(d))
        for sample in filter(harness.supports, case.draw(dtype)):
            call = wording.call(case.name, sample)
            found += [f"{call}: {p}" for p in harness.check(case, sample, dtype)]
    assert found == []


def test_the_command_tests_a_backend_behind_wrappers(capfd):
    options = ["--under", "profile,check,count,trace", "-k", "test_operation and (add or softmax)"]
    assert main(["numpy", *options]) == 0
    assert "0 failed" in capfd.readouterr().out


def test_the_command_knows_its_wrappers(capfd):
    assert main(["numpy", "--under", "chekc"]) == 2
    assert "chekc: expected some of profile,check,count,trace" in capfd.readouterr().err
