"""DETR's matching and losses against those of transformers, with gradients."""

from __future__ import annotations

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_vision import detection

torch = pytest.importorskip("torch")
pytest.importorskip("scipy")
loss_for_object_detection = pytest.importorskip("transformers.loss.loss_for_object_detection")

CLASSES, QUERIES, LAYERS = 6, 12, 3


def batch(seed: int, counts: tuple[int, ...]) -> tuple[list[np.ndarray], list[detection.Objects]]:
    rng = np.random.default_rng(seed)
    images = len(counts)
    logits = rng.normal(size=(LAYERS, images, QUERIES, CLASSES + 1))
    boxes = rng.uniform(0.05, 0.6, (LAYERS, images, QUERIES, 4))
    objects = [
        detection.Objects(
            rng.uniform(0.1, 0.6, (count, 4)).astype(np.float32), rng.integers(0, CLASSES, count)
        )
        for count in counts
    ]
    return [logits, boxes], objects


@pytest.mark.parametrize("counts", [(3, 1), (0, 4, 2), (0, 0), (15, 12)])
def test_pairs_losses_and_gradients_are_equal(counts):
    arrays, objects = batch(sum(counts), counts)
    inputs = [torch.tensor(x, requires_grad=True) for x in arrays]
    layers = [{"logits": a, "pred_boxes": b} for a, b in zip(*inputs, strict=True)]
    targets = [
        {"class_labels": torch.tensor(o.labels), "boxes": torch.tensor(o.boxes).double()}
        for o in objects
    ]
    matcher = loss_for_object_detection.HungarianMatcher(1, 5, 2)
    criterion = loss_for_object_detection.ImageLoss(matcher, CLASSES, 0.1, ["labels", "boxes"])
    criterion.double()
    *auxiliary, last = layers
    theirs = criterion({**last, "auxiliary_outputs": auxiliary}, targets)
    factors = {"loss_ce": 1.0, "loss_bbox": 5.0, "loss_giou": 2.0}
    total = sum(
        value * factors["_".join(name.split("_")[:2])]
        for name, value in theirs.items()
        if "error" not in name
    )
    wanted = torch.autograd.grad(total, inputs)

    operands = [ag.Variable(ft.asarray(x), requires_grad=True) for x in arrays]
    mine = [detection.SetPrediction(operands[0][k], operands[1][k]) for k in range(LAYERS)]
    pairs = detection.HungarianMatcher()(*mine[-1][:2], objects)
    for found, expected in zip(pairs, matcher(last, targets), strict=True):
        assert all(np.array_equal(a, b.numpy()) for a, b in zip(found, expected, strict=True))

    outputs = mine[-1]._replace(auxiliary=mine[:-1])
    ours = detection.SetCriterion(CLASSES)
    losses = ours.losses(outputs, objects)
    for name, value in losses.items():
        assert value.item() == pytest.approx(theirs[name].item(), rel=1e-5), name
    loss = ours(outputs, objects)
    assert loss.item() == pytest.approx(total.item(), rel=1e-5)
    for a, b in zip(ag.grad(loss, operands), wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-8)
