"""The cases of `contractions.py` run, and count their operations."""

from __future__ import annotations

import contractions
import pytest


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(contractions, "PRODUCTS", {"gemm-tiny": ((3, 4), (4, 5))})
    # batch, channels, size, features, kernel, stride, padding
    layers = {"tiny": (2, 4, 8, 5, 3, 2, 1), "images": (2, 3, 8, 5, 3, 1, 0)}
    monkeypatch.setattr(contractions, "LAYERS", layers)


def test_every_case_runs_here(tiny):
    calls = contractions.our_calls()
    shapes = {case: calls[case]().shape for case in contractions.operations()}
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


def test_means_are_geometric():
    rows = [{"case": "gemm-a", "to torch": 2.0}, {"case": "gemm-b", "to torch": 8.0}]
    assert contractions.means(rows) == [{"case": "gemm", "to torch": pytest.approx(4.0)}]
