"""Boxes, suppression, anchors and RetinaNet's losses against torchvision, whose operators load only
beside the PyTorch that they are compiled for: `nox -s torchvision`."""

from __future__ import annotations

import os

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_vision import detection

torch = pytest.importorskip("torch")
try:
    import torchvision
    from torchvision.models.detection.anchor_utils import AnchorGenerator
    from torchvision.models.detection.image_list import ImageList

    # Beside another PyTorch the import fails, or the names are there without operators.
    torchvision.ops.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)
except (ImportError, RuntimeError):
    if os.environ.get("FL_REQUIRED") == "torchvision":
        raise
    pytest.skip("torchvision's operators do not load here", allow_module_level=True)

ops = torchvision.ops
KINDS = [np.float32, np.float64]


def boxes_of(rng: np.random.Generator, count: int, dtype: type, whole: bool) -> np.ndarray:
    corners = rng.uniform(0, 60, (count, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(1, 40, (count, 2))], 1)
    return (np.round(boxes) if whole else boxes).astype(dtype)


def test_operators_run():
    assert torchvision.ops.nms(torch.zeros(1, 4), torch.zeros(1), 0.5).tolist() == [0]


@pytest.mark.parametrize("dtype", KINDS)
def test_overlaps_and_areas(dtype):
    rng = np.random.default_rng(0)
    a, b = boxes_of(rng, 30, dtype, True), boxes_of(rng, 20, dtype, False)
    x, y = ft.asarray(a), ft.asarray(b)
    tolerance = {"rtol": 1e-6, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-12}
    for ours, theirs in (
        (detection.box_iou(x, y), ops.box_iou(torch.tensor(a), torch.tensor(b))),
        (
            detection.generalized_box_iou(x, y),
            ops.generalized_box_iou(torch.tensor(a), torch.tensor(b)),
        ),
        (detection.box_area(x), ops.box_area(torch.tensor(a))),
        (
            detection.clip_boxes_to_image(x, 40, 50),
            ops.clip_boxes_to_image(torch.tensor(a), (40, 50)),
        ),
    ):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), **tolerance)


@pytest.mark.parametrize("source", ["xyxy", "xywh", "cxcywh"])
@pytest.mark.parametrize("target", ["xyxy", "xywh", "cxcywh"])
def test_formats(source, target):
    boxes = boxes_of(np.random.default_rng(1), 20, np.float32, False)
    wanted = ops.box_convert(torch.tensor(boxes), source, target).numpy()
    found = detection.box_convert(ft.asarray(boxes), source, target).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("whole", [False, True])
def test_suppression_is_equal_also_for_ties_and_at_thresholds(dtype, whole):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        count = int(rng.integers(0, 120))
        boxes = boxes_of(rng, count, dtype, whole)
        scores = rng.random(count).astype(dtype)
        scores = np.round(scores, 1).astype(dtype) if whole else scores
        threshold = float(rng.choice([0.0, 0.2, 0.25, 0.5, 1 / 3, 1.0]))
        wanted = ops.nms(torch.tensor(boxes), torch.tensor(scores), threshold).numpy()
        found = detection.nms(ft.asarray(boxes), ft.asarray(scores), threshold).numpy()
        assert np.array_equal(found, wanted), f"seed {seed}"


def test_suppression_by_class():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        boxes, scores = boxes_of(rng, 100, np.float32, False), rng.random(100).astype(np.float32)
        labels = rng.integers(0, 5, 100)
        tensors = [torch.tensor(x) for x in (boxes, scores, labels)]
        wanted = torchvision.ops.boxes._batched_nms_vanilla(*tensors, 0.4).numpy()
        arrays = [ft.asarray(x) for x in (boxes, scores, labels)]
        assert np.array_equal(detection.batched_nms(*arrays, 0.4).numpy(), wanted)


def test_anchors():
    size, features = (256, 320), [(32, 40), (16, 20), (8, 10), (4, 5), (2, 3)]
    ours = detection.AnchorGenerator()
    theirs = AnchorGenerator(ours.sizes, ((0.5, 1.0, 2.0),) * 5)
    images = ImageList(torch.zeros(1, 3, *size), [size])
    wanted = theirs(images, [torch.zeros(1, 1, *level) for level in features])[0]
    assert np.array_equal(ours(features, size).numpy(), wanted.numpy())


@pytest.mark.parametrize("box_loss", ["l1", "smooth_l1", "giou"])
def test_losses_and_gradients_of_retinanet(box_loss):
    rng = np.random.default_rng(3)
    size, features = (128, 128), [(16, 16), (8, 8), (4, 4), (2, 2), (1, 1)]
    generator = detection.AnchorGenerator()
    anchors = generator(features, size)
    count, classes, images = len(anchors), 3, 3
    logits = rng.normal(-2, 1, (images, count, classes))
    deltas = rng.normal(0, 0.3, (images, count, 4))
    objects = []
    for number in (3, 0, 5):
        corners = rng.uniform(0, 60, (number, 2))
        boxes = np.concatenate([corners, corners + rng.uniform(10, 60, (number, 2))], 1)
        objects.append((boxes.astype(np.float32), rng.integers(0, classes, number)))

    with torch.no_grad():
        network = torchvision.models.detection.RetinaNet(
            _Backbone(), classes, detections_per_img=1, min_size=32, max_size=32
        )
    network.head.regression_head._loss_type = box_loss
    inputs = [torch.tensor(x, requires_grad=True) for x in (logits, deltas)]
    targets = [
        {"boxes": torch.tensor(boxes), "labels": torch.tensor(labels)} for boxes, labels in objects
    ]
    heads = {"cls_logits": inputs[0], "bbox_regression": inputs[1]}
    around = [torch.tensor(anchors.numpy())] * images
    theirs = network.compute_loss(targets, heads, around)
    wanted = torch.autograd.grad(sum(theirs.values()), inputs)

    beta = 1.0  # of torch.nn.functional.smooth_l1_loss, which torchvision does not change
    criterion = detection.RetinaNetCriterion(classes, box_loss=box_loss, beta=beta)
    operands = [ag.Variable(ft.asarray(x), requires_grad=True) for x in (logits, deltas)]
    prediction = detection.DensePrediction(*operands, anchors)
    found = criterion.losses(prediction, [detection.Objects(*one) for one in objects])
    assert found["loss_class"].item() == pytest.approx(theirs["classification"].item(), rel=1e-5)
    assert found["loss_box"].item() == pytest.approx(theirs["bbox_regression"].item(), rel=1e-5)
    grads = ag.grad(criterion(prediction, [detection.Objects(*one) for one in objects]), operands)
    for ours, other in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(ours.numpy(), other.numpy(), rtol=1e-4, atol=1e-7)


class _Backbone(torch.nn.Module):
    out_channels = 8

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x
