"""``fl-speech bench``: how fast an acoustic model computes and learns."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_memory.subcommands import at_least
from fl_nn.extend import given_settings, recipe_options, runtime, runtime_options
from fl_speech.recipe import Recipe
from fl_speech.recogniser import build_criterion, build_encoder
from fl_speech.training.optimisation import CLASSES


def main(arguments: list[str]) -> int:
    """Print milliseconds and real-time factors."""
    parser = argparse.ArgumentParser(
        prog="fl-speech bench",
        description="Times of an encoder and its criterion on random features: the forward pass, "
        "forward and backward, and a training step. The real-time factor is the time over that of "
        "the audio, at 10 ms a frame unless --stride-ms says otherwise.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--frames", type=at_least(1), default=1500, metavar="N", help="(%(default)s)")
    add("--batch", type=at_least(1), default=1, metavar="N", help="recordings (%(default)s)")
    add("--classes", type=at_least(2), default=30, metavar="N", help="outputs (%(default)s)")
    add("--labels", type=at_least(1), default=100, metavar="N", help="of a target (%(default)s)")
    add("--iterations", type=at_least(1), default=10, metavar="N", help="timed (%(default)s)")
    recipe_options(parser, Recipe)
    runtime_options(parser)
    given = parser.parse_args(arguments)
    recipe = Recipe(**given_settings(given, Recipe))
    with runtime(given):
        ft.seed(recipe.seed)
        dtype = ft.dtype(recipe.dtype)
        encoder = build_encoder(recipe, recipe.filters, given.classes, "").to(dtype)
        criterion = build_criterion(recipe, given.classes).to(dtype)
        x = ft.randn((given.batch, given.frames, recipe.filters), dtype=dtype)
        lengths = ft.asarray([given.frames] * given.batch, ft.int64)
        labels = ft.random.integers(0, given.classes - 1, (given.batch, given.labels))
        optimizer = CLASSES[recipe.optimizer](
            [*encoder.parameters(), *criterion.parameters()], lr=recipe.lr
        )
        audio = given.batch * given.frames * recipe.stride_ms / 1000

        def loss() -> Any:
            with ag.autocast("O1") if recipe.amp else nullcontext():
                return criterion(encoder(x, lengths), labels)

        def forward() -> None:
            with nn.evaluating(encoder):
                encoder(x, lengths)[0].numpy()

        def backward() -> None:
            optimizer.zero_grad()
            value = loss()
            value.backward()
            value.item()

        def step() -> None:
            backward()
            optimizer.step()
            optimizer.parameters[0].tensor.numpy()

        count = sum(parameter.size for parameter in optimizer.parameters)
        print(f"{recipe.arch}, {recipe.criterion}: {count / 1e6:.2f} M parameters")
        for name, run in (("forward", forward), ("forward and backward", backward), ("step", step)):
            seconds = _median(run, given.iterations)
            print(f"{name}: {1000 * seconds:.1f} ms, real-time factor {seconds / audio:.5f}")
    return 0


def _median(run: Callable[[], None], count: int) -> float:
    run()  # plans and compiles
    run()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
