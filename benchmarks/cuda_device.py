"""Operations and training steps on a CUDA device, beside PyTorch on the same device.

No claim. Steps of many small operations are bound by the time in which the host launches kernels.
Every call waits for the device. float32 is that of the contract: no TF32 on either side.

    python benchmarks/cuda_device.py [--rounds N] [--only matmul-4096 mlp] [--json FILE]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from _measure import environment, interleave, parsed, parser_of, report
from _peers import require

import fl_nn as nn
import fl_tensor as ft

Call = Callable[[], object]

LR, MOMENTUM = 0.01, 0.9
LARGE, SQUARE, STACK = (8192, 8192), (4096, 4096), (64, 512, 512)
#: Shapes of operands, and the function of a library and of these.
OPERATIONS: dict[str, tuple[list[tuple[int, ...]], Callable[..., object]]] = {
    "add-16": ([(4, 4), (4, 4)], lambda lib, x, y: x + y),
    "add-64M": ([LARGE, LARGE], lambda lib, x, y: x + y),
    "exp-64M": ([LARGE], lambda lib, x: lib.exp(x)),
    "sum-64M": ([LARGE], lambda lib, x: x.sum()),
    "sum-rows-64M": ([LARGE], lambda lib, x: x.sum(1)),
    "sum-columns-64M": ([LARGE], lambda lib, x: x.sum(0)),
    "softmax-64M": ([LARGE], lambda lib, x: lib.softmax(x, -1)),
    "matmul-4096": ([SQUARE, SQUARE], lambda lib, x, y: x @ y),
    "matmul-batch": ([STACK, STACK], lambda lib, x, y: x @ y),
}
#: Networks as functions of the layers of a library, and shapes of batches.
STEPS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "mlp": (
        lambda nn: nn.Sequential(
            nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
        ),
        (256, 784),
    ),
    "convolutions": (
        lambda nn: nn.Sequential(
            nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
            nn.Conv2d(64, 128, 3, stride=2), nn.ReLU(), nn.Conv2d(128, 128, 3), nn.ReLU(),
            nn.Flatten(), nn.Linear(128 * 11 * 11, 10),
        ),
        (64, 3, 32, 32),
    ),
}  # fmt: skip


class Ours:
    """Our layers by the names in ``STEPS``."""

    Linear, ReLU, Sequential, Flatten = nn.Linear, nn.ReLU, nn.Sequential, nn.Flatten
    Conv2d = nn.Conv2D


def shrunk(shape: tuple[int, ...], tiny: bool) -> tuple[int, ...]:
    return tuple(max(n // 64, 1) for n in shape) if tiny else shape


def our_operation(name: str, backend: Any, tiny: bool) -> Call:
    shapes, function = OPERATIONS[name]
    generator = ft.Generator(0)
    operands = [generator.normal(shrunk(shape, tiny), backend=backend) for shape in shapes]

    def call() -> None:
        function(ft, *operands)
        ft.synchronize(backend=backend)

    return call


def their_operation(name: str) -> Call:
    import torch

    shapes, function = OPERATIONS[name]
    operands = [torch.randn(shape, device="cuda") for shape in shapes]

    def call() -> None:
        function(torch, *operands)
        torch.cuda.synchronize()

    return call


def our_step(name: str, backend: Any, tiny: bool) -> Call:
    with ft.use(backend):
        make, shape = STEPS[name]
        model = make(Ours)
        optimizer = nn.SGD(model.parameters(), LR, momentum=MOMENTUM)
        shape = (2, *shape[1:]) if tiny else shape
        data = ft.Generator(1)
        x, y = data.normal(shape), data.integers(0, 10, shape[:1])

    def call() -> None:
        with ft.use(backend):
            optimizer.zero_grad()
            nn.cross_entropy(model(x), y).backward()
            optimizer.step()
            ft.synchronize()

    return call


def their_step(name: str) -> Call:
    import torch

    make, shape = STEPS[name]
    model = make(torch.nn).cuda()
    optimizer = torch.optim.SGD(model.parameters(), LR, momentum=MOMENTUM)
    x = torch.randn(shape, device="cuda")
    y = torch.arange(len(x), device="cuda") % 10

    def call() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        torch.cuda.synchronize()

    return call


def cases_of(name: str, backend: Any, tiny: bool) -> dict[str, Call]:
    ours, theirs = (
        (our_operation, their_operation) if name in OPERATIONS else (our_step, their_step)
    )
    cases = {"cupy": ours(name, backend, tiny)}
    return cases if tiny else {**cases, "torch": theirs(name)}


def main() -> None:
    parser = parser_of(__doc__, 15)
    parser.add_argument("--only", nargs="+", default=[], choices=(*OPERATIONS, *STEPS))
    given = parsed(parser)
    about = environment("numpy", "cupy-cuda13x", "torch", "fl-tensor", "fl-nn", "fl-cupy")
    if not given.tiny:
        require(["torch", "cupy"], "this takes both and a CUDA device, or --tiny")
        import torch

        torch.backends.cudnn.allow_tf32 = False
        about["device"] = torch.cuda.get_device_name()
    backend = ft.get_backend("numpy" if given.tiny else "cupy")
    rows = []
    for name in given.only or ((*OPERATIONS, "mlp") if given.tiny else (*OPERATIONS, *STEPS)):
        cases = cases_of(name, backend, given.tiny)
        for call in cases.values():
            for _ in range(1 if given.tiny else 5):  # kernels are compiled
                call()
        times = interleave(cases, 1 if given.tiny else given.rounds, 0.001 if given.tiny else 0.02)
        row: dict[str, Any] = {"case": name} | {f"{n} us": 1e6 * t for n, t in times.items()}
        if "torch" in times:
            row["torch / cupy"] = times["torch"] / times["cupy"]
        rows.append(row)
    report(given, about, rows)


if __name__ == "__main__":
    main()
