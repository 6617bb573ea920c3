"""The command `fl-vision prepare`: data sets to try the other commands with."""

from __future__ import annotations

import argparse
from pathlib import Path

from fl_vision.cli.options import Parser, whole
from fl_vision.datasets import Scenes, write_blobs, write_coco
from fl_vision.errors import UsageError


def main(arguments: list[str]) -> None:
    """Write the data set, and print what was written."""
    given = _parser().parse_args(arguments)
    if given.what == "blobs":
        if given.source is None:
            raise UsageError("[prepare] blobs of which images? Give --from FOLDER")
        for path, count in write_blobs(given.source, given.out).items():
            print(f"wrote {count} images to {path}")
        return
    for name, count, seed in (("train", given.train, given.seed), ("valid", given.valid, None)):
        if count:
            # Validation scenes are those of another seed.
            scenes = Scenes(count, given.seed + 1 if seed is None else seed, size=given.size)
            print(f"wrote {count} scenes to {write_coco(scenes, given.out / name)}")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="fl-vision prepare",
        description="Write a data set. scenes: drawn pictures of five shapes with exact boxes, as "
        "folders train and valid with images and COCO's instances.json. blobs: the image files of "
        "--from, a folder with train/ and test/ or val/, in a file for each.",
    )
    add = parser.add_argument
    add("what", choices=["scenes", "blobs"], help="the data set")
    add("-o", "--out", type=Path, required=True, metavar="FOLDER", help="where it is written")
    add("--from", dest="source", type=Path, metavar="FOLDER", help="blobs: images by class")
    add("--train", type=whole(0), default=2000, metavar="N", help="training scenes (2000)")
    add("--valid", type=whole(0), default=500, metavar="N", help="validation scenes (500)")
    add("--seed", type=whole(0), default=0, metavar="N", help="of the scenes (0)")
    add("--size", type=whole(32), default=128, metavar="N", help="pixels of a side (128)")
    return parser
