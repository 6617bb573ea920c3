"""Products and convolutions of `ops.py` and `gemm_conv.py`: they run, operations are counted."""

from __future__ import annotations

import numpy as np
import pytest

from cases import contractions


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(contractions, "PRODUCTS", {})
    monkeypatch.setattr(contractions, "LAYERS", {})
    monkeypatch.setattr(contractions, "GROUPED", {})
    contractions.make_tiny()


def test_every_case_runs_here(tiny):
    cases = contractions.operations()
    shapes = {case: contractions.our_call(case)().shape for case in cases}
    assert shapes == {
        "gemm-tiny": (3, 5),
        "conv-tiny-forward": (2, 5, 4, 4),
        "conv-tiny-data": (2, 4, 8, 8),
        "conv-tiny-weights": (5, 4, 3, 3),
        "conv-images-forward": (2, 5, 6, 6),
        "conv-images-weights": (5, 3, 3, 3),
        "grouped-few-forward": (2, 8, 6, 6),
        "grouped-few-data": (2, 4, 6, 6),
        "grouped-few-weights": (8, 1, 3, 3),
    }


def test_operations_are_counted(tiny):
    found = contractions.operations()
    assert found["gemm-tiny"] == 2 * 3 * 4 * 5
    assert found["conv-tiny-forward"] == found["conv-tiny-data"] == 2 * (2 * 5 * 4 * 4) * 4 * 9
    assert found["grouped-few-data"] == 2 * (2 * 8 * 6 * 6) * 1 * 9


def test_lists_of_the_claims_are_those_of_the_report():
    import gemm_conv

    listed = {group: list(gemm_conv.cases_of(group, [])) for group in gemm_conv.GROUPS}
    assert {group: len(cases) for group, cases in listed.items()} == {
        "products": 11,
        "packed": 9,
        "forward": 17,
        "data": 16,
        "weights": 17,
        "depthwise": 63,
    }
    assert list(gemm_conv.cases_of("forward", ["data"])) == []
    selected = ["conv-Alex-11x11/4-3-64@224-forward"]
    assert list(gemm_conv.cases_of("forward", selected)) == selected


def test_a_summary_has_the_mean_and_the_worst_of_what_was_measured():
    import gemm_conv

    rows = [{"oneDNN / ours": 0.5, "torch / ours": 3.0}, {"oneDNN / ours": 2.0}]
    mean, worst = gemm_conv.summary("data", rows)
    assert mean["oneDNN / ours"] == pytest.approx(1.0) and worst["oneDNN / ours"] == 0.5
    assert mean["torch / ours"] == pytest.approx(3.0)


def test_results_that_differ_end_the_comparison():
    import gemm_conv

    class Result:
        def __init__(self, *numbers):
            self.numbers = numbers

        def result(self):
            return np.array(self.numbers)

    gemm_conv.compare("case", {"x": Result(1.0, 100.0), "y": Result(1.0, 100.001)}, 2e-5)
    grouped = Result([1.0, 100.0])  # the same numbers, with an axis of groups
    gemm_conv.compare("case", {"x": Result(1.0, 100.0), "y": grouped}, 2e-5)
    with pytest.raises(SystemExit, match="case: y and x differ by 1.0e-02"):
        gemm_conv.compare("case", {"x": Result(1.0, 100.0), "y": Result(2.0, 100.0)}, 2e-5)


def test_means_of_ratios_are_geometric():
    import ops

    rows = [{"case": "a", "torch / jit": 2.0}, {"case": "b", "torch / jit": 8.0}]
    assert ops.mean_of("fused", rows) == {"case": "FUSED", "torch / jit": pytest.approx(4.0)}
