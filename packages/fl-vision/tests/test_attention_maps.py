"""Where the class token of a vision transformer looks."""

from __future__ import annotations

import math

import pytest

import fl_tensor as ft
import fl_vision.models as models
from fl_vision import UsageError
from fl_vision.models.attention_maps import attention_weights
from fl_vision.report import attention_picture


@pytest.fixture(autouse=True)
def numpy_backend():
    with ft.use("numpy"):
        yield


def network(**options):
    ft.seed(0)
    return models.ViT(4, 8, 2, layers=2, image=12, classes=3, dropout=0.0, **options).eval()


def test_weights_of_a_layer_give_its_output():
    model = network()
    layer, x = model.layers[0].self_attn, ft.randn((2, 5, 8))
    mask = ft.asarray([[True] * 5, [True, True, False, True, False]])
    weights = attention_weights(layer, x, x, mask)
    assert weights.shape == (2, 2, 5, 5)
    assert ft.sum(weights, axis=3).numpy() == pytest.approx(1.0, abs=1e-6)
    assert ft.max(weights[1, :, :, 2]).item() == 0
    value = ft.linear(x, layer.in_proj_weight[16:], layer.in_proj_bias[16:]).reshape(2, 5, 2, 4)
    mixed = ft.matmul(weights, ft.swapaxes(value, 1, 2))
    out = layer.out_proj(ft.swapaxes(mixed, 1, 2).reshape(2, 5, 8))
    assert ft.allclose(out, layer(x, key_mask=mask), 1e-5, 1e-6).item()


def test_the_token_attends_to_rows_and_columns_of_patches():
    model = network()
    # Without positions, dark patches are alike.
    model.positions.weight.tensor = ft.zeros_like(model.positions.weight.tensor)
    images = ft.zeros((1, 3, 12, 12)).numpy().copy()
    images[0, :, 4:8, 8:12] = 30.0  # the patch in row 1, column 2
    found = models.class_attention(model, ft.asarray(images))
    assert isinstance(found, ft.Tensor) and found.shape == (1, 2, 3, 3)
    others = found.numpy()[0].reshape(2, 9)
    assert others.sum(1) == pytest.approx([1.0] * 2, abs=0.5) and (others.sum(1) < 1).all()
    differs = abs(others - others[:, :1]).max(0) > 1e-6
    assert differs.nonzero()[0].tolist() == [1 * 3 + 2]
    first = models.class_attention(model, ft.asarray(images), layer=0)
    assert first.tolist() == models.class_attention(model, ft.asarray(images), layer=-2).tolist()
    assert first.tolist() != found.tolist()


def test_rollout_of_one_layer_is_its_mean_over_heads():
    model = network()
    model.layers = model.layers[:1]
    images = ft.randn((2, 3, 12, 12))
    mean = ft.mean(models.class_attention(model, images), axis=1).numpy()
    rollout = models.attention_rollout(model, images)
    expected = mean / mean.sum((1, 2), keepdims=True)
    assert rollout.numpy() == pytest.approx(expected, abs=1e-6)


def test_rollout_sums_to_one_and_networks_stay_as_they_are():
    model = network(drop_path=0.5).train()
    images = ft.randn((2, 3, 12, 12))
    found = models.attention_rollout(model, images)
    assert found.shape == (2, 3, 3) and model.training
    assert ft.sum(found, axis=(1, 2)).tolist() == pytest.approx([1.0, 1.0], abs=1e-6)
    assert models.attention_rollout(model, images).tolist() == found.tolist()
    assert math.isfinite(model(images).numpy().sum())


def test_bad_requests():
    with pytest.raises(UsageError, match="layer 2: give one of 2"):
        models.class_attention(network(), ft.zeros((1, 3, 12, 12)), 2)
    with pytest.raises(ft.ShapeError, match="expected"):
        models.attention_rollout(network(), ft.zeros((1, 3, 8, 8)))
    with pytest.raises(ft.FlError, match="ViT"):
        models.class_attention(models.cnn((1, 8, 8)), ft.zeros((1, 3, 12, 12)))


def test_pictures_are_lit_where_weights_are_large():
    image = ft.full((1, 8, 8), 200, ft.uint8)
    picture = attention_picture(image, ft.asarray([[0.0, 0.0], [0.0, 0.7]]))
    assert picture.size == (448, 224)
    assert picture.getpixel((10, 10)) == (200, 200, 200)
    assert picture.getpixel((224 + 5, 5)) == (50, 50, 50)
    assert picture.getpixel((447, 223)) == (200, 200, 200)
