"""Synthetic traces: workloads that are hard for a kind of manager. Equal seeds, equal traces.

Each generator returns a ``Trace`` whose facts name the generator and its arguments.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from fl_memory.errors import TraceError
from fl_memory.traces.trace import Trace

__all__ = ["GENERATORS", "buddy_adversary", "phases", "power_law", "random_lengths"]

KIB, MIB = 1 << 10, 1 << 20


class _Program:
    """A program that allocates and frees, and the trace of it. Each event takes 1 microsecond."""

    def __init__(self, generator: str, **arguments: Any) -> None:
        for name, value in arguments.items():
            if name != "seed" and value <= 0:
                raise TraceError(f"[{generator}] {name}={value}: expected a number above 0")
        self.trace = Trace(facts={"generator": generator, "device": "cpu", **arguments})
        self._blocks = 0
        self._step = 0

    def alloc(self, nbytes: int, operation: str = "", phase: str = "") -> int:
        block = self._blocks
        self._blocks += 1
        self._append(
            "alloc",
            block=block,
            nbytes=nbytes,
            capacity=nbytes,
            alignment=64,
            operation=operation,
            phase=phase,
        )
        return block

    def free(self, block: int) -> None:
        self._append("free", block=block)

    def step(self) -> None:
        self._step += 1
        self._append("mark", tag="step", nbytes=self._step)

    def _append(self, kind: str, **cells: int | str) -> None:
        self.trace.append(kind, ns=1000 * len(self.trace), step=self._step, **cells)


def power_law(
    blocks: int = 10_000,
    live: int = 200,
    exponent: float = 0.5,
    smallest: int = 4 * KIB,
    largest: int = 64 * MIB,
    seed: int = 0,
) -> Trace:
    """Sizes of a bounded Pareto distribution, freed in random order.

    The probability of a size above ``n`` falls as ``n ** -exponent`` between ``smallest`` and
    ``largest`` bytes. About ``live`` blocks are live at a time; ``blocks`` are allocated in all.
    """
    if largest < smallest:
        raise TraceError(f"[power_law] largest={largest} is below smallest={smallest}")
    program = _Program(
        "power_law",
        blocks=blocks,
        live=live,
        exponent=exponent,
        smallest=smallest,
        largest=largest,
        seed=seed,
    )
    draw = random.Random(seed)
    ratio = (smallest / largest) ** exponent
    held: list[int] = []
    for _ in range(blocks):
        # The inverse of the distribution function.
        size = smallest * (1 - draw.random() * (1 - ratio)) ** (-1 / exponent)
        held.append(program.alloc(min(int(size), largest)))
        if len(held) > live or draw.random() < len(held) / (2 * live):
            place = draw.randrange(len(held))
            held[place], held[-1] = held[-1], held[place]
            program.free(held.pop())
    for block in held:
        program.free(block)
    return program.trace


def phases(
    count: int = 8, blocks: int = 400, kept: float = 0.1, largest: int = 32 * MIB, seed: int = 0
) -> Trace:
    """``count`` phases, each with a few sizes of its own.

    A phase allocates ``blocks`` blocks of 4 sizes and frees them in random order, but for a share
    ``kept``, which lives until the end of the next phase and so lies between its blocks. Each phase
    is one step.
    """
    if kept > 1:
        raise TraceError(f"[phases] kept={kept}: expected a share of at most 1")
    program = _Program("phases", count=count, blocks=blocks, kept=kept, largest=largest, seed=seed)
    draw = random.Random(seed)
    survivors: list[int] = []
    for phase in range(count):
        program.step()
        sizes = [draw.randint(1, largest) for _ in range(4)]
        made = [program.alloc(draw.choice(sizes), phase=f"phase {phase}") for _ in range(blocks)]
        draw.shuffle(made)
        cut = int(kept * blocks)
        for block in (*made[cut:], *survivors):
            program.free(block)
        survivors = made[:cut]
    for block in survivors:
        program.free(block)
    return program.trace


def random_lengths(
    steps: int = 24,
    layers: int = 8,
    width: int = 256,
    batch: int = 8,
    shortest: int = 16,
    longest: int = 512,
    seed: int = 0,
) -> Trace:
    """Training steps of an attention network on sequences of random length, in float32.

    The forward pass keeps, for each layer, activations of ``batch x length x width`` and weights of
    attention of ``batch x length x length``; the backward pass frees them in reverse, and makes a
    gradient of each. Parameters, and their gradients from step to step, have fixed sizes.
    """
    if longest < shortest:
        raise TraceError(f"[random_lengths] longest={longest} is below shortest={shortest}")
    program = _Program(
        "random_lengths",
        steps=steps,
        layers=layers,
        width=width,
        batch=batch,
        shortest=shortest,
        longest=longest,
        seed=seed,
    )
    draw = random.Random(seed)
    weight = 4 * 4 * width * width
    parameters = [program.alloc(weight, "parameters") for _ in range(layers)]
    gradients: list[int] = []
    for _ in range(steps):
        program.step()
        for block in gradients:
            program.free(block)
        length = draw.randint(shortest, longest)
        hidden, attention = 4 * batch * length * width, 4 * batch * length * length
        saved = []
        for _ in range(layers):
            saved.append(program.alloc(attention, "softmax", "forward"))
            scratch = program.alloc(2 * hidden, "matmul", "forward")
            saved.append(program.alloc(hidden, "gelu", "forward"))
            program.free(scratch)
        gradient = program.alloc(hidden, "loss", "backward")
        gradients = []
        for layer in reversed(range(layers)):
            gradients.append(program.alloc(weight, "matmul", "backward"))
            of_attention = program.alloc(attention, "softmax", "backward")
            earlier = program.alloc(hidden, "matmul", "backward")
            for block in (of_attention, gradient, saved[2 * layer + 1], saved[2 * layer]):
                program.free(block)
            gradient = earlier
        program.free(gradient)
    for block in (*gradients, *parameters):
        program.free(block)
    return program.trace


def buddy_adversary(orders: int = 12, smallest: int = 4 * KIB, seed: int = 0) -> Trace:
    """What a buddy system serves worst.

    Every request is one byte above a power of two, so that nearly half of each block is lost. At
    each of ``orders`` sizes, the first of which is ``smallest``, blocks are allocated and every
    second one is freed: no buddies merge, and the next size, twice as large, finds no room. The
    bound of this scheme is J. M. Robson, "Worst case fragmentation of first fit and best fit
    storage allocation strategies", 1977.
    """
    program = _Program("buddy_adversary", orders=orders, smallest=smallest, seed=seed)
    draw = random.Random(seed)
    kept: list[int] = []
    for order in range(orders):
        program.step()
        count = 1 << max(orders - order, 1)
        made = [program.alloc((smallest << order) + 1) for _ in range(count)]
        freed = made[draw.randrange(2) :: 2]
        for block in freed:
            program.free(block)
        kept += [block for block in made if block not in freed]
    for block in kept:
        program.free(block)
    return program.trace


#: The generators by name.
GENERATORS: dict[str, Callable[..., Trace]] = {
    "buddy-adversary": buddy_adversary,
    "phases": phases,
    "power-law": power_law,
    "random-lengths": random_lengths,
}
