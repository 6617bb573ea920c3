"""Accuracy of image classifiers: `results.py mnist`.

Without names all experiments run. Options: `--data FOLDER` of the files of MNIST, `--out FOLDER`
for runs, `--seeds N`, `--holdout N` test images, and after `--` options of every `fl-vision train`,
such as `-- --epochs 1`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from fl_vision.classifier import load_classifier
from fl_vision.cli import main as fl_vision
from fl_vision.datasets import DataOptions, load_dataset


class Figure(NamedTuple):
    """A figure in percent or seconds, and the least (or the largest) that counts as reached."""

    name: str
    value: float
    unit: str = "%"
    bar: float | None = None
    least: bool = True

    @property
    def is_missed(self) -> bool:
        if self.bar is None:
            return False
        return not (self.value >= self.bar if self.least else self.value <= self.bar)

    def __str__(self) -> str:
        text = f"{self.name:44} {self.value:8.3f} {self.unit:2}"
        if self.bar is None:
            return text
        sign = ">=" if self.least else "<="
        return f"{text}  bar {sign} {self.bar:g}{'  MISSED' if self.is_missed else ''}"


def mnist(given: argparse.Namespace, settings: Sequence[str]) -> list[Figure]:
    """ResNet-18 of width 16 on MNIST: the last images of a file test, the others train."""
    found, accuracies = [], []
    data = load_dataset("mnist", DataOptions(data_dir=given.data, holdout=given.holdout))
    for seed in range(given.seeds):
        out = given.out / f"mnist-{seed}"
        seconds = trained(given, out, ["--recipe", "mnist-resnet18", "--seed", str(seed)], settings)
        classifier, _ = load_classifier(out)
        accuracies.append(100 * classifier.classify(data.test).accuracy)
        found.append(Figure(f"mnist-resnet18, seed {seed}", accuracies[-1]))
        found.append(Figure(f"mnist-resnet18, seed {seed}, training", seconds, "s", 300.0, False))
    found.append(Figure("mnist-resnet18, mean", statistics.fmean(accuracies), bar=99.0))
    return found


def trained(
    given: argparse.Namespace, out: Path, options: Sequence[str], settings: Sequence[str]
) -> float:
    """Train a classifier into `out`, or go on; the seconds of its epochs. One that is finished is
    not trained again."""
    if not (out / "finished").is_file():
        command = ["train", "-o", str(out), "--quiet", "--no-download"]
        if (out / "checkpoint.safetensors").is_file():
            command.append("--resume")
        else:
            command += [str(given.data), "--holdout", str(given.holdout), *options, *settings]
        print("fl-vision", *command, flush=True)
        if fl_vision(command):
            raise RuntimeError(f"fl-vision {' '.join(command)} failed")
        (out / "finished").touch()
    records = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return sum(record["seconds"] for record in records if record["event"] == "epoch")


EXPERIMENTS: dict[str, Callable[[argparse.Namespace, Sequence[str]], list[Figure]]] = {
    "mnist": mnist
}


def main(arguments: Sequence[str]) -> int:
    """Run experiments; 1 where a bar is missed."""
    own = list(arguments)
    settings = own[own.index("--") + 1 :] if "--" in own else []
    own = own[: own.index("--")] if "--" in own else own
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    data = os.environ.get("FL_TEST_DATA", "data")
    add("names", nargs="*", metavar="NAME", help=f"of {', '.join(EXPERIMENTS)}")
    add("--data", type=Path, default=Path(data) / "mnist", metavar="FOLDER")
    add("--out", type=Path, default=Path("runs") / "images", metavar="FOLDER")
    add("--seeds", type=int, default=3, metavar="N", help="(%(default)s)")
    add("--holdout", type=int, default=1000, metavar="N", help="test images (%(default)s)")
    given = parser.parse_args(own)
    for name in given.names:
        if name not in EXPERIMENTS:
            parser.error(f"{name}: the experiments are {', '.join(EXPERIMENTS)}")
    given.out.mkdir(parents=True, exist_ok=True)
    figures = []
    for name in given.names or EXPERIMENTS:
        start = time.perf_counter()
        found = EXPERIMENTS[name](given, settings)
        for each in found:
            print(f"{name:10} {each}", flush=True)
        print(f"{name:10} took {time.perf_counter() - start:.0f} s", flush=True)
        values = [each._asdict() for each in found]
        (given.out / f"{name}.json").write_text(json.dumps(values, indent=1) + "\n")
        figures += found
    missed = [each for each in figures if each.is_missed]
    print(f"{len(missed)} of {sum(each.bar is not None for each in figures)} bars missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
