"""ImageNet: folders of synsets, their blobs and tar shards, and kept pictures."""

from __future__ import annotations

import io
import json
import pickle
import tarfile

import pytest
from PIL import Image

import fl_data as data
import fl_tensor as ft
from fl_vision import DataFileError, DataMissingError, ImageFolder, UsageError
from fl_vision.datasets import (
    CachedImages,
    ImageBlob,
    ImageNet,
    ImageShards,
    Scenes,
    read_labels,
    write_image_blob,
    write_image_shards,
)

LABELS = "n02,tench, Tinca tinca\nn01,hen\n"


@pytest.fixture
def photos(tmp_path):
    """Two classes of three images each, of mixed sizes; image `i` has the level 20 * i."""
    root = tmp_path / "train"
    for number in range(6):
        path = root / ("n02" if number < 3 else "n01") / f"n_{number}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8 + number, 9), (20 * number,) * 3).save(path, quality=95)
    (root / "n01" / "notes.txt").write_text("no image")
    (tmp_path / "labels.txt").write_text(LABELS)
    return ImageNet(root, tmp_path / "labels.txt")


def levels(samples):
    """Number and label of each sample, which its level tells."""
    return [(round(image[0, 0, 0].item() / 20), label.item()) for image, label in samples]


EXPECTED = [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 1)]


def test_the_line_of_a_synset_is_its_class(photos):
    assert photos.synsets == ("n02", "n01")
    assert photos.classes == ("tench, Tinca tinca", "hen")
    assert levels(photos) == EXPECTED
    assert [image.shape for image, _ in photos][::5] == [(3, 9, 8), (3, 9, 13)]
    assert ImageNet(photos.root, photos.root.parent / "labels.txt", size=(4, 5))[3][0].shape == (
        *(3, 4, 5),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n01,a\nn02\n", "line 2: 'n02' has no comma; write synset,name"),
        ("n01,a\n\nn02,b", "line 2: '' has no comma"),
        (",a", "has no synset"),
        ("n01,a\nn01,b", "line 2: 'n01,b' has the synset 'n01' of another line"),
        ("\n", "has no lines"),
        (b"n01,\xff", "no UTF-8"),
    ],
)
def test_wrong_labels(tmp_path, text, message):
    path = tmp_path / "labels.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataFileError, match=message):
        read_labels(path)


def test_folders_and_labels_must_fit(photos, tmp_path):
    labels = tmp_path / "labels.txt"
    with pytest.raises(DataMissingError, match="synset,name for each class"):
        read_labels(tmp_path / "none")
    labels.write_text("n01,hen\n")
    with pytest.raises(UsageError, match="has the folder 'n02'"):
        ImageNet(photos.root, labels)
    labels.write_text(LABELS + "n03,owl\n")
    with pytest.raises(DataMissingError, match=r"1 classes have no image \*.JPEG \(first: n03\)"):
        ImageNet(photos.root, labels)
    assert len(ImageNet(photos.root, labels, allow_empty=True)) == 6
    with pytest.raises(DataMissingError, match="one folder per synset"):
        ImageNet(tmp_path / "none", labels)


def test_shards_hold_the_encoded_files(photos, tmp_path):
    paths = write_image_shards(photos, tmp_path / "shards", per_shard=4)
    assert [path.name for path in paths] == ["shard-000000.tar", "shard-000001.tar"]
    assert (tmp_path / "shards/classes.txt").read_text() == "tench, Tinca tinca\nhen\n"
    with tarfile.open(paths[0]) as archive:
        names = archive.getnames()
        first = archive.extractfile(names[0])
        assert first is not None and first.read() == photos.paths[0].read_bytes()
    assert names[:3] == ["00000000.jpeg", "00000000.cls", "00000001.jpeg"]
    stream = ImageShards(paths, shuffle=False, classes=2)
    assert levels(stream) == EXPECTED
    before = [path.read_bytes() for path in paths]
    write_image_shards(photos, tmp_path / "shards", per_shard=4)
    assert [path.read_bytes() for path in paths] == before


def test_shards_may_be_in_random_order(photos, tmp_path):
    paths = write_image_shards(photos, tmp_path / "a", seed=2)
    mixed = levels(ImageShards(paths))
    assert mixed != EXPECTED
    assert sorted(mixed) == EXPECTED
    assert levels(ImageShards(write_image_shards(photos, tmp_path / "b", seed=2))) == mixed


def test_shards_go_on_at_the_exact_sample(photos, tmp_path):
    paths = write_image_shards(photos, tmp_path, per_shard=2)

    def make():
        return ImageShards(paths, seed=3, size=(4, 4)).shuffle(2, seed=1).batch(2)

    whole = [levels([(i, n) for i, n in zip(*batch, strict=True)]) for batch in make()]
    assert sorted(sum(whole, [])) == EXPECTED
    for stop in range(3):
        passed = iter(make())
        for _ in range(stop):
            next(passed)
        resumed = iter(make())
        resumed.load_state(json.loads(json.dumps(passed.state())))
        rest = [levels(list(zip(*batch, strict=True))) for batch in resumed]
        assert rest == whole[stop:]


def test_ranks_share_the_shards(photos, tmp_path):
    paths = write_image_shards(photos, tmp_path, per_shard=2)
    ranks = [levels(ImageShards(paths, rank=rank, world_size=2)) for rank in range(2)]
    assert sorted(sum(ranks, [])) == EXPECTED
    assert all(ranks)


def tar_of(path, *members):
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def picture():
    content = io.BytesIO()
    Image.new("RGB", (4, 3), (60, 60, 60)).save(content, "PNG")
    return content.getvalue()


def test_labels_of_shards_may_be_json(tmp_path):
    members = (("a/b.x.txt", b""), ("a/b.png", picture()), ("a/b.json", b'{"label": 1, "x": 2}'))
    assert levels(ImageShards([tar_of(tmp_path / "a.tar", *members)])) == [(3, 1)]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ((("a.png", picture()),), "a.tar: a: no label"),
        ((("a.png", picture()), ("a.cls", b"x")), "no label; write .cls with a number below 2"),
        ((("a.png", picture()), ("a.cls", b"2")), "no label"),
        ((("a.png", picture()), ("a.json", b"[" * 9999)), "no label"),
        ((("a.cls", b"1"),), "no image among key, cls"),
        ((("a.png", b"no image"), ("a.cls", b"1")), "a.tar: a.png: not an image"),
        ((("a.png", picture()[:-30]), ("a.cls", b"1")), "a.tar: a.png: damaged or cut off"),
        ((("a.cls", b"1"), ("a.cls", b"1")), "'a.cls' comes twice"),
        ((("a.cls", b"1" * (1 << 20) + b"1"),), "the limit is 1048576"),
    ],
)
def test_wrong_samples_of_shards(tmp_path, members, message):
    path = tar_of(tmp_path / "a.tar", *members)
    with pytest.raises(DataFileError, match=message):
        list(ImageShards([path], classes=2))


def test_archives_that_are_cut_off_damaged_or_packed(tmp_path):
    path = tar_of(tmp_path / "a.tar", ("a.png", picture()), ("a.cls", b"1"), ("b.cls", b"1"))
    whole = path.read_bytes()
    for size in (0, 100, 512, 600, 1024, 1536, 2048, 2560, 3000):
        path.write_bytes(whole[:size])
        with pytest.raises(DataFileError, match="damaged, cut off, or no plain tar"):
            list(ImageShards([path]))
    for at in (1100, 2100):  # in the header of a.cls, in that of b.cls
        path.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
        with pytest.raises(DataFileError, match="damaged, cut off"):
            list(ImageShards([path]))
    with tarfile.open(tmp_path / "b.tar", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("a.cls"))
    with pytest.raises(DataFileError, match="unpack a compressed one"):
        list(ImageShards([tmp_path / "b.tar"]))
    with tarfile.open(tmp_path / "c.tar", "w") as archive:
        member = tarfile.TarInfo("a.png")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(DataFileError, match="'a.png' is no file"):
        list(ImageShards([tmp_path / "c.tar"]))
    with pytest.raises(DataFileError, match="holds no files"):
        list(ImageShards([tar_of(tmp_path / "e.tar")]))
    with pytest.raises(DataMissingError, match="no such file"):
        list(ImageShards([tmp_path / "d.tar"]))
    with pytest.raises(UsageError, match="at least one"):
        ImageShards([])


def test_a_blob_holds_the_encoded_files(photos, tmp_path):
    path = tmp_path / "photos.blob"
    assert write_image_blob(photos, path) == 6
    assert path.stat().st_size < sum(p.stat().st_size for p in photos.paths) + 2000
    ds = pickle.loads(pickle.dumps(ImageBlob(path)))
    assert (levels(ds), ds.classes) == (EXPECTED, photos.classes)
    small = data.Batch(ImageBlob(path, size=(4, 4), grayscale=True), 6)[0]
    assert (small[0].shape, small[1].tolist()) == ((6, 1, 4, 4), [0, 0, 0, 1, 1, 1])


def test_wrong_blobs(photos, tmp_path):
    with data.FileBlob(tmp_path / "a.blob", "w") as blob:
        blob.add((ft.zeros(3),))
    with pytest.raises(DataFileError, match="sample 0 has no 'classes'"):
        ImageBlob(tmp_path / "a.blob")
    with data.FileBlob(tmp_path / "b.blob", "w") as blob:
        blob.add({"classes": ["a"]})
        blob.add({"image": b"nothing", "label": 1, "name": "x.jpg"})
    ds = ImageBlob(tmp_path / "b.blob")
    with pytest.raises(DataFileError, match=r"image 0 \(x.jpg\): not an image"):
        ds.image(0)
    with pytest.raises(DataFileError, match="image 0 has the label 1 of 1"):
        ds.target(0)
    with pytest.raises(UsageError, match="no image files with labels"):
        write_image_blob(Scenes(1), tmp_path / "c.blob")


def test_cached_pictures_are_decoded_once(photos, tmp_path, monkeypatch):
    decoded = []
    plain = ImageNet.image
    monkeypatch.setattr(
        ImageNet, "image", lambda self, index: decoded.append(index) or plain(self, index)
    )
    cached = CachedImages(photos)
    assert levels(cached) == levels(cached) == EXPECTED
    assert sorted(decoded) == list(range(6))
    Image.new("RGB", (99, 9), (100,) * 3).save(photos.paths[2], "JPEG")
    assert levels([cached[2]]) == [(5, 0)]
    assert len(decoded) == 7
    decoded.clear()
    little = CachedImages(photos, max_bytes=700)  # two pictures
    assert levels(little)[3:] == EXPECTED[3:]
    assert levels([little[5], little[0]])[0] == (5, 1)
    assert decoded == [*range(6), 0]


def test_cached_pictures_in_a_folder_serve_other_processes(photos, tmp_path):
    list(CachedImages(photos, folder=tmp_path / "cache"))
    other = pickle.loads(pickle.dumps(CachedImages(photos, folder=tmp_path / "cache")))
    size = sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert size > 6 * 3 * 8 * 9
    assert levels(other) == EXPECTED
    folder = ImageFolder(photos.root, size=(4, 4))
    assert CachedImages(folder, folder=tmp_path / "cache")[0][0].shape == (3, 4, 4)


def test_what_has_no_files_is_not_cached():
    with pytest.raises(UsageError, match="has no image files: give an ImageFolder"):
        CachedImages(Scenes(2))
