"""Products and convolutions of `ops.py`: they run, and their operations are counted."""

from __future__ import annotations

import pytest

from cases import contractions


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(contractions, "PRODUCTS", {})
    monkeypatch.setattr(contractions, "LAYERS", {})
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
    }


def test_operations_are_counted(tiny):
    found = contractions.operations()
    assert found["gemm-tiny"] == 2 * 3 * 4 * 5
    assert found["conv-tiny-forward"] == found["conv-tiny-data"] == 2 * (2 * 5 * 4 * 4) * 4 * 9


def test_means_of_ratios_are_geometric():
    import ops

    rows = [{"case": "a", "torch / jit": 2.0}, {"case": "b", "torch / jit": 8.0}]
    assert ops.mean_of("fused", rows) == {"case": "FUSED", "torch / jit": pytest.approx(4.0)}
