"""Weights of 8 bits at batch 1: products of a vector with a matrix, and a token of a Llama of 110
million parameters.

Claim: a token takes at most 1 / 1.5 of the time with float32 weights on the better one of our two
backends. Products outside of graphs are stated.

Each way runs in a process of its own, and they take turns. Products go through enough matrices that
none stays in a cache. Steps continue a text of 32 to 63 tokens.

    python benchmarks/int8_weights.py [--rounds 15] [--only product-4096x1024] [--json FILE]
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from _measure import OneAtATime, Worker, environment, options, report, serve, take_turns

THREADS = 2
PRODUCTS = ((4096, 1024), (1024, 4096), (32000, 1024))
LLAMA = dict(tokens=32000, steps=1024, size=768, heads=12, layers=12, hidden=2048, tied=True)
TINY = dict(tokens=100, steps=64, size=16, heads=2, layers=1, hidden=32, tied=True)
#: Bytes that no cache holds.
UNCACHED = 64 << 20
#: Matrices of a case, however small.
MOST = 20
WAYS = ("int8", "float32, jit", "float32, numpy", "torch")


def product(way: str, outputs: int, inputs: int) -> Callable[[], object]:
    """The next of many products of a matrix (outputs, inputs) with a vector."""
    copies = min(UNCACHED // (outputs * inputs * (1 if way == "int8" else 4)) + 2, MOST)
    if way == "torch":
        import torch

        torch.set_num_threads(THREADS)
        theirs = itertools.cycle([torch.nn.Linear(inputs, outputs, False) for _ in range(copies)])
        vector = torch.rand(1, inputs)

        def run() -> object:
            with torch.inference_mode():
                return next(theirs)(vector)

        return run
    import fl_autograd as ag
    import fl_nn as nn
    import fl_tensor as ft
    from fl_nn.quantization import Int8Linear

    kind: Any = Int8Linear if way == "int8" else nn.Linear
    layers = itertools.cycle([kind(inputs, outputs, False).eval() for _ in range(copies)])
    x = ft.Generator(0).normal((1, inputs))

    def call() -> object:
        with ag.no_grad():
            return ft.eval(next(layers)(x))

    return call


def step(way: str, sizes: dict[str, Any]) -> Callable[[], object]:
    """One more token of a text, after 32 or more, by the graph of generation."""
    import fl_tensor as ft
    from fl_nn.quantization import quantize_weights
    from fl_text.generation import CompiledNetwork
    from fl_text.models import Llama

    model = Llama(**sizes).eval()
    if way == "int8":
        quantize_weights(model)
    run = CompiledNetwork(model)
    prompt = ft.Generator(0).integers(0, sizes["tokens"], (32,)).tolist()
    states = itertools.chain.from_iterable(
        itertools.repeat(run.start([prompt], 64), 32) for _ in itertools.count()
    )

    def call() -> object:
        return ft.eval(next(states).step([7]))

    return call


def case_of(way: str, case: str, tiny: bool) -> Callable[[], object]:
    """What a process times."""
    import fl_tensor as ft

    ft.set_num_threads(THREADS)
    with ft.use(way.rpartition(" ")[2] if way.startswith("float32") else "jit"):
        if case == "llama-token":
            return step(way, TINY if tiny else LLAMA)
        outputs, inputs = map(int, case.removeprefix("product-").split("x"))
        return product(way, outputs, inputs)


def main() -> None:
    given = options(__doc__)
    if given.serve:
        serve(OneAtATime(lambda case: case_of(given.serve, case, given.tiny)))
        return
    shapes = ((16, 24),) if given.tiny else PRODUCTS
    cases = [f"product-{outputs}x{inputs}" for outputs, inputs in shapes] + ["llama-token"]
    rows = []
    with ExitStack() as stack:
        ways = WAYS[:3] if given.tiny else WAYS
        workers = {way: stack.enter_context(Worker(way, THREADS, tiny=given.tiny)) for way in ways}
        for case in given.only or cases:
            known = {
                w: worker
                for w, worker in workers.items()
                if w != "torch" or case.startswith("product")
            }
            seconds = take_turns(known, case, given.rounds, given.moment)
            row: dict[str, Any] = {"case": case}
            row |= {f"{way}, ms": 1e3 * seconds[way] for way in known}
            row |= {
                f"{way} / int8": seconds[way] / seconds["int8"] for way in known if way != "int8"
            }
            rows.append(row)
    about = environment("llvmlite", "torch", "fl-nn")
    report(given, {**about, "threads": THREADS, "rounds": given.rounds}, rows)


if __name__ == "__main__":
    main()
