"""DETR and RetinaNet: what comes out, and that padding changes nothing."""

from __future__ import annotations

import math

import pytest

import fl_nn as nn
import fl_tensor as ft
import fl_vision.models as models


def backbone():
    # No padding of its own: kernels of 1 pixel see no border, so that padding can be told apart.
    return models.ResNet((1, 1), 4, 0, bottleneck=False, small_stem=True)


def small(**options):
    ft.seed(0)
    settings = dict(size=16, heads=2, hidden=24, encoder_layers=2, decoder_layers=3, dropout=0.0)
    return models.DETR(backbone(), 3, 5, **(settings | options)).eval()


def test_detr_gives_scores_and_boxes_of_every_layer():
    found = small()(ft.randn((2, 3, 16, 24)))
    assert found.logits.shape == (2, 5, 4) and found.boxes.shape == (2, 5, 4)
    assert len(found.auxiliary) == 2
    for layer in (found, *found.auxiliary):
        boxes = layer["boxes"].numpy()
        assert (boxes > 0).all() and (boxes < 1).all()
    assert list(found) == ["logits", "boxes", "auxiliary"]
    with pytest.raises(KeyError, match="'scores': one of logits, boxes, auxiliary"):
        found["scores"]


def test_the_last_layer_is_the_same_without_the_others():
    images = ft.randn((1, 3, 16, 16))
    alone = small(auxiliary=False)(images)
    assert alone.auxiliary == ()
    assert alone.logits.tolist() == small()(images).logits.tolist()


def test_padding_does_not_change_what_the_transformer_finds():
    # Features of the padded image are those of the image, beside others behind the mask.
    model = small()
    model.level = "given"
    features = ft.randn((1, 8, 4, 6))
    wider = ft.concatenate([features, 100.0 * ft.randn((1, 8, 4, 2))], 3)
    higher = ft.concatenate([wider, 100.0 * ft.randn((1, 8, 3, 8))], 2)

    def found(given, mask):
        model.backbone.feature_maps = lambda images: {"given": given}
        images = ft.zeros((1, 3, 2 * given.shape[2], 2 * given.shape[3]))
        return model(images, mask)

    inside = [[row < 8 and column < 12 for column in range(16)] for row in range(14)]
    alone = found(features, None)
    padded = found(higher, ft.asarray([inside]))
    assert ft.allclose(alone.logits, padded.logits, 1e-4, 1e-5).item()
    assert ft.allclose(alone.boxes, padded.boxes, 1e-4, 1e-5).item()
    blind = found(higher, None)
    assert not ft.allclose(alone.logits, blind.logits, 1e-2, 1e-2).item()


def test_a_mask_of_another_shape_or_dtype_is_refused():
    with pytest.raises(ft.ShapeError, match=r"mask \(1, 16, 8\) of bool: expected bools \(1, 16, "):
        small()(ft.zeros((1, 3, 16, 16)), ft.full((1, 16, 8), True, ft.bool))
    with pytest.raises(ft.ShapeError, match="of float32: expected bools"):
        small()(ft.zeros((1, 3, 16, 16)), ft.ones((1, 16, 16)))


def test_sine_positions_by_the_formula():
    layer = models.SinePositions2D(8)
    table = layer(ft.full((1, 3, 5), True, ft.bool)).numpy().reshape(3, 5, 8)
    for row in range(3):
        for column in range(5):
            angles = 2 * math.pi * (row + 1) / 3, 2 * math.pi * (column + 1) / 5
            expected = [
                f(angle * rate)
                for angle in angles
                for rate in (1, 0.01)
                for f in (math.sin, math.cos)
            ]
            assert table[row, column] == pytest.approx(expected, abs=1e-5)


def test_attention_is_exact_where_scores_are_ten_thousand():
    # Identity projections: the scores are products of the inputs, and each query sees one key.
    layer = nn.MultiHeadAttention(4, 1)
    layer.in_proj_weight.tensor = ft.concatenate([ft.eye(4)] * 3, 0)
    layer.out_proj.weight.tensor = ft.eye(4)
    x = ft.asarray([[[200.0, 0, 0, 0], [-200.0, 0, 0, 0], [0, 200.0, 0, 0]]])
    found = layer(x)
    assert abs(200.0 * 200.0 / math.sqrt(4)) >= 1e4
    assert found.tolist() == x.tolist()
    mask = ft.asarray([[True, True, False]])
    hidden = layer(x, key_mask=mask).numpy()
    assert hidden[0, :2].tolist() == x.numpy()[0, :2].tolist()
    assert hidden[0, 2].tolist() == pytest.approx([0.0] * 4)  # the mean of the two that it may see


def test_positions_go_to_queries_and_keys_alone():
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0)
    x, places = ft.randn((1, 3, 8)), ft.randn((1, 3, 8))
    attended = layer.self_attn(x + places, x + places, x)
    x1 = layer.norm1(x + attended)
    expected = layer.norm2(x1 + layer.linear2(ft.relu(layer.linear1(x1))))
    assert ft.allclose(layer(x, positions=places), expected, 1e-5, 1e-6).item()


def test_retinanet_gives_a_level_for_each_map():
    ft.seed(0)
    network = models.ResNet((1, 1, 1, 1), 4, 0, bottleneck=False)
    model = models.RetinaNet(network, 3, anchors=2, size=8, depth=1).eval()
    found = model(ft.randn((2, 3, 64, 96)))
    assert found.sizes == ((8, 12), (4, 6), (2, 3), (1, 2), (1, 1))
    assert [x.shape for x in found.logits] == [(2, 2 * h * w, 3) for h, w in found.sizes]
    logits, boxes = found.flattened()
    count = sum(2 * h * w for h, w in found.sizes)
    assert logits.shape == (2, count, 3) and boxes.shape == (2, count, 4)
    # All scores begin near the prior.
    assert ft.sigmoid(logits).numpy().mean() == pytest.approx(0.01, rel=0.2)


def test_a_head_counts_places_by_rows_and_anchors_side_by_side():
    from fl_vision.models.retinanet import DenseHead

    head = DenseHead(1, anchors=2, values=3, depth=0)
    kernel = ft.zeros((6, 1, 3, 3)).numpy().copy()
    kernel[:, 0, 1, 1] = range(1, 7)  # value v of anchor a is (3a + v + 1) times the pixel
    head.predict.weight.tensor = ft.asarray(kernel)
    pixels = ft.asarray([[[[1.0, 10.0], [100.0, 1000.0]]]])
    expected = [[p * (3 * a + v + 1) for v in range(3)] for p in (1, 10, 100, 1000) for a in (0, 1)]
    assert head(pixels).tolist() == [expected]


@pytest.mark.parametrize("name", ["detr", "retinanet"])
def test_a_detector_learns_a_batch_by_heart(name):
    with ft.use("numpy"):  # no kernel is worth compiling for so few steps
        losses = losses_of_a_batch(name)
    assert losses[-1] < 0.75 * losses[0]


def losses_of_a_batch(name):
    ft.seed(0)
    images = ft.randn((2, 3, 16, 16))
    if name == "detr":
        model = small(encoder_layers=1, decoder_layers=2).train()
        boxes = ft.asarray([[[0.3, 0.3, 0.2, 0.2]] * 5, [[0.7, 0.6, 0.4, 0.2]] * 5])

        def loss():
            found = model(images)
            return sum(
                (ft.mean(ft.abs(x.boxes - boxes)) for x in found.auxiliary),
                ft.mean(ft.abs(found.boxes - boxes)),
            )
    else:
        network = models.ResNet((1, 1, 1, 1), 4, 0, bottleneck=False)
        model = models.RetinaNet(network, 3, anchors=1, size=8, depth=1)

        def loss():
            logits, boxes = model(images).flattened()
            return ft.mean(ft.square(boxes - 1.0)) + ft.mean(ft.square(logits - 1.0))

    optimizer = nn.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(20):
        value = loss()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses
