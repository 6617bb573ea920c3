"""Average precision by the rules of PASCAL VOC."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import fl_dist as dist
import fl_tensor as ft
from fl_vision.detection import CocoMeter, Detections, GroundTruth, VocMeter

BOX, OTHER, AWAY = [10.0, 10, 50, 50], [100.0, 100, 300, 300], [400.0, 0, 420, 20]


def detections(*found: tuple[list[float], float, int]) -> Detections:
    boxes = np.array([box for box, _, _ in found]).reshape(-1, 4)
    scores, labels = ([one[k] for one in found] for k in (1, 2))
    return Detections(boxes, np.array(scores), np.array(labels, int))


def truth(*objects: tuple[list[float], int], **rest) -> GroundTruth:
    boxes = np.array([box for box, _ in objects]).reshape(-1, 4)
    return GroundTruth(boxes, np.array([label for _, label in objects], int), **rest)


def measured(meter: VocMeter, found: Detections, objects: GroundTruth) -> float:
    meter.add([found], [objects])
    return meter.result()


def test_the_area_below_the_curve_and_eleven_points():
    # Right, wrong, right: precision 1 up to recall 1/2, then 2/3.
    found = detections((BOX, 0.9, 0), (AWAY, 0.8, 0), (OTHER, 0.7, 0))
    objects = truth((BOX, 0), (OTHER, 0))
    assert measured(VocMeter(1), found, objects) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    eleven = measured(VocMeter(1, eleven_points=True), found, objects)
    assert eleven == pytest.approx((6 * 1 + 5 * 2 / 3) / 11)  # recall 0, .1, ... .5 and .6 ... 1


def test_an_object_counts_once_and_the_surer_detection_has_it():
    twice = detections((BOX, 0.5, 0), (BOX, 0.9, 0))
    assert measured(VocMeter(1), twice, truth((BOX, 0))) == 1.0
    assert measured(VocMeter(1), twice, truth((BOX, 0), (OTHER, 0))) == 0.5


def test_a_detection_belongs_to_the_object_with_the_largest_overlap():
    # By COCO's rules the second one would take the other object, by VOC's it is wrong.
    near = [12.0, 10, 52, 50]
    found = detections((BOX, 0.9, 0), (BOX, 0.8, 0))
    assert measured(VocMeter(1), found, truth((BOX, 0), (near, 0))) == 0.5
    coco = CocoMeter(1)
    coco.add([found], [truth((BOX, 0), (near, 0))])
    assert coco.value.ap50 == 1.0


def test_the_threshold_is_met_by_an_equal_overlap():
    half = [0.0, 0, 100, 50]
    found, objects = detections((half, 1, 0)), truth(([0.0, 0, 100, 100], 0))
    assert measured(VocMeter(1), found, objects) == 1.0
    assert measured(VocMeter(1, iou_threshold=0.51), found, objects) == 0.0


@pytest.mark.parametrize("flag", ["difficult", "ignore", "crowd"])
def test_difficult_objects_and_their_detections_count_for_nothing(flag):
    objects = truth((BOX, 0), (OTHER, 0))._asdict() | {flag: np.array([False, True])}
    meter = VocMeter(1)
    meter.add([detections((OTHER, 0.9, 0), (OTHER, 0.8, 0), (BOX, 0.5, 0))], [objects])
    assert meter.value.per_class[0].objects == 1 and meter.result() == 1.0


def test_classes_without_objects_are_left_out_of_the_mean():
    meter = VocMeter(["cat", "dog", "bird"])
    meter.add([detections((BOX, 0.9, 0), (OTHER, 0.8, 2))], [truth((BOX, 0), (OTHER, 1))])
    assert [(name, n, ap) for name, n, ap in meter.value.per_class] == [
        ("cat", 1, 1.0), ("dog", 1, 0.0), ("bird", 0, -1.0),
    ]  # fmt: skip
    assert meter.result() == 0.5
    assert str(meter.value).splitlines()[-1].split() == ["bird", "0", "-"]
    assert VocMeter(2).result() == -1.0


def by_definition(sets, label: int, eleven: bool) -> float:
    """The rules of the challenge, object by object."""
    objects = sum(
        (int(c) == label and not d)
        for _, t in sets
        for c, d in zip(t.labels, t.difficult, strict=True)
    )
    rows = sorted(
        ((float(s), n, box) for n, (f, _) in enumerate(sets)
         for box, s, c in zip(f.boxes, f.scores, f.labels, strict=True) if c == label),
        key=lambda row: -row[0],
    )  # fmt: skip
    seen, right, wrong, curve = set(), 0, 0, []
    for _, n, box in rows:
        t = sets[n][1]
        best, most = None, -1.0
        for k in range(len(t.labels)):
            if t.labels[k] == label:
                a = np.maximum(box[:2], t.boxes[k, :2])
                b = np.minimum(box[2:], t.boxes[k, 2:])
                inter = float(np.prod(np.maximum(b - a, 0)))
                areas = [float(np.prod(x[2:] - x[:2])) for x in (box, t.boxes[k])]
                if (iou := inter / (sum(areas) - inter)) > most:
                    best, most = k, iou
        if most >= 0.5:
            if t.difficult[best]:
                continue
            right += (n, best) not in seen
            wrong += (n, best) in seen
            seen.add((n, best))
        else:
            wrong += 1
        curve.append((right / objects, right / (right + wrong)))
    if eleven:
        points = [max([p for r, p in curve if r >= k / 10 - 1e-9], default=0) for k in range(11)]
        return sum(points) / 11
    area, before = 0.0, 0.0
    for recall, _ in curve:
        area += (recall - before) * max(p for r, p in curve if r >= recall)
        before = recall
    return area


@pytest.mark.parametrize("eleven", [False, True])
def test_random_sets_have_the_figures_of_the_definition(eleven):
    draw = random.Random(7)

    def box() -> list[float]:
        x, y = draw.uniform(0, 60), draw.uniform(0, 60)
        return [x, y, x + draw.uniform(8, 40), y + draw.uniform(8, 40)]

    for _ in range(20):
        sets = []
        for number in range(4):
            objects = [(box(), draw.randrange(2)) for _ in range(draw.randrange(1, 6))]
            found = [([x + draw.gauss(0, 3) for x in b], draw.random(), c) for b, c in objects * 2]
            found = [f for f in found if f[0][0] < f[0][2] and f[0][1] < f[0][3]]
            found += [(box(), draw.random(), draw.randrange(2)) for _ in range(3)]
            flags = np.array([draw.random() < 0.2 for _ in objects])
            sets.append(
                (detections(*found), truth(*objects, image_id=number)._asdict()
                 | {"difficult": flags})
            )  # fmt: skip
        meter = VocMeter(2, eleven_points=eleven)
        meter.add([f for f, _ in sets], [t for _, t in sets])
        plain = [(f, type("T", (), t)) for f, t in sets]
        for label, one in enumerate(meter.value.per_class):
            if one.objects:
                assert one.ap == pytest.approx(by_definition(plain, label, eleven), abs=1e-12)


def test_ranks_and_checkpoints_add_up():
    images = [
        (detections((BOX, 0.9, 0), (AWAY, 0.4, 0)), truth((BOX, 0), image_id=0)),
        (detections((AWAY, 0.95, 0), (OTHER, 0.3, 0)), truth((OTHER, 0), image_id=1)),
    ]
    whole = VocMeter(1)
    whole.add([f for f, _ in images], [t for _, t in images])

    def program(communicator):
        meter = VocMeter(1)
        found, objects = images[communicator.rank]
        meter.add([found], [objects])
        meter.sync(communicator)
        return meter.value

    assert dist.threads.run(2, program) == [whole.value] * 2
    again = VocMeter(1)
    again.load_state(json.loads(json.dumps(whole.state())))
    assert again.value == whole.value
    with pytest.raises(ft.ArgumentError, match="image 0 was added twice"):
        again.merge(whole.state())
    with pytest.raises(ft.ShapeError, match="a state of 1 classes for 2"):
        VocMeter(2).merge(whole.state())


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: VocMeter(0), "no classes"),
        (lambda: VocMeter(1, iou_threshold=0), "iou_threshold 0: give a number above 0"),
        (lambda: VocMeter(1, iou_threshold=float("nan")), "iou_threshold nan"),
        (lambda: VocMeter(1).add([], [truth()]), "detections of 0 images and objects of 1"),
        (lambda: VocMeter(1).add([detections((BOX, 1, 1))], [truth()]), "labels of detections: 1"),
        (
            lambda: VocMeter(1).add([detections((BOX, 1, 0))] * 2, [truth(image_id=3)] * 2),
            "image 3 was added before",
        ),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ft.FlError, match=message):
        make()
