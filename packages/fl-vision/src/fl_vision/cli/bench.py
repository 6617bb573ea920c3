"""``fl-vision bench``: how fast networks compute and learn, by phases of a step."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import runtime, runtime_options
from fl_vision.cli.options import Parser, image_size, whole
from fl_vision.detection import SetCriterion
from fl_vision.models import detr_resnet50, detr_small
from fl_vision.models.by_name import create_network, network_names

PHASES = ("batch", "forward", "criterion", "backward", "optimization")
_DETRS = {"detr_resnet50": detr_resnet50, "detr_small": detr_small}
#: Objects of an image.
_OBJECTS = 7
_COCO = 91


@dataclass(frozen=True)
class Subject:
    """What is timed: `batch()` gives inputs and targets, `loss(output, targets)` a scalar."""

    name: str
    model: nn.Module
    batch: Callable[[], tuple[tuple[Any, ...], Any]]
    loss: Callable[[Any, Any], Any]


def main(arguments: list[str]) -> None:
    """Print a row for each network: images per second, and mean milliseconds of each phase."""
    given = _parser().parse_args(arguments)
    rows = []
    with runtime(given):
        for name in given.networks:
            rows.append(measure(subject(name, given), given))
    if given.json:
        print(json.dumps(rows, indent=1))
        return
    print("| network | batch | " + " | ".join(("images/s", *(f"{p}, ms" for p in PHASES))) + " |")
    print("|---|--:|" + "--:|" * (1 + len(PHASES)))
    for row in rows:
        cells = [f"{row['images_per_second']:.2f}", *(f"{row[phase]:.2f}" for phase in PHASES)]
        print(f"| {row['network']} | {row['batch_size']} | {' | '.join(cells)} |")


def subject(name: str, given: argparse.Namespace) -> Subject:
    """A network with random images and targets."""
    ft.seed(0)
    size, count = given.image_size, given.batch_size
    draw = ft.default_generator()

    def images(default: int) -> ft.Tensor:
        return draw.normal((count, 3, *(size or (default, default))))

    if name in _DETRS:
        detr: nn.Module = _DETRS[name](_COCO)
        criterion = SetCriterion(_COCO)

        def objects() -> tuple[tuple[Any, ...], Any]:
            pixels = images(800 if name == "detr_resnet50" else 128)
            mask = ft.full((count, *pixels.shape[2:]), True, ft.bool)
            targets = []
            for _ in range(count):
                labels = draw.integers(0, _COCO, (_OBJECTS,))
                centres = draw.uniform((_OBJECTS, 2), 0.3, 0.7)
                extents = draw.uniform((_OBJECTS, 2), 0.1, 0.5)
                boxes = ft.concatenate([centres, extents], -1)
                targets.append({"boxes": boxes, "labels": labels})
            return (pixels, mask), targets

        return Subject(name, detr, objects, criterion)
    shape = (3, *(size or (224, 224)))
    model = create_network(name, given.classes, shape, {"drop_path": 0.1, "dropout": 0.1})

    def labelled() -> tuple[tuple[Any, ...], Any]:
        return (images(224),), draw.integers(0, given.classes, (count,))

    return Subject(name, model, labelled, nn.cross_entropy)


def measure(timed: Subject, given: argparse.Namespace) -> dict[str, Any]:
    """Mean times of the phases of a step, over the steps after the warm-up."""
    optimizer = nn.SGD(timed.model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    sums = dict.fromkeys(PHASES, 0.0)
    began = 0.0
    for number in range(given.warm_up + given.steps):
        if number == given.warm_up:
            sums, began = dict.fromkeys(PHASES, 0.0), time.perf_counter()
        clock = _Clock(sums)
        inputs, targets = timed.batch()
        clock.ends("batch", *inputs)
        with ag.autocast("O1") if given.amp else nullcontext():
            output = timed.model(*inputs)
            clock.ends("forward", output)
            loss = timed.loss(output, targets)
            clock.ends("criterion", loss)
        optimizer.zero_grad()
        loss.backward()
        clock.ends("backward", *(p.grad for p in optimizer.parameters))
        optimizer.step()
        clock.ends("optimization", *(p.tensor for p in optimizer.parameters))
    seconds = time.perf_counter() - began
    return {
        "network": timed.name,
        "batch_size": given.batch_size,
        "amp": given.amp,
        "images_per_second": given.batch_size * given.steps / seconds,
        **{phase: 1000 * total / given.steps for phase, total in sums.items()},
    }


class _Clock:
    """Adds the seconds since the last phase to `sums`, when values are computed."""

    def __init__(self, sums: dict[str, float]) -> None:
        self.sums, self.last = sums, time.perf_counter()

    def ends(self, phase: str, *values: Any) -> None:
        for value in values:
            if isinstance(value, ft.Array):
                ft.eval(value)
        ft.synchronize()
        now = time.perf_counter()
        self.sums[phase] += now - self.last
        self.last = now


def _parser() -> Parser:
    known = (*network_names()[1:], *_DETRS)
    parser = Parser(
        "fl-vision bench",
        "Time training steps on random images, SGD with momentum, after a warm-up. Phases end when "
        "their values are computed. DETR is for 800 x 800 pixels unless --image-size says other.",
    )
    add = parser.add_argument
    default = ["resnet34", "resnet50", "vit_b", "detr_resnet50"]
    add("networks", nargs="*", choices=[*known, []], default=default, metavar="NETWORK",
        help=f"of {', '.join(known)} ({' '.join(default)})")  # fmt: skip
    add("--batch-size", type=whole(1), default=8, metavar="N", help="(%(default)s)")
    add("--image-size", type=image_size, metavar="HxW", help="(224x224)")
    add("--classes", type=whole(1), default=1000, metavar="N", help="(%(default)s)")
    add("--warm-up", type=whole(0), default=5, metavar="N", help="steps (%(default)s)")
    add("--steps", type=whole(1), default=20, metavar="N", help="timed (%(default)s)")
    add("--amp", action="store_true", help="float16 where safe")
    add("--json", action="store_true", help="in place of a table")
    runtime_options(parser)
    return parser
