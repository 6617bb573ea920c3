"""Average precision of detectors of drawn scenes: `results.py retinanet detr`.

Without names both experiments run. `--torch` also trains the DETR of PyTorch. After `--` follow
settings of every training, such as `-- epochs=2`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_dist import local
from fl_vision.datasets import Scenes
from fl_vision.detection import CocoFigures, CocoMeter, GroundTruth, SetPrediction, detr_detections
from fl_vision.detectors import (
    DetectionRecipe,
    Detector,
    DetectorRun,
    evaluate_detector,
    train_detector,
)
from fl_vision.detectors.batches import training_batches
from fl_vision.detectors.optimisation import factor

#: The least AP50 and AP, and the most seconds.
BARS = {"retinanet": (0.85, 0.55, 900), "detr": (0.80, 0.45, 1800)}


def ours(name: str, given: argparse.Namespace, settings: dict[str, Any]) -> CocoFigures:
    """The figures of a detector of this package."""
    recipe = DetectionRecipe.read(f"scenes-{name}", **settings)
    train, valid = scenes(given)
    run = DetectorRun(given.out / name, overwrite=True, validate_every=10)
    trained = train_detector(recipe, train, valid, run, prefetch=2)
    return evaluate_detector(trained.detector, valid)


def theirs(given: argparse.Namespace, settings: dict[str, Any]) -> CocoFigures:
    """The figures of PyTorch's DETR after the same training."""
    import torch
    import torch_detectors

    recipe = DetectionRecipe.read("scenes-detr", **settings)
    train, valid = scenes(given)
    detector = Detector(recipe, train.classes)  # for its batches
    torch.manual_seed(recipe.seed)
    torch.set_num_threads(ft.get_num_threads())
    model = torch_detectors.DETR(
        len(train.classes), recipe.queries, recipe.width, recipe.size, recipe.heads, recipe.hidden
    )
    rest = [p for name, p in model.named_parameters() if not name.startswith("backbone.")]
    backbone = {"params": model.backbone.parameters(), "lr": recipe.lr * recipe.backbone_lr}
    optimizer = torch.optim.AdamW(
        [{"params": rest}, backbone], recipe.lr, weight_decay=recipe.weight_decay
    )
    batches = training_batches(detector, train, local(), prefetch=2)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: factor(recipe, step, len(batches))
    )
    for epoch in range(recipe.epochs):
        batches.set_epoch(epoch)
        total = 0.0
        for images, mask, objects in batches.iterate():  # type: ignore[misc]
            targets = [
                (torch.tensor(np.asarray(one.boxes)), torch.tensor(np.asarray(one.labels)))
                for one in objects
            ]
            optimizer.zero_grad()
            loss = model.loss(torch.tensor(images.numpy()), torch.tensor(mask.numpy()), targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
            optimizer.step()
            schedule.step()
            total += float(loss.detach())
        print(f"torch epoch {epoch + 1}  loss {total / len(batches):.4f}", flush=True)
    model.eval()
    meter = CocoMeter(train.classes)
    for number in range(len(valid)):
        image, target = valid[number]
        images, mask = detector.inputs([image])
        with torch.no_grad():
            logits, boxes = model(torch.tensor(images.numpy()), torch.tensor(mask.numpy()))[-1]
        outputs = SetPrediction(ft.asarray(logits.numpy()), ft.asarray(boxes.numpy()))
        found = detr_detections(outputs, [image.shape[1:]], recipe.most)
        meter.add(found, [GroundTruth(target.boxes, target.labels, number, target.areas)])
    return meter.value


def scenes(given: argparse.Namespace) -> tuple[Scenes, Scenes]:
    return Scenes(given.train, 0, cache_bytes=1 << 30), Scenes(given.valid, 1)


def main(arguments: Sequence[str]) -> int:
    """Run experiments; 1 where a bar was missed."""
    own = list(arguments)
    after = own[own.index("--") + 1 :] if "--" in own else []
    own = own[: own.index("--")] if "--" in own else own
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help=f"of {', '.join(BARS)}")
    add("--torch", action="store_true", help="also PyTorch's DETR")
    add("--out", type=Path, default=Path("runs") / "detection", metavar="FOLDER")
    add("--train", type=int, default=2000, metavar="N", help="scenes (%(default)s)")
    add("--valid", type=int, default=500, metavar="N", help="scenes (%(default)s)")
    given = parser.parse_args(own)
    for name in given.names:
        if name not in BARS:
            parser.error(f"{name}: the experiments are {', '.join(BARS)}")
    settings = {name: json.loads(text) for name, _, text in (each.partition("=") for each in after)}
    given.out.mkdir(parents=True, exist_ok=True)
    missed = 0
    for name in given.names or BARS:
        start = time.perf_counter()
        figures = ours(name, given, settings)
        took = time.perf_counter() - start
        ap50, ap, most = BARS[name]
        reached = figures.ap50 >= ap50 and figures.ap >= ap and took <= most
        missed += not reached
        print(
            f"{name:10} AP50 {figures.ap50:.4f} bar >= {ap50}, AP {figures.ap:.4f} bar >= {ap}, "
            f"{took:.0f} s bar <= {most}{'' if reached else '  MISSED'}",
            flush=True,
        )
        values = {"ap50": figures.ap50, "ap": figures.ap, "seconds": took}
        (given.out / f"{name}.json").write_text(json.dumps(values, indent=1) + "\n")
    if given.torch:
        start = time.perf_counter()
        figures = theirs(given, settings)
        took = time.perf_counter() - start
        print(f"{'torch detr':10} AP50 {figures.ap50:.4f}, AP {figures.ap:.4f}, {took:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
