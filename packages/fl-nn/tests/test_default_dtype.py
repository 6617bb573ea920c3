"""Modules under `ft.default_dtype`."""

from __future__ import annotations

from typing import Any

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_tensor.testing import needs

pytestmark = [pytest.mark.defect("N36"), needs("float64")]


def model() -> Any:
    return nn.Sequential(
        nn.Conv2D(1, 2, 3, padding=1),
        nn.BatchNorm(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32, 4),
        nn.LayerNorm(4),
    )


def test_parameters_and_buffers_have_the_default_dtype() -> None:
    with ft.default_dtype("float64"):
        made = model()
        others = [nn.LSTM(3, 4), nn.Embedding(5, 3), nn.MultiHeadAttention(4, 2)]
    floating = [x for x in made.state_dict().values() if x.dtype.is_floating]
    assert len(floating) >= 8
    assert {x.dtype for x in floating} == {ft.float64}
    assert {p.dtype for m in others for p in m.parameters()} == {ft.float64}
    assert {p.dtype for p in model().parameters()} == {ft.float32}


def test_a_step_stays_in_it() -> None:
    with ft.default_dtype("float64"):
        net = model()
        optimizer = nn.AdamW(net.parameters(), lr=0.01)
        loss = nn.CrossEntropy()(net(ft.randn((8, 1, 4, 4))), ft.arange(8) % 4)
        loss.backward()
        optimizer.step()
    assert loss.dtype is ft.float64
    assert {p.dtype for p in net.parameters()} == {ft.float64}
