"""VocDetection: PASCAL VOC's folders."""

from __future__ import annotations

import pytest
from PIL import Image

from fl_vision import DataFileError, DataMissingError
from fl_vision.datasets import VOC_CLASSES, VocDetection


def an_object(name="dog", box=(1, 1, 5, 6), difficult=0):
    sides = zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
    inside = "".join(f"<{side}>{value}</{side}>" for side, value in sides)
    flag = f"<difficult>{difficult}</difficult>"
    return f"<object><name>{name}</name>{flag}<bndbox>{inside}</bndbox></object>"


def annotation(*objects, size=(20, 30), head=""):
    height, width = size
    extent = f"<size><width>{width}</width><height>{height}</height><depth>3</depth></size>"
    return f"{head}<annotation><filename>x.jpg</filename>{extent}{''.join(objects)}</annotation>"


@pytest.fixture
def make(tmp_path):
    def written(text, names="x  1\n"):
        for folder in ("ImageSets/Main", "Annotations", "JPEGImages"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "ImageSets/Main/train.txt").write_text(names)
        (tmp_path / "Annotations/x.xml").write_text(text)
        Image.new("RGB", (30, 20), (1, 2, 3)).save(tmp_path / "JPEGImages/x.jpg")
        return tmp_path

    return written


def test_boxes_begin_at_pixel_1_and_hold_both_ends(make):
    ds = VocDetection(make(annotation(an_object(), an_object("cat", (29, 2, 30, 20), 1))))
    image, target = ds[0]
    assert image.shape == (3, 20, 30)
    assert target.boxes.tolist() == [[0, 0, 5, 6], [28, 1, 30, 20]]
    assert target.labels.tolist() == [VOC_CLASSES.index("dog"), VOC_CLASSES.index("cat")]
    assert target.difficult.tolist() == [False, True]
    assert target.crowd.tolist() == [False, False]
    assert target.areas.tolist() == [30, 38]
    assert (target.image_id, target.original_size) == ("x", (20, 30))
    assert len(VOC_CLASSES) == 20


def test_boxes_are_cut_and_those_without_area_left_out(make):
    ds = VocDetection(make(annotation(an_object(box=(28, 1, 40, 9)), an_object(box=(5, 5, 4, 9)))))
    assert ds[0][1].boxes.tolist() == [[27, 0, 30, 9]]
    assert (ds.corrections.dropped, ds.corrections.clamped) == (1, 1)
    assert "x.xml, object 1" in str(ds.corrections)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<annotation>", "is no XML"),
        ("", "is no XML"),
        ("<annotation/>", "the image lacks size/height; add it"),
        (annotation(size=(0, 3)), "the image is 0 x 3"),
        (annotation(an_object("unicorn")), "object 0 has the unknown class 'unicorn'"),
        (annotation(an_object(box=(1, "nan", 2, 3))), "bndbox/ymin is 'nan'"),
        (annotation(an_object(box=(1, "?", 2, 3))), "bndbox/ymin is '?'"),
        (annotation(an_object(difficult=2)), "difficult is '2'"),
        (annotation("<object><name>dog</name></object>"), "object 0 lacks bndbox/xmin"),
        (annotation().replace("x.jpg", "../x.jpg"), "leads out of the folder"),
        (
            annotation(head='<!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;">]>'),
            "declares entities; remove",
        ),
        ("<a>" + " " * (1 << 20), "more than 1048576 bytes"),
    ],
)
def test_wrong_annotations(make, text, message):
    with pytest.raises(DataFileError, match=message) as raised:
        VocDetection(make(text))
    assert "x.xml" in str(raised.value)


def test_names(make):
    with pytest.raises(DataFileError, match="line 2: line 1 has 'x' already"):
        VocDetection(make(annotation(), names="x\nx\n"))
    with pytest.raises(DataFileError, match=r"'\.\./x' is no name"):
        VocDetection(make(annotation(), names="../x\n"))
    with pytest.raises(DataMissingError, match="y.xml"):
        VocDetection(make(annotation(), names="y\n"))
    with pytest.raises(DataMissingError, match="val.txt: no such file; give the folder"):
        VocDetection(make(annotation()), "val")


def test_other_classes(make):
    ds = VocDetection(make(annotation(an_object("unicorn"))), classes=["horse", "unicorn"])
    assert ds[0][1].labels.tolist() == [1]
