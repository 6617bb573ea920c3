"""``y, w = layer(x)``: attention gives one array, and says so."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft

LAYER = nn.MultiHeadAttention(4, 2)
X = ft.ones((2, 3, 4))


def starred():
    first, *others = LAYER(X)
    return first, others


def pair():
    y, weights = LAYER(X, X, X)
    return y, weights


@pytest.mark.defect("N17")
@pytest.mark.parametrize("call", [pair, starred])
def test_a_result_of_attention_is_not_taken_apart(call):
    with pytest.raises(TypeError, match=r"one array, the output, without weights: write y = "):
        call()


@pytest.mark.defect("N17")
def test_other_uses_of_a_result_work():
    whole = LAYER(X)
    a, b = whole  # the elements of the batch
    (c, d), e = ft.unstack(LAYER(X)), LAYER(X)[0]
    assert whole.shape == (2, 3, 4) and a.shape == b.shape == c.shape == d.shape == e.shape
    assert [row.shape for row in LAYER(X)] == [(3, 4), (3, 4)]
    first, second, third = LAYER(ft.ones((3, 3, 4)))
    assert first.shape == second.shape == third.shape == (3, 4)
    model = nn.Sequential(LAYER)
    f, g = model(X)
    assert f.shape == g.shape == (3, 4)
