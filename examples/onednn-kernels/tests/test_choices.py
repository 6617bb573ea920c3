"""Choices among the kernels of oneDNN, by ``fl-jit tune``."""

from __future__ import annotations

import pytest

import fl_tensor as ft
from fl_jit.kernels import Convolution, Matmul, Reorder, channels_last, row_major
from fl_tensor.dtypes import float32
from onednn_kernels import OneDNN

PRODUCT = Matmul(*(row_major(float32, shape) for shape in ((200, 160), (160, 100), (200, 100))))
IMAGE = channels_last(float32, (2, 16, 12, 12))
PLACES = (1, 1), ((0, 0), (0, 0)), (1, 1)
POINTWISE = Convolution(IMAGE, row_major(float32, (16, 16, 1, 1)), IMAGE, *PLACES)


@pytest.fixture
def fresh(shared_library, tmp_path, monkeypatch):
    """A library whose choices are nobody else's."""
    monkeypatch.setenv("FL_CACHE_DIR", str(tmp_path))
    return OneDNN(shared_library)


def test_candidates_are_measured_and_recorded(fresh):
    fresh.tune(PRODUCT)
    fresh.tune(POINTWISE)
    decisions = fresh.tuner.decisions()
    product = decisions["matmul float32 200x160x100 rows rows rows"]
    assert (
        set(product["us"]) == {"matmul", "sgemm", "packed"} and product["choice"] in product["us"]
    )
    (pointwise,) = [found for key, found in decisions.items() if key.startswith("convolution")]
    assert {"given", "product"} <= set(pointwise["us"])
    assert "matmul float32" in fresh.choices()


def test_a_recorded_choice_is_taken(fresh, monkeypatch):
    by_rule = fresh.find(PRODUCT).about
    monkeypatch.setattr(
        "fl_jit.kernels.autotune.measure",
        lambda made, *rest: {n: 2.0 - (n == "matmul") for n in made},
    )
    assert "sgemm" in by_rule and fresh.tune(PRODUCT) == "matmul"
    assert "sgemm" not in fresh.find(PRODUCT).about
    with ft.reproducible():
        assert fresh.find(PRODUCT).about == by_rule


def test_what_has_one_kernel_has_no_choice(fresh):
    assert fresh.tune(Reorder(IMAGE, row_major(float32, IMAGE.shape))) == ""
    assert (
        fresh.tune(PRODUCT._replace(x=row_major(float32, (200, 160))._replace(strides=(0, 1))))
        == ""
    )
    assert fresh.tuner.decisions() == {}
