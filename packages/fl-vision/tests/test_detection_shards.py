"""Images with boxes in tar archives."""

from __future__ import annotations

import io
import json
import tarfile

import pytest
from boxed_images import write
from PIL import Image

from fl_vision import DataFileError, UsageError
from fl_vision.datasets import (
    CocoDetection,
    DetectionShards,
    Scenes,
    detection_collate,
    write_detection_shards,
)


def fields(sample):
    """The parts of a sample that a shard keeps."""
    image, target = sample
    kept = (target.boxes, target.labels, target.areas, target.crowd)
    return image.tolist(), [x.tolist() for x in kept], target.image_id, target.original_size


@pytest.fixture
def coco(tmp_path):
    return CocoDetection(*write(tmp_path / "coco"))


def test_shards_hold_the_encoded_files_and_the_objects(coco, tmp_path):
    paths = write_detection_shards(coco, tmp_path / "shards", per_shard=2)
    assert [path.name for path in paths] == ["shard-000000.tar", "shard-000001.tar"]
    assert (tmp_path / "shards" / "classes.txt").read_text() == "motorcycle\ntoothbrush\n"
    with tarfile.open(paths[0]) as archive:
        assert archive.getnames()[:2] == ["00000000.png", "00000000.json"]
        assert archive.extractfile("00000000.png").read() == coco.paths[0].read_bytes()
    read = list(DetectionShards(paths, coco.classes, shuffle=False))
    assert [fields(one) for one in read] == [fields(one) for one in coco]
    assert read[2][1].boxes.shape == (0, 4)  # an image without objects
    images, mask, targets = next(
        iter(DetectionShards(paths, coco.classes).batch(3, collate=detection_collate))
    )
    assert images.shape == (3, 3, 30, 50) and mask.shape == (3, 30, 50) and len(targets) == 3


def test_pictures_without_files_become_png(tmp_path):
    scenes = Scenes(3, 1, size=32)
    paths = write_detection_shards(scenes, tmp_path, seed=1)
    read = list(DetectionShards(paths, scenes.classes, shuffle=False))
    assert sorted(one[1].image_id for one in read) == [0, 1, 2]
    by_id = {one[1].image_id: fields(one) for one in read}
    assert [by_id[n] for n in range(3)] == [fields(scenes[n]) for n in range(3)]
    again = write_detection_shards(scenes, tmp_path / "again", seed=1)
    assert again[0].read_bytes() == paths[0].read_bytes()


def test_a_pass_goes_on_at_the_exact_sample_and_ranks_share(coco, tmp_path):
    paths = write_detection_shards(coco, tmp_path, per_shard=1)

    def make(**ranks):
        return iter(DetectionShards(paths, coco.classes, seed=3, **ranks))

    def ids(samples):
        return [target.image_id for _, target in samples]

    whole = ids(make())
    assert sorted(whole) == [3, 7, 9]
    samples, rest = make(), make()
    next(samples)
    rest.load_state(samples.state())
    assert ids(rest) == whole[1:]
    shares = [ids(make(rank=rank, world_size=2)) for rank in range(2)]
    assert shares == [whole[::2], whole[1::2]]


GOOD = {"boxes": [[1, 1, 4, 5]], "labels": [1]}


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "no .json with 'boxes' and 'labels'"),
        (b"{", "its .json is no JSON"),
        ({"boxes": []}, "no .json with 'boxes' and 'labels'"),
        ({**GOOD, "boxes": 3}, "boxes that are none, or not inside an image of 8 x 6"),
        ({**GOOD, "boxes": [[1, 1, 4]]}, "boxes that are none"),
        ({**GOOD, "boxes": [[4, 1, 1, 5]]}, "boxes that are none"),
        ({**GOOD, "boxes": [[1, 1, 7, 5]]}, "not inside an image of 8 x 6"),
        ({**GOOD, "boxes": [[1, 1, 4, "5"]]}, "boxes that are none"),
        ({**GOOD, "labels": [2]}, "labels that are not 1 numbers below 2"),
        ({**GOOD, "labels": [1, 1]}, "labels that are not 1 numbers"),
        ({**GOOD, "labels": [True]}, "labels that are not 1 numbers"),
        ({**GOOD, "areas": [-1]}, "areas that are not 1 numbers of at least 0"),
        ({**GOOD, "areas": "a"}, "areas that are not 1 numbers"),
        ({**GOOD, "crowd": [2]}, "crowd is not 1 flags"),
        ({**GOOD, "difficult": []}, "difficult is not 1 flags"),
        ({**GOOD, "image_id": 1.5}, "image_id is no number and no text"),
    ],
)
def test_wrong_objects_are_named(tmp_path, content, message):
    picture = io.BytesIO()
    Image.new("RGB", (6, 8)).save(picture, "PNG")
    members = {"cat.png": picture.getvalue()}
    if content is not None:
        text = content if isinstance(content, bytes) else json.dumps(content).encode()
        members["cat.json"] = text
    path = tmp_path / "one.tar"
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    with pytest.raises(DataFileError, match="one.tar: cat: .*" + message.replace(".json", ".*")):
        list(DetectionShards([path], ["a", "b"]))


def test_arguments_that_do_not_fit(coco, tmp_path):
    with pytest.raises(UsageError, match="give a list of archives"):
        DetectionShards([], ["a"])
    with pytest.raises(UsageError, match="classes 'cat': give names"):
        DetectionShards(["a.tar"], "cat")
    coco.classes = ("two\nlines", "b")
    with pytest.raises(UsageError, match="has a line break"):
        write_detection_shards(coco, tmp_path)
