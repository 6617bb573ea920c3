"""Tokens a second of the heads of language models, beside PyTorch on as many threads.

No claim. A step is the loss of a batch of vectors and targets, and the gradients of the vectors and
of all parameters; the output has as many tokens as a vocabulary of words. Targets are drawn from a
log-uniform distribution, as words by falling frequency are. The sides take turns in one process.
"sampled" and "NCE" draw `--samples` tokens a step for all targets; "sparse" has gradients of the
rows that were used. PyTorch has a full softmax and AdaptiveLogSoftmaxWithLoss. Ratios are to its
full softmax, or to ours with `--tiny`.

    python benchmarks/softmax_losses.py [--tokens 50000] [--size 256] [--batch 640] [--samples 1024]
        [--threads 2] [--rounds 5] [--json FILE] [--markdown]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from _measure import environment, interleave, parsed, parser_of, report
from _peers import require

import fl_autograd as ag
import fl_tensor as ft
from fl_text.heads import AdaptiveSoftMax, FullSoftmax, NoiseContrastive, SampledSoftmax

Step = Callable[[], object]


def batch(given: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Vectors and targets."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(given.batch, given.size)).astype(np.float32)
    targets = np.floor((given.tokens + 1) ** rng.uniform(size=given.batch)).astype(np.int64) - 1
    return x, np.clip(targets, 0, given.tokens - 1)


def cutoffs(tokens: int) -> list[int]:
    """Clusters that end at 4 % and 20 % of the tokens."""
    return [max(1, tokens // 25), max(2, tokens // 5)]


def ours(head: Any, given: argparse.Namespace) -> Step:
    vectors, targets = batch(given)
    x, labels = ag.Variable(ft.asarray(vectors), requires_grad=True), ft.asarray(targets)

    def step() -> object:
        for p in (x, *head.parameters()):
            p.grad = None
        loss = head.loss(x, labels)
        loss.backward()
        gradients = [p.grad for p in (x, *head.parameters())]
        ft.eval(*(g.values if isinstance(g, ag.SparseGradient) else g for g in gradients))
        return loss.item()

    return step


def theirs(adaptive: bool, given: argparse.Namespace) -> Step:
    import torch

    torch.set_num_threads(given.threads)
    vectors, targets = batch(given)
    x, labels = torch.tensor(vectors, requires_grad=True), torch.tensor(targets)
    if adaptive:
        head = torch.nn.AdaptiveLogSoftmaxWithLoss(given.size, given.tokens, cutoffs(given.tokens))
    else:
        head = torch.nn.Linear(given.size, given.tokens)

    def step() -> object:
        for p in (x, *head.parameters()):
            p.grad = None
        if adaptive:
            loss = head(x, labels).loss
        else:
            loss = torch.nn.functional.cross_entropy(head(x), labels)
        loss.backward()
        return loss.item()

    return step


def sides(given: argparse.Namespace) -> dict[str, Step]:
    size, tokens, samples = given.size, given.tokens, given.samples
    heads = {
        "full": FullSoftmax(size, tokens),
        "adaptive": AdaptiveSoftMax(size, tokens, cutoffs(tokens)),
        "sampled": SampledSoftmax(size, tokens, samples, seed=0),
        "sampled, sparse": SampledSoftmax(size, tokens, samples, sparse=True, seed=0),
        "NCE": NoiseContrastive(size, tokens, samples, seed=0),
        "NCE, sparse": NoiseContrastive(size, tokens, samples, sparse=True, seed=0),
    }
    found = {name: ours(head, given) for name, head in heads.items()}
    if not given.tiny:
        found["PyTorch, full"] = theirs(False, given)
        found["PyTorch, adaptive"] = theirs(True, given)
    return found


def main() -> None:
    parser = parser_of(__doc__, rounds=5)
    parser.add_argument("--tokens", type=int, default=50_000, help="size of the vocabulary")
    parser.add_argument("--size", type=int, default=256, help="of vectors")
    parser.add_argument("--batch", type=int, default=640, help="targets a step")
    parser.add_argument("--samples", type=int, default=1024, help="drawn a step")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    given = parsed(parser)
    if given.tiny:
        given.tokens, given.size, given.batch, given.samples = 200, 16, 8, 20
    else:
        require(["torch"], "pip install torch, or --tiny")
    ft.set_num_threads(given.threads)
    times = interleave(sides(given), given.rounds, given.moment)
    full = times.get("PyTorch, full", times["full"])
    rows = [
        {
            "head": name,
            "ms a step": 1e3 * seconds,
            "tokens a second": round(given.batch / seconds),
            "times the full softmax": full / seconds,
        }
        for name, seconds in times.items()
    ]
    settings = {name: getattr(given, name) for name in ("tokens", "size", "batch", "samples")}
    about = {**environment("torch", "numpy", "fl-text"), **settings, "threads": given.threads}
    report(given, about, rows)


if __name__ == "__main__":
    main()
