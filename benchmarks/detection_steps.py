"""Training steps of small detectors, beside the same networks and losses in PyTorch.

Claim: steps of both are not slower than PyTorch's.

The networks are those of the recipes `scenes-detr` and `scenes-retinanet`, on batches of drawn
scenes of 128 pixels. A step is forward, the loss with the matching of boxes, backward, a bound on
the norm of gradients, and AdamW. PyTorch's networks are those of `examples/detection`; its matching
is SciPy's `linear_sum_assignment`.

Each library runs in a process of its own, and they take turns. Times are medians over rounds.

    python benchmarks/detection_steps.py [--rounds N] [--only detr] [--threads N] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _measure import OneAtATime, Worker, environment, parsed, parser_of, report, serve, take_turns
from _peers import require

CASES = ("detr", "retinanet")
#: Steps before measuring: until every kernel has been chosen.
WARM = 60
TWINS = Path(__file__).resolve().parent.parent / "examples" / "detection"


def recipe_of(case: str, tiny: bool) -> Any:
    from fl_vision.detectors import DetectionRecipe

    recipe = DetectionRecipe.read(f"scenes-{case}", augmentation="none")
    return recipe.changed(batch_size=2, width=4, size=16) if tiny else recipe


def batch(case: str, tiny: bool) -> tuple[Any, Any, Any, Any]:
    """A detector, and a batch of NumPy: images, mask, objects."""
    from fl_dist import local
    from fl_vision.datasets import Scenes
    from fl_vision.detectors import Detector
    from fl_vision.detectors.batches import training_batches

    recipe = recipe_of(case, tiny)
    scenes = Scenes(recipe.batch_size, 0, size=64 if tiny else 128)
    detector = Detector(recipe, scenes.classes)
    images, mask, targets = training_batches(detector, scenes, local())[0]
    return detector, images.numpy(), mask.numpy(), targets


def our_step(case: str, tiny: bool) -> Callable[[], object]:
    import fl_nn as nn
    import fl_tensor as ft
    from fl_vision.detectors import make_criterion
    from fl_vision.detectors.optimisation import make_optimizer

    ft.seed(0)
    detector, *arrays, targets = batch(case, tiny)
    images, mask = map(ft.asarray, arrays)
    criterion = make_criterion(detector.recipe, len(detector.classes))
    optimizer = make_optimizer(detector)

    def step() -> Any:
        optimizer.zero_grad()
        loss = criterion(detector(images, mask), targets)
        loss.backward()
        nn.clip_grad_norm_(optimizer.parameters, detector.recipe.clip)
        optimizer.step()
        return loss.item()

    return step


def their_step(case: str, tiny: bool) -> Callable[[], object]:
    import torch

    sys.path.insert(0, str(TWINS))
    import torch_detectors

    torch.manual_seed(0)
    detector, images, mask, objects = batch(case, tiny)
    recipe = detector.recipe
    model: Any = (
        torch_detectors.DETR(5, recipe.queries, recipe.width, recipe.size, hidden=recipe.hidden)
        if case == "detr"
        else torch_detectors.RetinaNet(5, recipe.width, recipe.size, recipe.anchor_scale)
    )
    x, known = torch.tensor(images), torch.tensor(mask)
    targets = [
        (torch.tensor(np.asarray(one.boxes)), torch.tensor(np.asarray(one.labels)))
        for one in objects
    ]
    optimizer = torch.optim.AdamW(model.parameters(), recipe.lr, weight_decay=recipe.weight_decay)

    def step() -> Any:
        optimizer.zero_grad()
        loss = model.loss(x, known, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()
        return loss.item()

    return step


def warm(library: str, tiny: bool, case: str) -> Callable[[], object]:
    import fl_tensor as ft

    threads = int(os.environ["OMP_NUM_THREADS"])
    ft.set_num_threads(threads)
    if library == "torch":
        import torch

        torch.set_num_threads(threads)
        step = their_step(case, tiny)
    else:
        ft.use(library)
        step = our_step(case, tiny)
    for _ in range(2 if tiny else WARM):
        step()
    if library == "jit":
        ft.jit.wait()
    return step


def main() -> None:
    parser = parser_of(__doc__, 9)
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE", choices=CASES)
    parser.add_argument("--serve", metavar="LIBRARY", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=2)
    given = parsed(parser)
    if given.serve:
        serve(OneAtATime(partial(warm, given.serve, given.tiny)))
        return
    libraries = ("numpy",) if given.tiny else ("jit", "torch")
    if not given.tiny:
        require(["torch", "scipy"], "install them, or run with --tiny")
    rows = []
    for case in given.only or CASES:
        with ExitStack() as stack:
            workers = {
                one: stack.enter_context(Worker(one, given.threads, tiny=given.tiny))
                for one in libraries
            }
            times = take_turns(workers, case, given.rounds, given.moment)
        row: dict[str, Any] = {"step": case}
        row |= {f"{one} ms": 1e3 * seconds for one, seconds in times.items()}
        if not given.tiny:
            row["torch / jit"] = times["torch"] / times["jit"]
        rows.append(row)
    about = environment("numpy", "llvmlite", "torch", "fl-tensor", "fl-nn", "fl-jit", "fl-vision")
    report(given, about, rows)


if __name__ == "__main__":
    main()
