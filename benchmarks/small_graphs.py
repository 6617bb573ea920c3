"""What deferred execution costs where it cannot help: backend `jit` beside `numpy` on small arrays,
small models, and computations that never come again.

Claim: no case takes more than 1.1 times the time of `numpy`.

    python benchmarks/small_graphs.py [--rounds 15] [--only CASE ...] [--json FILE]

A case is seen several times before it is timed, so plans that pay are there; "new" in a name says
that its structure is another one each time. Kernels of products belong to neither backend: `numpy`
sees all new batches before, so that they are there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial

from _measure import environment, interleave, options, report

import fl_nn as nn
import fl_tensor as ft
from fl_vision import cnn

BACKENDS = ("numpy", "jit")
Case = Callable[[], object]


def chain(count: int) -> Case:
    """40 operations on ``count`` elements, looked at once."""
    x = ft.Generator(0).normal((count,))

    def run() -> object:
        y = x
        for _ in range(10):
            y = (y * 0.5 + x).relu() - 0.25
        return y.numpy()

    return run


def once(count: int) -> Case:
    """200 operations on ``count`` elements in an order that never comes again."""
    x = ft.Generator(0).normal((count,))
    numbers = itertools.count(1)
    steps: Sequence[Callable[[ft.Tensor], ft.Tensor]] = (
        lambda y: y * 0.5,
        lambda y: y + x,
        lambda y: -y,
        lambda y: ft.maximum(y, x),
    )

    def run() -> object:
        y, choice = x, next(numbers) * 0x9E3779B97F4A7C15
        for i in range(200):
            y = steps[choice >> i % 60 & 3](y)
        return y.numpy()

    return run


def looked_at(count: int) -> Case:
    """20 operations on ``count`` elements, each result looked at before the next."""
    x = ft.Generator(0).normal((count,))

    def run() -> object:
        y = x
        for _ in range(20):
            y = y * 0.5 + x
            y[0].item()
        return y

    return run


def training(build: Callable[[], nn.Module], *shapes: tuple[int, ...]) -> Case:
    """A step of Adam on batches of images of these shapes, one after the other."""
    model, generator = build(), ft.Generator(0)
    found = [(generator.normal(s), generator.integers(0, 10, (s[0],))) for s in shapes]
    for images, classes in found:
        ft.eval(images, classes)
    batches = itertools.cycle(found)
    optimizer = nn.Adam(model.parameters(), lr=1e-3)

    def run() -> object:
        images, classes = next(batches)
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        return loss.item()

    return run


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.View((-1, 784)),
        nn.Linear(784, 128),
        nn.ReLU(),
        nn.Linear(128, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


CASES: dict[str, Callable[[], Case]] = {
    **{f"chain of 40, {n} elements": partial(chain, n) for n in (4, 256, 8192, 65536)},
    **{f"200 in a new order, {n}": partial(once, n) for n in (256, 8192, 65536)},
    **{f"looking at each of 20, {n}": partial(looked_at, n) for n in (256, 8192, 65536)},
    **{
        f"{name}, batch {n} of 28x28": partial(training, build, (n, 1, 28, 28))
        for name, build in (("perceptron", perceptron), ("cnn", cnn))
        for n in (32, 64)
    },
    "cnn, batch 32 of 8x8": partial(training, partial(cnn, (1, 8, 8)), (32, 1, 8, 8)),
    "perceptron, 300 new batches": partial(
        training, perceptron, *[(20 + n, 1, 28, 28) for n in range(300)]
    ),
}
#: How often a case is seen before it is timed, where that is not 3 times.
SEEN = {("perceptron, 300 new batches", "numpy"): 300}
TINY = ["40, 8192", "order, 256", "of 20, 256", "8x8"]


def main() -> None:
    given = options(__doc__)
    rows = []
    only = TINY if given.tiny else given.only
    for name, make in CASES.items():
        if only and not any(word in name for word in only):
            continue
        cases = {}
        for backend in BACKENDS:
            ft.seed(0)
            with ft.use(backend):
                cases[backend] = make()
                for _ in range(1 if given.tiny else SEEN.get((name, backend), 3)):
                    cases[backend]()
        ft.jit.wait()
        around = {backend: partial(ft.use, backend) for backend in BACKENDS}
        seconds = interleave(cases, given.rounds, given.moment, around)
        row: dict[str, object] = {"case": name}
        row |= {f"{backend}, us": 1e6 * seconds[backend] for backend in BACKENDS}
        rows.append({**row, "jit / numpy": seconds["jit"] / seconds["numpy"]})
    report(given, environment("numpy", "llvmlite", "fl-tensor"), rows)


if __name__ == "__main__":
    main()
