"""Heads of keys and values that several heads of queries share: in every layer with attention."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft

SIZE, HEADS, GROUPS, STEPS = 8, 4, 2, 3

#: Of each layer one with all heads or some, and how it is called with x.
LAYERS = {
    "MultiHeadAttention": (
        lambda **o: nn.MultiHeadAttention(SIZE, HEADS, **o), lambda layer, x: layer(x)
    ),
    "TransformerEncoderLayer": (
        lambda **o: nn.TransformerEncoderLayer(SIZE, HEADS, 16, **o), lambda layer, x: layer(x)
    ),
    "TransformerDecoderLayer": (
        lambda **o: nn.TransformerDecoderLayer(SIZE, HEADS, 16, **o),
        lambda layer, x: layer(x, x * 0.5),
    ),
    "Conformer": (
        lambda **o: nn.Conformer(SIZE, HEADS, 16, kernel=3, **o), lambda layer, x: layer(x)
    ),
}  # fmt: skip
DEFECT = pytest.mark.defect("item 7")
NEW = [pytest.param(name, marks=DEFECT) for name in ("TransformerDecoderLayer", "Conformer")]
OLD = ["MultiHeadAttention", "TransformerEncoderLayer"]


def repeated(value: ft.Tensor) -> ft.Tensor:
    """in_proj_weight or in_proj_bias of all heads: those of keys and values as often as used."""
    width = SIZE // HEADS
    queries, *shared = ft.split(value, (HEADS * width, GROUPS * width, GROUPS * width), 0)
    rest = value.shape[1:]
    parts = [
        ft.repeat(part.reshape(GROUPS, width, *rest), HEADS // GROUPS, axis=0).reshape(-1, *rest)
        for part in shared
    ]
    return ft.concatenate([queries, *parts], 0)


@pytest.mark.parametrize("name", [*OLD, *NEW])
def test_shared_heads_are_those_of_a_layer_that_repeats_them(name):
    make, call = LAYERS[name]
    layer, whole = make(kv_heads=GROUPS).eval(), make().eval()
    state = {
        key: repeated(value) if ".in_proj" in f".{key}" else value
        for key, value in layer.state_dict().items()
    }
    whole.load_state_dict(state)
    x, y = (nn.Parameter(ft.randn((2, STEPS, SIZE), ft.Generator(1))) for _ in range(2))
    found, wanted = call(layer, x), call(whole, y)
    assert ft.allclose(found, wanted, atol=1e-5)
    ft.sum(ft.square(found)).backward()
    ft.sum(ft.square(wanted)).backward()
    assert ft.allclose(x.grad, y.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [*OLD, *NEW])
def test_groups_that_do_not_divide_the_heads_are_refused(name):
    with pytest.raises(nn.ModuleError, match="4 heads, 3 kv_heads: .* must divide heads"):
        LAYERS[name][0](kv_heads=3)


@DEFECT
def test_groups_is_another_name_for_kv_heads():
    layer = nn.MultiHeadAttention(SIZE, HEADS, groups=GROUPS)
    assert layer.kv_heads == GROUPS
    assert repr(layer) == repr(nn.MultiHeadAttention(SIZE, HEADS, kv_heads=GROUPS))
    assert nn.from_config(layer.to_config()).kv_heads == GROUPS
    with pytest.raises(nn.ModuleError, match="kv_heads and groups are one: give either"):
        nn.MultiHeadAttention(SIZE, HEADS, kv_heads=2, groups=2)


def test_functions_say_which_heads_do_not_divide():
    query, key = ft.ones((1, 4, 2, 8)), ft.ones((1, 3, 2, 8))
    for function in (ft.attention, nn.attention):
        with pytest.raises(ft.ShapeError, match="the heads of key divide those of query"):
            function(query, key, key)
