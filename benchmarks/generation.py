"""Greedy generation by GPT-2, beside transformers with its cache.

Claim: GPT-2 small (124 million parameters, float32) makes at least 1.5 times the tokens a second of
transformers, for one prompt and for a batch of 8, on two threads.

Prompts have 32 tokens, and 128 follow. The weights are random, and so wide that at least 50
different tokens come. Both sides read them from one file. Each library has a process of its own,
and they take turns. Tokens have to be equal up to the first step of transformers at which the best
two scores are within 1e-4.

    python benchmarks/generation.py [--rounds N] [--threads N] [--clock NAME] [--batches N ...]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from _measure import OneAtATime, Worker, environment, parsed, parser_of, report, serve, take_turns

#: Tokens, steps, size, heads, layers; by what initial weights are multiplied.
SIZES = {False: (50257, 1024, 768, 12, 12), True: (100, 64, 32, 4, 2)}
WIDER = 4.0
PROMPT, MORE = 32, {False: 128, True: 16}
BATCHES = (1, 8)
CLOSE = 1e-4


def prompts(batch: int, tokens: int) -> list[list[int]]:
    """Rows of tokens, without order."""
    return [
        [(7919 * (PROMPT * row + t) + 13) % tokens for t in range(PROMPT)] for row in range(batch)
    ]


def ours(tiny: bool) -> Any:
    """GPT-2 with the initial weights of this library, made wider."""
    import fl_tensor as ft
    from fl_text.models import GPT2

    ft.seed(0)
    model = GPT2(*SIZES[tiny]).eval()
    for name, parameter in model.named_parameters():
        if "norm" not in name:
            parameter.tensor = parameter.tensor * WIDER
    return model


def our_case(batch: int, path: Path, threads: int, tiny: bool) -> Callable[[], object]:
    import fl_nn as nn
    import fl_tensor as ft
    from fl_text.generation import CompiledNetwork, generate
    from fl_text.models import GPT2, GPT2_HUGGING_FACE

    ft.set_num_threads(threads)
    model = GPT2(*SIZES[tiny]).eval()
    nn.load_weights(path, model, rename=GPT2_HUGGING_FACE)
    network, rows = CompiledNetwork(model), prompts(batch, SIZES[tiny][0])
    return lambda: [one.tokens for one in generate(network, rows, max_new_tokens=MORE[tiny])]


def their_case(batch: int, path: Path, threads: int, tiny: bool) -> Callable[[], object]:
    import torch

    with suppress(RuntimeError):  # a torchvision whose compiled half does not load beside PyTorch
        for name in ("nms", "qnms"):
            schema = "(Tensor boxes, Tensor scores, float threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", schema)
    import transformers
    from safetensors.torch import load_file

    torch.set_num_threads(threads)
    tokens, steps, size, heads, layers = SIZES[tiny]
    config = transformers.GPT2Config(
        vocab_size=tokens, n_positions=steps, n_embd=size, n_layer=layers, n_head=heads,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).eval()
    model.load_state_dict(load_file(path), strict=False)
    model.tie_weights()
    rows = torch.tensor(prompts(batch, tokens))
    settings = transformers.GenerationConfig(
        do_sample=False, max_new_tokens=MORE[tiny], pad_token_id=0, use_cache=True,
        return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip

    def run() -> object:
        """The tokens of each row, and how many come before the first close call."""
        found = model.generate(
            rows, attention_mask=torch.ones_like(rows), generation_config=settings
        )
        best = torch.stack([scores.topk(2).values for scores in found.scores], 1)
        close = (best[..., 0] - best[..., 1] < CLOSE).int().tolist()
        until = [(row + [1]).index(1) for row in close]
        return [found.sequences[:, PROMPT:].tolist(), until]

    return run


def main() -> None:
    parser = parser_of(__doc__, 5)
    parser.add_argument("--serve", metavar="LIBRARY", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--clock", default="perf_counter", help="process_time: processor time, on a busy machine"
    )
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    given = parsed(parser)
    cases = {"fl-text": our_case, "transformers": their_case}
    if given.serve:
        make, threads = cases[given.serve], int(os.environ["OMP_NUM_THREADS"])
        serve(
            OneAtATime(lambda case: make(int(case), given.file, threads, given.tiny)),
            getattr(time, given.clock),
        )
        return
    import fl_nn as nn
    from fl_text.models import GPT2_HUGGING_FACE

    libraries = ("fl-text",) if given.tiny else tuple(cases)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gpt2.safetensors"
        nn.save_weights(path, ours(given.tiny), rename=GPT2_HUGGING_FACE)
        for batch in given.batches:
            arguments = ["--file", str(path), "--clock", given.clock]
            with ExitStack() as stack:
                workers = {
                    one: stack.enter_context(
                        Worker(one, given.threads, tiny=given.tiny, arguments=arguments)
                    )
                    for one in libraries
                }
                times = take_turns(workers, str(batch), given.rounds, given.moment)
                tokens = workers["fl-text"].value(str(batch))
                row: dict[str, Any] = {"batch": batch}
                count = batch * MORE[given.tiny]
                row |= {f"{one}, tokens/s": count / times[one] for one in libraries}
                if not given.tiny:
                    row["fl-text / transformers"] = times["transformers"] / times["fl-text"]
                    theirs, until = workers["transformers"].value(str(batch))
                    for mine, wanted, end in zip(tokens, theirs, until, strict=True):
                        if mine[:end] != wanted[:end]:
                            sys.exit(f"batch {batch}: other tokens before step {end}")
                    row["tokens compared"] = sum(until)
                row["different tokens"] = len({token for each in tokens for token in each})
            rows.append(row)
    report(given, environment("fl-text", "transformers", "torch"), rows)


if __name__ == "__main__":
    main()
