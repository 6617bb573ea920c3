"""Training steps of an LSTM language model beside PyTorch: two layers of 200 units, 20 rows of 20
words, a vocabulary of 10,000, as in the recipe `ptb-lstm`.

Claim: a compiled step on `jit` takes at most the time of PyTorch's eager step. `torch.compile`,
which compiles the loss with its gradients, has no claim.

A step is forward, backward, clipping of the gradients' norm at 0.25, and SGD. Rows begin with an
empty state. Each library runs in a process of its own, and they take turns.

    python benchmarks/language_model_steps.py [--rounds 15] [--only torch] [--json FILE]
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from _measure import OneAtATime, Worker, environment, options, report, serve, take_turns

THREADS = 2
WAYS = ("jit, compiled", "jit", "torch", "torch.compile")
SIZES = {"tokens": 10_000, "size": 200, "rows": 20, "steps": 20}
TINY = {"tokens": 50, "size": 8, "rows": 2, "steps": 3}
CASE, LR, CLIP, WARM = "ptb-lstm", 1.0, 0.25, 5


def our_step(compiled: bool, tokens: int, size: int, rows: int, steps: int) -> Callable[[], object]:
    import fl_nn as nn
    import fl_tensor as ft
    from fl_text.models import LSTMLanguageModel

    ft.set_num_threads(THREADS)
    ft.use("jit")
    ft.seed(0)
    model = LSTMLanguageModel(tokens, size, layers=2, dropout=0.0)
    optimizer = nn.SGD(model.parameters(), LR)
    x, y = (ft.Generator(n).integers(0, tokens, (rows, steps)) for n in (1, 2))

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = model.head.loss(model.hidden(x), y)
        loss.backward()
        nn.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return loss

    call = nn.compile(step, model, optimizer, strict=True) if compiled else step
    return lambda: ft.eval(call(x, y))


def their_step(
    compiled: bool, tokens: int, size: int, rows: int, steps: int
) -> Callable[[], object]:
    import torch
    from torch import nn

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)

    class Model(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(tokens, size)
            self.lstm = nn.LSTM(size, size, 2, batch_first=True)
            self.head = nn.Linear(size, tokens)

        def forward(self, x: Any, y: Any) -> Any:
            scores = self.head(self.lstm(self.embedding(x))[0])
            return nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten())

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), LR)
    x, y = (torch.randint(0, tokens, (rows, steps)) for _ in range(2))
    forward = torch.compile(model) if compiled else model

    def run() -> object:
        optimizer.zero_grad()
        loss = forward(x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return loss.detach()

    return run


def step_of(way: str, tiny: bool) -> Callable[[], object]:
    """A step that has run before."""
    make, compiled = (their_step if way.startswith("torch") else our_step), "compile" in way
    step = make(compiled, **(TINY if tiny else SIZES))
    for _ in range(WARM):
        step()
    return step


def main() -> None:
    given = options(__doc__)
    if given.serve:
        serve(OneAtATime(lambda case: step_of(given.serve, given.tiny)))
        return
    ways = WAYS[:2] if given.tiny else WAYS
    ways = tuple(way for way in ways if way == WAYS[0] or not given.only or way in given.only)
    with ExitStack() as stack:
        workers = {way: stack.enter_context(Worker(way, THREADS, tiny=given.tiny)) for way in ways}
        seconds = take_turns(workers, CASE, given.rounds, given.moment)
    row: dict[str, Any] = {"step": CASE}
    row |= {f"{way}, ms": 1e3 * seconds[way] for way in ways}
    row |= {f"{way} / compiled": seconds[way] / seconds[WAYS[0]] for way in ways[1:]}
    about = environment("llvmlite", "torch", "fl-nn", "fl-text", "fl-jit")
    report(given, {**about, "threads": THREADS, "rounds": given.rounds}, [row])


if __name__ == "__main__":
    main()
