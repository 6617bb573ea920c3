"""``fl-text bench``: how fast a language model learns and generates."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_memory.subcommands import at_least
from fl_nn.extend import runtime, runtime_options
from fl_text.errors import TextError
from fl_text.generation import CompiledNetwork, generate
from fl_text.models import GCNN, GPT2, Llama, LSTMLanguageModel, TransformerLanguageModel

#: Networks of a number of tokens. "flashlight" is the benchmark of the original.
PRESETS: dict[str, tuple[int, Callable[[int], Any]]] = {
    "flashlight": (150_000, TransformerLanguageModel.large),
    "transformer-small": (10_000, lambda n: TransformerLanguageModel.small(n, cutoffs=None)),
    "char-transformer": (
        100,
        lambda n: TransformerLanguageModel(
            n, size=256, heads=4, layers=4, activation="gelu", norm_first=True, dropout=0.1
        ),
    ),
    "lstm": (10_000, LSTMLanguageModel),
    "gcnn": (10_000, lambda n: GCNN(n, 256, [[(256, 4)]] * 6)),
    "gpt2": (50_257, GPT2),
    "gpt2-tiny": (1000, lambda n: GPT2(n, 2048, 128, 4, 4)),
    "llama-100m": (
        32_000,
        lambda n: Llama(n, 2048, 768, 12, 12, hidden=2048, tied=True),
    ),
}
PHASES = ("batch", "forward", "loss", "backward", "optimisation")


def main(arguments: list[str]) -> int:
    """Print times of training steps by phase, and tokens a second."""
    parser = argparse.ArgumentParser(
        prog="fl-text bench",
        description="Times of training steps on random tokens by phase, with SGD of learning rate "
        "0.1, momentum 0.9 and weight decay 0.1 as the benchmark of Flashlight has it; and of "
        "greedy generation.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--network", default="flashlight", choices=PRESETS, help="(%(default)s)")
    add("--vocabulary", type=at_least(2), metavar="N", help="tokens; default: of the network")
    add("--tokens", type=at_least(1), default=2048, metavar="N", help="of a row (%(default)s)")
    add("--batch", type=at_least(1), default=1, metavar="N", help="rows (%(default)s)")
    add("--warm-up", type=at_least(0), default=50, metavar="N", help="updates (%(default)s)")
    add("--updates", type=at_least(1), default=100, metavar="N", help="timed (%(default)s)")
    add("--generate", type=at_least(0), default=0, metavar="N", help="new tokens (%(default)s)")
    add("--prompt-tokens", type=at_least(1), default=32, metavar="N", help="(%(default)s)")
    add("--amp", action="store_true", help="mixed precision, in bfloat16")
    add("--seed", type=at_least(0), default=0, metavar="N", help="(%(default)s)")
    add("--json", action="store_true", help="as one JSON object")
    runtime_options(parser)
    given = parser.parse_args(arguments)
    with runtime(given):
        ft.seed(given.seed)
        count, make = PRESETS[given.network]
        count = given.vocabulary or count
        network = make(count)
        most = getattr(network, "steps", None) or math.inf
        if max(given.tokens, given.prompt_tokens + given.generate) > most:
            raise TextError(
                f"{given.network} takes {most} tokens: lower --tokens, or --prompt-tokens and "
                "--generate"
            )
        parameters = sum(parameter.size for parameter in network.parameters())
        found: dict[str, Any] = {"network": given.network, "parameters": parameters}
        found |= training_times(network, count, given)
        if given.generate:
            found |= generation_times(network, count, given)
    if given.json:
        print(json.dumps(found))
        return 0
    for name, value in found.items():
        print(f"{name}: {value:,.2f}" if isinstance(value, float) else f"{name}: {value}")
    return 0


def training_times(network: Any, count: int, given: argparse.Namespace) -> dict[str, float]:
    """Mean milliseconds of each phase of an update, and tokens a second."""
    optimizer = nn.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    sums, last = dict.fromkeys(PHASES, 0.0), 0.0
    for update in range(given.warm_up + given.updates):
        if update == given.warm_up:
            sums = dict.fromkeys(PHASES, 0.0)
        clock = _Clock(sums)
        rows = ft.random.integers(0, count, (given.batch, given.tokens + 1))
        tokens, targets = rows[:, :-1], rows[:, 1:]
        clock.end("batch", tokens)
        with ag.autocast("O1") if given.amp else nullcontext():
            vectors = network.hidden(tokens)
            clock.end("forward", vectors)
            loss = network.head.loss(vectors, targets)
            clock.end("loss", loss)
        loss.backward()
        clock.end("backward", *(p.grad for p in optimizer.parameters if p.grad is not None))
        optimizer.step()
        optimizer.zero_grad()
        clock.end("optimisation", *(p.tensor for p in optimizer.parameters))
        last = float(loss.item())
    means = {f"{name}, ms": 1e3 * seconds / given.updates for name, seconds in sums.items()}
    total = sum(sums.values())
    means["update, ms"] = 1e3 * total / given.updates
    means["tokens a second"] = given.updates * given.batch * given.tokens / total
    means["last loss"] = last
    return means


def generation_times(network: Any, count: int, given: argparse.Namespace) -> dict[str, float]:
    """Tokens a second of greedy generation, the prompt included, of the second of two calls."""
    network.eval()
    run = CompiledNetwork(network)
    prompts = ft.random.integers(0, count, (given.batch, given.prompt_tokens))
    for _ in range(2):
        start = time.perf_counter()
        generate(run, prompts, max_new_tokens=given.generate)
        seconds = time.perf_counter() - start
    return {"generated tokens a second": given.batch * given.generate / seconds}


class _Clock:
    """Adds the time since the last phase to that of a phase, once its arrays have values."""

    def __init__(self, sums: dict[str, float]) -> None:
        self.sums, self.start = sums, time.perf_counter()

    def end(self, phase: str, *arrays: Any) -> None:
        ft.eval(*(getattr(array, "tensor", array) for array in arrays))
        now = time.perf_counter()
        self.sums[phase] += now - self.start
        self.start = now
