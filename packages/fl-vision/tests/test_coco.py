"""CocoDetection: instances files of COCO."""

from __future__ import annotations

import json
import pickle

import boxed_images
import pytest
from boxed_images import instances, with_object, write

import fl_tensor as ft
from fl_data import Batch, Prefetch
from fl_vision import DataFileError, DataMissingError, UsageError
from fl_vision.datasets import CocoDetection, box_statistics, class_counts, detection_collate


def test_targets_have_boxes_classes_areas_and_crowds(tmp_path):
    ds = CocoDetection(*write(tmp_path))
    assert ds.classes == ("motorcycle", "toothbrush")
    assert ds.category_ids == (4, 90)
    image, target = ds[1]
    assert (image.shape, image.dtype) == ((3, 20, 50), ft.uint8)
    assert image[:, 0, 0].tolist() == [3, 6, 9]
    assert target.boxes.tolist() == [[10.0, 2.0, 30.5, 12.0], [1.0, 1.0, 4.0, 6.0]]
    assert (target.boxes.dtype, target.labels.dtype) == (ft.float32, ft.int64)
    assert target.labels.tolist() == [1, 0]
    assert target.areas.tolist() == [150.25, 15.0]
    assert target.crowd.tolist() == [False, False]
    assert (target.image_id, target.original_size) == (3, (20, 50))
    assert ds[0][1].crowd.tolist() == [True]


def test_an_image_may_have_no_objects(tmp_path):
    target = CocoDetection(*write(tmp_path))[2][1]
    assert len(target) == 0
    assert target.boxes.shape == (0, 4)
    nothing = CocoDetection(*write(tmp_path / "none", instances(annotations=[])))
    assert [len(target) for _, target in nothing] == [0, 0, 0]


def test_batches_are_padded_to_the_largest_image(tmp_path):
    ds = CocoDetection(*write(tmp_path))
    images, mask, targets = Batch(ds, 3, collate=detection_collate)[0]
    assert (images.shape, mask.shape, mask.dtype) == ((3, 3, 30, 50), (3, 30, 50), ft.bool)
    assert ft.sum(mask, axis=(1, 2)).tolist() == [1200, 1000, 100]
    assert images[2, :, 9, 9].tolist() == [9, 18, 27]
    assert images[2, :, 10, 0].tolist() == images[2, :, 0, 10].tolist() == [0, 0, 0]
    assert [target.image_id for target in targets] == [7, 3, 9]


def test_max_side_shrinks_images_boxes_and_areas(tmp_path):
    image, target = CocoDetection(*write(tmp_path), max_side=25)[1]
    assert image.shape == (3, 10, 25)
    assert target.boxes.tolist() == [[5.0, 1.0, 15.25, 6.0], [0.5, 0.5, 2.0, 3.0]]
    assert target.areas.tolist() == [150.25 / 4, 3.75]
    assert target.original_size == (20, 50)
    image, target = CocoDetection(*write(tmp_path), max_side=25)[0]
    assert image.shape == (3, 19, 25)  # 18.75 is no number of pixels
    assert target.boxes.tolist() == [[0, 0, 25, 19]]


def test_segmentations_stay_as_they_are_in_the_file(tmp_path):
    polygons, runs = [[1, 2, 3.5, 4, 5, 6]], {"size": [20, 50], "counts": "öabc"}
    content = instances()
    content["annotations"][0]["segmentation"] = polygons
    content["annotations"][2]["segmentation"] = runs
    path, folder = write(tmp_path, content)
    ds = pickle.loads(pickle.dumps(CocoDetection(path, folder, segmentations=True)))
    assert ds.target(1).segmentations == (polygons, runs)
    assert ds.target(0).segmentations == (None,)
    path.write_text("{}")
    with pytest.raises(DataFileError, match="has changed since it was opened"):
        ds.target(1)


def corner(segmentation, size):
    """A mask of the upper left `segmentation[0]` pixels in each direction."""
    height, width = size
    row, column = ft.arange(height).reshape(height, 1), ft.arange(width).reshape(1, width)
    return ft.logical_and(row < segmentation[0], column < segmentation[0])


def test_masks_are_drawn_by_a_function(tmp_path):
    content = instances()
    content["annotations"][0]["segmentation"] = [8]
    content["annotations"][2]["segmentation"] = [4]
    path, folder = write(tmp_path, content)
    masks = CocoDetection(path, folder, rasterise=corner).target(1).masks
    assert masks.shape == (2, 20, 50)
    assert ft.sum(masks, axis=(1, 2)).tolist() == [64, 16]
    half = CocoDetection(path, folder, rasterise=corner, max_side=25)
    assert ft.sum(half.target(1).masks, axis=(1, 2)).tolist() == [16, 4]
    assert half.target(2).masks.shape == (0, 10, 10)


def test_masks_are_drawn_as_coco_means_them(tmp_path):
    content = instances()
    runs = [20 * 10 + 2, 5, 15, 5, 20 * 50 - 20 * 10 - 27]  # five pixels of two columns
    content["annotations"][0]["segmentation"] = [[10, 2, 30, 2, 30, 12, 10, 12]]
    content["annotations"][2]["segmentation"] = {"size": [20, 50], "counts": runs}
    path, folder = write(tmp_path, content)
    ds = CocoDetection(path, folder, masks=True)
    masks = ds.target(1).masks
    assert masks.dtype is ft.bool and masks.shape == (2, 20, 50)
    assert ft.sum(masks, axis=(1, 2)).tolist() == [200, 10]
    assert masks[1, 2:7, 10:12].tolist() == [[True, True]] * 5
    assert ft.sum(ds.target(0).masks).item() == 0  # the annotation has none
    half = CocoDetection(path, folder, masks=True, max_side=25).target(1).masks
    assert half.shape == (2, 10, 25)
    content["annotations"][2]["segmentation"]["size"] = [50, 20]
    wrong = CocoDetection(*write(tmp_path, content), masks=True)
    with pytest.raises(DataFileError, match="instances.json: image 3: a segmentation is no mask"):
        wrong.target(1)
    with pytest.raises(UsageError, match="masks and rasterise: give one"):
        CocoDetection(path, folder, masks=True, rasterise=corner)


def test_boxes_are_cut_at_the_edge_and_those_without_area_counted(tmp_path):
    content = instances()
    extra = ([-5, -5, 10, 8], [38, 10, 10, 10], [1, 1, 0, 5], [40, 3, 5, 5], [3, 30, 4, 1])
    for id, box in enumerate(extra, 10):
        content["annotations"].append({"id": id, "image_id": 7, "category_id": 4, "bbox": box})
    ds = CocoDetection(*write(tmp_path, content))
    assert ds.target(0).boxes.tolist()[1:] == [[0, 0, 5, 3], [38, 10, 40, 20]]
    assert (ds.corrections.dropped, ds.corrections.clamped) == (3, 2)
    assert "3 boxes without area left out, 2 cut at the edge" in str(ds.corrections)
    assert "annotation 5 (id 12)" in str(ds.corrections)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (instances(images=[{"id": 1, "height": 3, "width": 3}]), "image 0.*lacks 'file_name'"),
        (
            instances(images=[{"id": 1, "file_name": "../x", "height": 3, "width": 3}]),
            "leads out of the folder",
        ),
        (
            instances(images=[{"id": 1, "file_name": "x", "height": 0, "width": 3}]),
            r"image 0 \(id 1\): is 0 x 3",
        ),
        (
            instances(images=[{"id": 1, "file_name": "x", "height": 3, "width": 3}] * 2),
            r"image 1 \(id 1\): another image has this id",
        ),
        (instances(categories=[{"id": 4, "name": "a"}] * 2), "category 1: another one has the id"),
        (with_object(id=1), r"annotation 3 \(id 1\): another annotation has this id"),
        (with_object(bbox=...), "annotation 3.*lacks 'bbox'; add it"),
        (with_object(bbox=[1, 2, 3]), "4 finite numbers"),
        (with_object(bbox=[1, 2, "3", 4]), "4 finite numbers"),
        (with_object(bbox=[1, 2, float("nan"), 4]), "4 finite numbers"),
        (with_object(bbox=[1, 2, 10**400, 4]), "4 finite numbers"),
        (with_object(bbox=[1, 2, -3, 4]), "negative size"),
        (with_object(area=-1), "area -1"),
        (with_object(iscrowd=2), "iscrowd 2; give 0 or 1"),
        (with_object(image_id=8), "there is no image 8; add the image"),
        (with_object(category_id=5), "there is no category 5"),
        (with_object(image_id="7"), "image_id is '7'"),
        (instances(annotations=[3]), "annotation 0: is 3"),
    ],
)
def test_wrong_entries_are_named_or_left_out(tmp_path, content, message):
    path, folder = write(tmp_path, content)
    with pytest.raises(DataFileError, match=message) as raised:
        CocoDetection(path, folder)
    assert str(path) in str(raised.value)
    ds = CocoDetection(path, folder, on_error="skip")
    assert message.split(".*")[0].split("\\")[0] in " ".join(map(str, ds.skipped))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"expected '\{' at byte 0, where it ends"),
        ("[1]", r"expected '\{' at byte 0"),
        ("{}", "has no 'images'"),
        ('{"images": [], "x": 1', "expected '}' at byte 21, where it ends"),
        ('{"info": [{"id": 1}, {"id"', "a value .* at byte 21"),
        ('{"images" [', "expected ':'"),
        ('{"images": []} x', "nothing more at byte 15"),
        ('{"images": [' + "[" * 100_000, "too deep or too long|a value"),
        ('{"images": [], "categories": [], "info": [1,]}', "a value"),
        ("{3: []}", "a name"),
    ],
)
def test_files_that_are_no_such_json(tmp_path, text, message):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DataFileError, match=message):
        CocoDetection(path, tmp_path)


def test_the_file_may_be_larger_than_what_is_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("fl_vision.datasets.json_entries._CHUNK", 7)
    path, folder = write(tmp_path)
    ds = CocoDetection(path, folder, segmentations=True)
    assert ds.target(1).boxes.tolist() == [[10.0, 2.0, 30.5, 12.0], [1.0, 1.0, 4.0, 6.0]]
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(instances()).encode())
    marked = CocoDetection(path, folder, segmentations=True)
    assert marked.target(1).segmentations == (None, None)
    monkeypatch.setattr("fl_vision.datasets.json_entries.MAX_ENTRY", 100)
    content = with_object(segmentation=[[0.5] * 200])
    with pytest.raises(DataFileError, match="damaged or longer than 100 bytes"):
        CocoDetection(*write(tmp_path, content))


def test_no_utf8_and_no_file(tmp_path):
    (tmp_path / "a.json").write_bytes(b'{"images": ["\xff"]}')
    with pytest.raises(DataFileError, match="no UTF-8"):
        CocoDetection(tmp_path / "a.json", tmp_path)
    with pytest.raises(DataMissingError, match="no such file; check the path"):
        CocoDetection(tmp_path / "b.json", tmp_path)
    with pytest.raises(DataFileError, match="a folder"):
        CocoDetection(tmp_path, tmp_path)


def test_an_image_of_another_size_or_a_missing_one(tmp_path):
    path, folder = write(tmp_path)
    (folder / "bild_ü7.png").replace(folder / "bild_ü3.png")
    ds = CocoDetection(path, folder)
    with pytest.raises(DataFileError, match=r"is 30 x 40, .*instances.json says 20 x 50"):
        ds[1]
    with pytest.raises(DataMissingError, match="bild_ü7"):
        ds[0]


def test_arguments_that_do_not_fit(tmp_path):
    path, folder = write(tmp_path)
    with pytest.raises(UsageError, match="'raise' or 'skip'"):
        CocoDetection(path, folder, on_error="ignore")
    with pytest.raises(ft.FlError, match="max_side"):
        CocoDetection(path, folder, max_side=0)
    with pytest.raises(UsageError, match="no samples"):
        detection_collate([])
    with pytest.raises(UsageError, match=r"got \(Tensor, int\)"):
        detection_collate([(ft.zeros((3, 4, 4)), 1)])
    image, target = CocoDetection(path, folder)[0]
    with pytest.raises(UsageError, match="image 1 of the batch"):
        detection_collate([(image, target), (image[:1], target)])


def test_processes_read_ahead(tmp_path):
    ds = CocoDetection(*write(tmp_path))
    ahead = Prefetch(ds, processes=1)
    assert [target.image_id for _, target in ahead] == list(boxed_images.SIZES)
    ahead.close()


def test_statistics(tmp_path):
    ds = CocoDetection(*write(tmp_path))
    assert ds.class_counts() == class_counts(ds) == (2, 1)
    found = box_statistics(ds)
    assert (found.images, found.without_boxes, found.boxes, found.crowds) == (3, 1, 3, 1)
    assert (found.small, found.medium, found.large) == (2, 1, 0)
    assert (found.heights, found.widths) == ((10, 30), (10, 50))
    assert "images                3, 1 without boxes" in str(found)
