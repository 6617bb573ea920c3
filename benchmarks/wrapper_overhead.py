"""What wrappers cost: an addition of 4 elements and training steps, bare and under each wrapper.

Claim: with no wrapper active nothing is paid, and with one the cost is per operation, not per
element (``check`` reads all elements). PyTorch's counterparts, an empty TorchDispatchMode and its
profiler, are measured on the same addition.

    python benchmarks/wrapper_overhead.py [--rounds 15] [--json FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from _measure import Around, environment, interleave, options, report

import fl_nn as nn
import fl_tensor as ft


def passing(inner: Any, x: Any, y: Any) -> Any:
    return inner.add(x, y)


LAYERS: dict[str, Around] = {
    "override": lambda: ft.override(add=passing),
    "empty wrapper": ft.Wrapper,
    "count": ft.count,
    "profile": ft.profile,
    "trace": ft.trace,
    "check, without operands": lambda: ft.check(operands=False),
    "check": ft.check,
}


def training(model: nn.Module, x: Any, y: Any) -> Callable[[], object]:
    """One step: forward, backward, update."""
    optimizer = nn.SGD(model.parameters(), lr=0.001)

    def step() -> None:
        optimizer.zero_grad()
        nn.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def perceptron() -> Callable[[], object]:
    ft.seed(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    return training(model, ft.randn((64, 64)), ft.Generator(2).integers(0, 10, 64))


def convolutional() -> Callable[[], object]:
    ft.seed(1)
    model = nn.Sequential(
        nn.Conv2D(1, 8, 3, padding="same"),
        nn.ReLU(),
        nn.Pool2D(2),
        nn.Conv2D(8, 16, 3, padding="same"),
        nn.ReLU(),
        nn.Pool2D(2),
        nn.View((-1, 16 * 7 * 7)),
        nn.Linear(16 * 7 * 7, 10),
    )
    return training(model, ft.randn((32, 1, 28, 28)), ft.Generator(2).integers(0, 10, 32))


def addition() -> Callable[[], object]:
    x, y = ft.ones(4), ft.ones(4)
    return lambda: x + y


def peers() -> tuple[Callable[[], object], dict[str, Around]]:
    """The addition in PyTorch, and what can stand around it there."""
    import torch
    from torch.profiler import ProfilerActivity, profile
    from torch.utils._python_dispatch import TorchDispatchMode

    torch.set_num_threads(1)

    class Empty(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    x, y = torch.ones(4), torch.ones(4)
    layers: dict[str, Around] = {
        "TorchDispatchMode": Empty,
        "profiler": lambda: profile(activities=[ProfilerActivity.CPU], record_shapes=True),
    }
    return lambda: x + y, layers


def measure(
    what: str, run: Callable[[], object], around: dict[str, Around], given: argparse.Namespace
) -> list[dict[str, Any]]:
    """A row per wrapper: microseconds per call, and the ratio to the bare call."""
    cases = {"none": run, **dict.fromkeys(around, run)}
    seconds = interleave(cases, given.rounds, given.moment, around)
    return [
        {"what": f"{what}: {name}", "us": 1e6 * s, "to none": s / seconds["none"]}
        for name, s in seconds.items()
    ]


def main() -> None:
    given = options(__doc__)
    cases = [
        ("x + y, 4 elements", addition(), LAYERS),
        ("training step, perceptron", perceptron(), LAYERS),
        ("training step, convolutions", convolutional(), LAYERS),
    ]
    if not given.tiny:
        cases.insert(1, ("x + y, 4 elements, torch", *peers()))
    rows = [row for case in cases for row in measure(*case, given)]
    about = environment("numpy", "torch", "fl-tensor")
    report(given, {**about, "rounds": given.rounds}, rows)


if __name__ == "__main__":
    main()
