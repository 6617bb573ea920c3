"""Average precision and recall by COCO's rules; `tests/oracles` compares with pycocotools."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fl_dist as dist
import fl_tensor as ft
from fl_vision.detection import RLE, CocoMeter, Detections, GroundTruth

BOX, OTHER = [10.0, 10.0, 50.0, 50.0], [100.0, 100.0, 300.0, 300.0]


def detections(*found: tuple[list[float], float, int]) -> Detections:
    boxes = np.array([box for box, _, _ in found]).reshape(-1, 4)
    scores, labels = ([one[k] for one in found] for k in (1, 2))
    return Detections(boxes, np.array(scores), np.array(labels, int))


def truth(*objects: tuple[list[float], int], **rest) -> GroundTruth:
    boxes = np.array([box for box, _ in objects]).reshape(-1, 4)
    return GroundTruth(boxes, np.array([label for _, label in objects], int), **rest)


def test_a_perfect_detector():
    meter = CocoMeter(["cat", "dog", "bird"])
    meter.add([detections((BOX, 0.9, 0), (OTHER, 0.8, 1))], [truth((BOX, 0), (OTHER, 1))])
    found = meter.value
    assert [found.ap, found.ap50, found.ar1, found.ar100] == pytest.approx([1.0] * 4)
    assert [found.ap_small, found.ap_medium, found.ap_large] == pytest.approx([-1.0, 1.0, 1.0])
    assert [(one.name, one.objects, round(one.ap, 9)) for one in found.per_class] == [
        *(("cat", 1, 1.0), ("dog", 1, 1.0)),
        ("bird", 0, -1.0),  # no objects: it does not count
    ]
    assert meter.result() == found.ap
    assert str(found).splitlines()[-1].split() == ["bird", "0", "-", "-", "-", "-"]


def test_precision_at_a_recall_is_the_best_from_there_on():
    # Right, wrong, right: precision 1, 1/2, 2/3 at recall 1/2, 1/2, 1.
    wrong = [400.0, 0.0, 420.0, 20.0]
    meter = CocoMeter(1)
    meter.add(
        [detections((BOX, 0.9, 0), (wrong, 0.8, 0), (OTHER, 0.7, 0))],
        [truth((BOX, 0), (OTHER, 0))],
    )
    assert meter.value.ap50 == pytest.approx((51 * 1.0 + 50 * 2 / 3) / 101)
    assert meter.value.ar1 == 0.5


def test_thresholds_of_overlap():
    # IoU 0.7: right at .50 to .70, wrong from .75 on.
    meter = CocoMeter(1)
    meter.add([detections(([0.0, 0, 100, 70], 0.5, 0))], [truth(([0.0, 0, 100, 100], 0))])
    found = meter.value
    assert [found.ap50, found.ap75] == pytest.approx([1.0, 0.0])
    assert found.ap == pytest.approx(0.5)


@pytest.mark.parametrize("flag", ["crowd", "ignore", "difficult"])
def test_ignored_objects_count_for_nothing(flag):
    meter = CocoMeter(1)
    given = truth((BOX, 0), (OTHER, 0))._asdict() | {flag: np.array([False, True])}
    meter.add([detections((BOX, 0.5, 0), (OTHER, 0.9, 0))], [given])
    assert meter.value.ap == pytest.approx(1.0)
    assert meter.value.per_class[0].objects == 1
    # A crowd takes any number of detections, another object one.
    meter.reset()
    meter.add([detections((OTHER, 0.95, 0), (BOX, 0.5, 0), (OTHER, 0.9, 0))], [given])
    assert meter.value.ap == pytest.approx(1.0 if flag == "crowd" else 0.5)


def test_formats_and_areas_of_boxes():
    as_xywh = [10.0, 10.0, 40.0, 40.0]
    meter = CocoMeter(1, box_format="xywh")
    meter.add([detections((as_xywh, 1, 0))], [truth((as_xywh, 0), areas=np.array([100.0]))])
    found = meter.value
    assert [found.ap, found.ap_small, found.ap_medium] == pytest.approx([1.0, 1.0, -1.0])


def test_masks_take_the_place_of_boxes():
    pixels = np.zeros((2, 60, 60), bool)
    pixels[0, :40, :40] = pixels[1, :40, :20] = True
    found = detections((BOX, 0.9, 0))._replace(masks=[RLE.encode(pixels[1])])
    meter = CocoMeter(1, masks=True)
    meter.add([found], [truth((OTHER, 0), masks=pixels[:1])])
    figures = meter.value
    assert [figures.ap50, figures.ap75, figures.ap_medium] == pytest.approx([1.0, 0.0, 0.1])
    with pytest.raises(ft.ArgumentError, match=r"image 1\] detections .* without 'masks'"):
        meter.add([detections((BOX, 0.9, 0))], [truth((OTHER, 0), masks=pixels[:1])])


def test_at_most_100_detections_of_a_class_count():
    wrong = [(([400.0 + k, 0.0, 401.0 + k, 1.0]), 0.9, 0) for k in range(100)]
    meter = CocoMeter(2)
    meter.add([detections(*wrong, (BOX, 0.5, 0), (BOX, 0.1, 1))], [truth((BOX, 0), (BOX, 1))])
    assert [one.ar100 for one in meter.value.per_class] == [0.0, 1.0]


def images(count: int) -> list[tuple[Detections, GroundTruth]]:
    rng = np.random.default_rng(0)
    found = []
    for image in range(count):
        boxes = np.array([[x, y, x + 30, y + 30] for x, y in rng.integers(0, 90, (4, 2))], float)
        labels = rng.integers(0, 2, 4)
        near = boxes + rng.integers(-4, 5, boxes.shape)
        scores = rng.choice([0.5, 0.7], 4)  # equal scores of different images
        found.append((Detections(near, scores, labels), GroundTruth(boxes, labels, image)))
    return found


def whole(batch: list[tuple[Detections, GroundTruth]]) -> CocoMeter:
    meter = CocoMeter(2)
    meter.add([d for d, _ in batch], [t for _, t in batch])
    return meter


def test_the_order_of_images_does_not_matter():
    batch = images(12)
    assert whole(batch).value == whole(batch[::-1]).value


def test_meters_add_over_ranks_and_go_through_json():
    batch = images(12)
    alone = whole(batch)

    def on_rank(world: dist.Communicator):
        meter = whole(batch[world.rank :: world.world_size])
        meter.sync(world)
        return meter.value

    assert dist.load("threads").run(3, on_rank) == [alone.value] * 3
    again = alone.fresh()
    again.load_state(json.loads(json.dumps(alone.state())))
    assert again.value == alone.value
    assert CocoMeter(2).value.ap == -1.0


@pytest.mark.parametrize(
    ("found", "objects", "error", "message"),
    [
        (detections((BOX, 0.9, 2)), truth((BOX, 0)), ft.IndexingError, r"labels of det.*2 at 0"),
        (detections((BOX, 0.9, 0)), truth((BOX, -1)), ft.IndexingError, "labels of objects"),
        (detections((BOX, np.nan, 0)), truth((BOX, 0)), ft.ArgumentError, "detection 0 is NaN"),
        (detections((BOX[::-1], 0.9, 0)), truth(), ft.ArgumentError, "name their box_format"),
        (detections(), truth(([0, 0, np.nan, 1], 0)), ft.ArgumentError, "boxes of objects: box 0"),
        (detections(), truth((BOX, 0), areas=np.array([-1.0])), ft.ArgumentError, "areas"),
        (detections(), truth((BOX, 0), crowd=np.zeros(2)), ft.ShapeError, "crowd"),
        (3, truth(), ft.ArgumentError, "without 'boxes'"),
    ],
)
def test_bad_images_are_named(found, objects, error, message):
    meter = CocoMeter(2)
    meter.add([detections()], [truth()])
    with pytest.raises(error, match=rf"image 1\] .*{message}"):
        meter.add([found], [objects])
    assert meter.state()["images"] == [0]


def test_images_count_once():
    meter = CocoMeter(2)
    meter.add([detections()], [truth(image_id=7)])
    with pytest.raises(ft.ArgumentError, match="image 7 was added before"):
        meter.add([detections()], [truth(image_id=7)])
    with pytest.raises(ft.ArgumentError, match="image 7 was added twice, say on two ranks"):
        meter.merge(meter.state())
    with pytest.raises(ft.ShapeError, match="2 images and objects of 1"):
        meter.add([detections(), detections()], [truth()])
