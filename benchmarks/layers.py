"""One training step of a layer, forward and all gradients, against PyTorch eager with one thread.

For orientation; no claim. Each library runs in a process of its own, and the two take turns.

    python benchmarks/layers.py [--rounds 15] [--only LSTM GRU] [--json FILE]
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from _measure import Worker, environment, options, report, serve, take_turns

LIBRARIES = ("fl-nn", "torch")
SEQUENCE, IMAGE, STEPS = (50, 16, 128), (8, 32, 32, 32), (8, 128, 256)

#: Case -> the layer in PyTorch and here, their settings, the shape of what goes in.
LAYERS: dict[str, tuple[str, str, tuple[int, ...], tuple[int, ...]]] = {
    "RNN": ("RNN", "RNN", (128, 128), SEQUENCE),
    "LSTM": ("LSTM", "LSTM", (128, 128), SEQUENCE),
    "GRU": ("GRU", "GRU", (128, 128), SEQUENCE),
    "MultiHeadAttention": ("MultiheadAttention", "MultiHeadAttention", (256, 8), STEPS),
    "Conv2D": ("Conv2d", "Conv2D", (32, 32, 3), IMAGE),
    "ConvTranspose2D": ("ConvTranspose2d", "ConvTranspose2D", (32, 16, 4, 2, 1), (8, 32, 16, 16)),
    "GroupNorm": ("GroupNorm", "GroupNorm", (8, 32), IMAGE),
    "LayerNorm": ("LayerNorm", "LayerNorm", (256,), STEPS),
    "BatchNorm2D": ("BatchNorm2d", "BatchNorm", (32,), IMAGE),
    "Embedding": ("Embedding", "Embedding", (10000, 128), (32, 64)),
}


def torch_steps() -> dict[str, Callable[[], object]]:
    import torch

    torch.set_num_threads(1)

    def step_of(name: str, args: tuple[int, ...], shape: tuple[int, ...]) -> Callable[[], object]:
        torch.manual_seed(0)
        extra = {"batch_first": True} if name == "MultiheadAttention" else {}
        layer = getattr(torch.nn, name)(*args, **extra)
        x = torch.randn(shape, requires_grad=True)
        if name == "Embedding":
            x = torch.randint(args[0], shape)

        def forward() -> Any:
            if name == "MultiheadAttention":
                return layer(x, x, x, need_weights=False)[0]
            y = layer(x)
            return y[0] if isinstance(y, tuple) else y

        g = torch.randn_like(forward())

        def step() -> None:
            layer.zero_grad()
            x.grad = None
            forward().backward(g)

        return step

    return {case: step_of(name, *rest) for case, (name, _, *rest) in LAYERS.items()}


def our_steps() -> dict[str, Callable[[], object]]:
    import fl_autograd as ag
    import fl_nn as nn
    import fl_tensor as ft

    def step_of(name: str, args: tuple[int, ...], shape: tuple[int, ...]) -> Callable[[], object]:
        draws = ft.Generator(0)
        layer = getattr(nn, name)(*args)
        x = ag.Variable(draws.normal(shape), requires_grad=True)
        if name == "Embedding":
            x = ag.Variable(draws.integers(0, args[0], shape))

        def forward() -> Any:
            y = layer(x)
            return y[0] if isinstance(y, tuple) else y

        g = draws.normal(forward().shape)

        def step() -> None:
            layer.zero_grad()
            x.zero_grad()
            forward().backward(g)

        return step

    return {case: step_of(name, *rest) for case, (_, name, *rest) in LAYERS.items()}


def main() -> None:
    given = options(__doc__)
    if given.serve:
        serve({"torch": torch_steps, "fl-nn": our_steps}[given.serve]())
        return
    rows = []
    libraries = LIBRARIES[:1] if given.tiny else LIBRARIES
    with ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(name)) for name in libraries}
        for case in given.only or LAYERS:
            seconds = take_turns(workers, case, given.rounds, given.moment)
            row = {"layer": case} | {f"{name}, ms": 1e3 * seconds[name] for name in workers}
            row |= {f"ours / {peer}": seconds["fl-nn"] / seconds[peer] for peer in libraries[1:]}
            rows.append(row)
    report(given, {**environment("numpy", *LIBRARIES), "rounds": given.rounds}, rows)


if __name__ == "__main__":
    main()
