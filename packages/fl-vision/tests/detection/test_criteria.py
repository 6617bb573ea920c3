"""The losses of DETR and RetinaNet."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fl_autograd as ag
import fl_dist as dist
import fl_tensor as ft
from fl_vision.detection import (
    AnchorGenerator,
    DensePrediction,
    HungarianMatcher,
    Objects,
    RetinaNetCriterion,
    SetCriterion,
    SetPrediction,
    decode_boxes,
    encode_boxes,
    match_anchors,
)

EMPTY = Objects(np.zeros((0, 4), np.float32), np.zeros(0, int))


def variable(values) -> ag.Variable:
    return ag.Variable(ft.asarray(np.array(values, np.float32)), requires_grad=True)


def criterion_80() -> SetCriterion:
    """That of the tests of Flashlight."""
    return SetCriterion(80, HungarianMatcher(1, 1, 1), no_object=0.0)


def prediction(*images) -> SetPrediction:
    boxes = np.array(images, np.float32)
    return SetPrediction(variable(np.ones((*boxes.shape[:2], 81))), variable(boxes))


def objects(*boxes, labels=None) -> Objects:
    return Objects(np.array(boxes, np.float32), np.array(labels or [1] * len(boxes)))


LOW, HIGH = (1, 1, 2, 2), (2, 2, 3, 3)


@pytest.mark.parametrize(
    ("predicted", "targets", "giou", "bbox"),
    [
        ([[HIGH]], [[HIGH]], 0.0, 0.0),
        ([[HIGH, LOW]], [[HIGH]], 0.0, 0.0),
        ([[HIGH, LOW]], [[LOW, HIGH]], 0.0, 0.0),
        ([[HIGH, LOW]], [[(0.9, 0.8, 1.9, 1.95), (1.9, 1.95, 2.9, 2.95)]], 0.18111613, 0.375),
        ([[HIGH]], [[LOW]], 0.91314667, 4.0),
        ([[LOW]], [[HIGH]], 0.91314667, 4.0),
        ([[HIGH], [LOW]], [[LOW], [HIGH]], 0.91314667, 4.0),
        ([[HIGH, LOW], [HIGH, LOW]], [[LOW, HIGH], [HIGH]], 0.0, 0.0),
    ],
)
def test_box_losses_of_flashlight(predicted, targets, giou, bbox):
    found = criterion_80().losses(prediction(*predicted), [objects(*boxes) for boxes in targets])
    assert found["loss_giou"].item() == pytest.approx(giou, rel=1e-6)
    assert found["loss_bbox"].item() == pytest.approx(bbox, rel=1e-6)


def test_cross_entropy_of_flashlight():
    # With equal boxes the classes decide; labels belong to their own image.
    logits = np.ones((2, 3, 81), np.float32)
    logits[0, 1, 1] = logits[0, 2, 2] = logits[1, 1, 9] = 10
    outputs = SetPrediction(variable(logits), variable(np.ones((2, 3, 4))))
    one = (1, 1, 1, 1)
    targets = [objects(one, one, labels=[0, 1]), objects(one, labels=[9])]
    assert criterion_80().losses(outputs, targets)["loss_ce"].item() == pytest.approx(
        1.4713663, abs=1e-4
    )


def test_the_class_of_no_object_has_its_own_weight():
    logits = np.zeros((1, 2, 3), np.float32)
    logits[0, 0, 0] = 3.0
    outputs = SetPrediction(variable(logits), variable([[HIGH, LOW]]))
    found = SetCriterion(2, no_object=0.1).losses(outputs, [objects(HIGH, labels=[0])])
    right, empty = -math.log(math.exp(3) / (math.exp(3) + 2)), math.log(3)
    assert found["loss_ce"].item() == pytest.approx((right + 0.1 * empty) / 1.1, rel=1e-5)


def test_layers_are_matched_and_named_and_added():
    outputs = prediction([HIGH, LOW])
    aux = prediction([LOW, HIGH])
    criterion = SetCriterion(80)
    targets = [objects(HIGH)]
    found = criterion.losses(outputs._replace(auxiliary=(aux, outputs)), targets)
    names = [f"loss_{k}{e}" for e in ("", "_0", "_1") for k in ("ce", "bbox", "giou")]
    assert list(found) == names
    assert found["loss_bbox_0"].item() == found["loss_bbox"].item() == 0.0
    total = criterion({"logits": aux.logits, "boxes": aux.boxes + 0.1}, targets)
    losses = criterion.losses(aux._replace(boxes=aux.boxes + 0.1), targets)
    wanted = losses["loss_ce"] + 5.0 * losses["loss_bbox"] + 2.0 * losses["loss_giou"]
    assert total.item() == pytest.approx(wanted.item(), rel=1e-6)


@pytest.mark.parametrize("targets", [[EMPTY, objects(HIGH)], [EMPTY, EMPTY]])
def test_images_without_objects(targets):
    outputs = prediction([HIGH, LOW], [LOW, HIGH])
    loss = SetCriterion(80)(outputs, targets)
    grads = ag.grad(loss, [outputs.logits, outputs.boxes])
    assert math.isfinite(loss.item())
    assert all(np.isfinite(g.numpy()).all() for g in grads)
    assert np.abs(grads[0].numpy()[0]).max() > 0
    assert not grads[1].numpy()[0].any()


def test_boxes_are_counted_over_ranks():
    def losses(world: dist.Communicator) -> float:
        targets = [[objects(HIGH, HIGH, HIGH)], [EMPTY]][world.rank]
        criterion = SetCriterion(80, communicator=world)
        return criterion.losses(prediction([LOW, LOW, LOW]), targets)["loss_bbox"].item()

    # 3 boxes on 2 ranks are 1.5 a rank: the mean of both is 12 / 3.
    assert dist.load("threads").run(2, losses) == pytest.approx([8.0, 0.0])


def test_what_does_not_fit_a_set_criterion_is_named():
    outputs, targets = prediction([HIGH]), [objects(HIGH)]
    with pytest.raises(ft.ShapeError, match="expected 3 on the last axis"):
        SetCriterion(2)(outputs, targets)
    with pytest.raises(ft.ArgumentError, match="without 'logits'"):
        SetCriterion(80)(3, targets)
    bad = prediction([HIGH, LOW])._replace(boxes=outputs.boxes)
    with pytest.raises(ft.ShapeError, match=r"outputs\.auxiliary\[0\].*logits \(1, 2, 81\)"):
        SetCriterion(80)(outputs._replace(auxiliary=[bad]), targets)
    with pytest.raises(ft.ArgumentError, match="no_object -1"):
        SetCriterion(80, no_object=-1)


def test_anchors_lie_around_cells():
    anchors = AnchorGenerator([[4.0], [16.0]], [1.0, 4.0], strides=[8, 16])
    assert anchors.per_cell == (2, 2)
    found = anchors([(2, 2), (1, 1)]).numpy()
    assert found[:4].tolist() == [
        *([-2, -2, 2, 2], [-1, -4, 1, 4]),  # of the first cell, by ratio
        *([6, -2, 10, 2], [7, -4, 9, 4]),  # of the next one to the right
    ]
    assert found[-2:].tolist() == [[-8, -8, 8, 8], [-4, -16, 4, 16]]
    assert np.array_equal(anchors([(2, 2), (1, 1)], (16, 16)).numpy(), found)
    assert len(AnchorGenerator()([(4, 4), (2, 2), (1, 1), (1, 1), (1, 1)])) == 9 * 23


def test_boxes_are_coded_and_decoded():
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, 50, (2, 20, 2))
    boxes, anchors = (
        ft.asarray(np.concatenate([c, c + rng.uniform(1, 60, c.shape)], 1)) for c in corners
    )
    assert np.allclose(decode_boxes(encode_boxes(boxes, anchors), anchors).numpy(), boxes.numpy())
    assert encode_boxes(anchors, anchors).tolist() == [[0.0] * 4] * 20
    far = decode_boxes(ft.asarray([[0.0, 0.0, 100.0, 0.0]]), ft.asarray([[0.0, 0.0, 2.0, 2.0]]))
    assert (far[0, 2] - far[0, 0]).item() == pytest.approx(2 * 62.5)


def test_anchors_are_matched_by_overlap():
    anchors = ft.asarray(
        [[0.0, 0, 10, 10], [0, 0, 10, 8.2], [0, 0, 10, 4.5], [0, 0, 10, 2], [50, 50, 60, 60]]
    )
    boxes = ft.asarray([[0.0, 0, 10, 10], [55, 55, 75, 75]])
    assert match_anchors(boxes, anchors).tolist() == [0, 0, -2, -1, 1]
    assert match_anchors(boxes, anchors, keep_best=False).tolist() == [0, 0, -2, -1, -1]
    assert match_anchors(boxes[:0], anchors).tolist() == [-1] * 5


def test_retinanet_by_hand():
    anchors = ft.asarray([[0.0, 0, 10, 10], [0, 0, 10, 4.5], [40, 40, 50, 50]])
    outputs = DensePrediction(variable(np.zeros((2, 3, 2))), variable(np.zeros((2, 3, 4))), anchors)
    targets = [objects((0, 0, 10, 10), labels=[1]), EMPTY]
    criterion = RetinaNetCriterion(2)
    found = criterion.losses(outputs, targets)
    # Each of the entries of a counted anchor has p = 1/2; one of them is positive.
    entry = 0.25 * math.log(2)
    image = [entry * (0.25 + 3 * 0.75), entry * 6 * 0.75]
    assert found["loss_class"].item() == pytest.approx(sum(image) / 2, rel=1e-5)
    assert found["loss_box"].item() == 0.0
    assert criterion(outputs, targets).item() == pytest.approx(sum(image) / 2, rel=1e-5)


@pytest.mark.parametrize("box_loss", ["l1", "smooth_l1", "giou"])
def test_a_batch_without_objects(box_loss):
    generator = AnchorGenerator([[4.0]], [1.0], strides=[8])
    logits, deltas = variable(np.zeros((2, 4, 3))), variable(np.zeros((2, 4, 4)))
    outputs = {"logits": (logits,), "boxes": (deltas,), "sizes": ((2, 2),)}
    loss = RetinaNetCriterion(3, generator, box_loss=box_loss)(outputs, [EMPTY, EMPTY])
    grads = ag.grad(loss, [logits, deltas])
    assert (grads[0].numpy() > 0).all() and not grads[1].numpy().any()


def test_what_does_not_fit_retinanet_is_named():
    anchors = ft.asarray([[0.0, 0, 10, 10]])
    outputs = DensePrediction(ft.zeros((1, 1, 2)), ft.zeros((1, 1, 4)), anchors)
    flat = objects((0, 0, 10, 0), labels=[1])
    with pytest.raises(ft.ArgumentError, match="target 0: box 0 has width or height 0"):
        RetinaNetCriterion(2)(outputs, [flat])
    with pytest.raises(ft.ArgumentError, match=r"target 0: box 0 is \(5, 0, 1, 1\) as xyxy"):
        RetinaNetCriterion(2)(outputs, [objects((5, 0, 1, 1), labels=[1])])
    with pytest.raises(ft.IndexingError, match="label 2"):
        RetinaNetCriterion(2)(outputs, [objects((0, 0, 1, 1), labels=[2])])
    with pytest.raises(ft.ShapeError, match="anchors, 3"):
        RetinaNetCriterion(3)(outputs, [EMPTY])
    with pytest.raises(ft.ArgumentError, match="background"):
        RetinaNetCriterion(3, foreground=0.3, background=0.4)
