"""What `nn.Trainer` costs: epochs of the same batch by `Trainer.fit` and by a loop written by hand.

Claim: on backend `jit` the Trainer takes at most 1.03 times as long as the loop, and its steps have
as many plans. Both look at the loss once a step, after the update; the Trainer also finds gradients
that are not finite. `fit` trains under `ft.reproducible()`, so there is a loop that does, too.

    python benchmarks/trainer_overhead.py [--rounds 15] [--steps 10] [--json FILE]
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from _measure import environment, interleave, parsed, parser_of, report

import fl_nn as nn
import fl_tensor as ft


class Case(NamedTuple):
    """A model, and the shape of a batch of its inputs; it tells ten classes apart."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]


def perceptron() -> nn.Module:
    layers = [nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(1024, 10))


def convolutional() -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2D(inputs, outputs, 3, padding=1), nn.BatchNorm(outputs), nn.ReLU()]
        layers += [nn.Pool2D(2, 2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 16, 10))


def transformer() -> nn.Module:
    layers = [nn.TransformerEncoderLayer(256, 4, 1024) for _ in range(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 256, 10))


CASES = {
    "perceptron, batch 512 of 784": Case(perceptron, (512, 784)),
    "convolutional, batch 128 of 3x32x32": Case(convolutional, (128, 3, 32, 32)),
    "transformer, batch 32 of 64x256": Case(transformer, (32, 64, 256)),
}
TINY = {"perceptron, batch 4 of 784": Case(perceptron, (4, 784))}


def prepared(case: Case) -> tuple[nn.Module, nn.Optimizer, Any]:
    ft.seed(1)
    model = case.build()
    batch = ft.randn(case.shape), ft.Generator(2).integers(0, 10, case.shape[0])
    return model, nn.Adam(model.parameters(), lr=1e-4), batch


def by_hand(
    case: Case, steps: int, around: Callable[[], AbstractContextManager[Any]]
) -> Callable[[], object]:
    model, optimizer, (x, y) = prepared(case)

    def epoch() -> float:
        total = 0.0
        with around():
            for _ in range(steps):
                optimizer.zero_grad()
                loss = nn.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                total += loss.item()
        return total

    return epoch


def by_trainer(case: Case, steps: int) -> Callable[[], object]:
    model, optimizer, batch = prepared(case)
    trainer = nn.Trainer(model, optimizer, nn.cross_entropy, progress=False)
    return lambda: trainer.fit([batch] * steps, epochs=trainer.epoch + 1)


def plans_made(epoch: Callable[[], object], epochs: int) -> int:
    """How many plans `jit` has made for some epochs, the first included."""
    before = {id(plan): plan for plan in ft.jit.plans()}
    for _ in range(epochs):
        epoch()
        ft.jit.wait()
    return sum(id(plan) not in before for plan in ft.jit.plans())


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=10, help="steps of an epoch")
    given = parsed(parser)
    warm = 1 if given.tiny else 4
    rows = []
    with ft.use("jit"):
        for name, case in (TINY if given.tiny else CASES).items():
            ways = {
                "loop": by_hand(case, given.steps, nullcontext),
                "reproducible loop": by_hand(case, given.steps, ft.reproducible),
                "Trainer": by_trainer(case, given.steps),
            }
            plans = {way: plans_made(epoch, warm) for way, epoch in ways.items()}
            times = interleave(ways, given.rounds, given.moment)
            rows.append(
                {
                    "model": name,
                    "Trainer / loop": times["Trainer"] / times["loop"],
                    "Trainer / reproducible loop": times["Trainer"] / times["reproducible loop"],
                    **{f"{way}, ms a step": 1e3 * times[way] / given.steps for way in ways},
                    **{f"{way}, plans": plans[way] for way in ways},
                }
            )
    report(given, environment("numpy", "llvmlite", "fl-tensor", "fl-nn"), rows)


if __name__ == "__main__":
    main()
