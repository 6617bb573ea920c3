"""Training steps of speech recognisers, beside the same network and loss in PyTorch.

Claim: steps with CTC and with ASG are not slower than PyTorch's. For `seq2seq` the ratio is stated.

The network is that of the recipe `spoken-digits-ctc`: 40 mel features, a convolution of stride 2,
and four residual blocks of 128 channels with batch normalisation, dropout 0.2 and dilations 1 and
2. A batch has 32 recordings of 64 frames with 5 letters of 17 classes, some of them shorter, and
frames behind their ends are masked. A step is forward, backward, a bound of 5 on the norm of
gradients, and AdamW. `seq2seq` attends to the network's output with a GRU of 128 features.
PyTorch's CTC is its own function; its ASG is a loop over frames, a batch at once.

Each library runs in a process of its own, and they take turns. Times are medians over rounds.

    python benchmarks/speech_steps.py [--rounds N] [--only ctc asg] [--threads N] [--json FILE]
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
from _measure import OneAtATime, Worker, environment, parsed, parser_of, report, serve, take_turns
from _peers import require

CASES = ("ctc", "asg", "seq2seq")
LR, DECAY, CLIP = 3e-3, 0.01, 5.0
FEATURES, CHANNELS, BLOCKS, KERNEL, DILATION, DROPOUT = 40, 128, 4, 5, 2, 0.2
CLASSES, EOS = 17, 16
WARM = 5


def batch(tiny: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (B, T, F), lengths (B,) and targets (B, L)."""
    samples, frames, labels = (4, 16, 3) if tiny else (32, 64, 5)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(samples, frames, FEATURES)).astype(np.float32)
    lengths = rng.integers(frames // 2, frames + 1, samples)
    # No label twice in a row, which ASG would need other labels for.
    steps = rng.integers(1, EOS - 1, (samples, labels))
    return x, lengths, np.cumsum(steps, 1) % EOS


def our_step(case: str, tiny: bool) -> Callable[[], object]:
    import fl_nn as nn
    import fl_tensor as ft
    from fl_speech.criteria import ASG, CTC, Seq2Seq
    from fl_speech.encoder import ConvResidual

    ft.seed(0)
    outputs = CHANNELS if case == "seq2seq" else CLASSES
    encoder = ConvResidual(
        FEATURES, outputs, CHANNELS, BLOCKS, KERNEL, 2, DROPOUT, dilation=DILATION
    )
    criterion: Any = {
        "ctc": CTC,
        "asg": partial(ASG, CLASSES),
        "seq2seq": partial(Seq2Seq, CLASSES, CHANNELS, EOS),
    }[case]()
    parameters = [*encoder.parameters(), *criterion.parameters()]
    optimizer = nn.AdamW(parameters, LR, weight_decay=DECAY)
    x, lengths, targets = (ft.asarray(each) for each in batch(tiny))

    def step() -> Any:
        optimizer.zero_grad()
        loss = criterion(encoder(x, lengths), targets)
        loss.backward()
        nn.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        return loss.item()

    return step


def their_step(case: str, tiny: bool) -> Callable[[], object]:
    import torch
    from torch import nn

    torch.manual_seed(0)

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, dilation: int) -> None:
            super().__init__()
            padding = dilation * (KERNEL // 2)
            self.conv = nn.Conv1d(CHANNELS, CHANNELS, KERNEL, padding=padding, dilation=dilation)
            self.norm, self.dropout = nn.BatchNorm1d(CHANNELS), nn.Dropout(DROPOUT)

        def forward(self, x: Any) -> Any:
            return x + self.dropout(torch.relu(self.norm(self.conv(x))))

    class Encoder(nn.Module):  # type: ignore[misc]
        def __init__(self, outputs: int) -> None:
            super().__init__()
            self.first = nn.Conv1d(FEATURES, CHANNELS, KERNEL, 2, KERNEL // 2)
            self.norm = nn.BatchNorm1d(CHANNELS)
            self.blocks = nn.ModuleList(Block(DILATION if i % 2 else 1) for i in range(BLOCKS))
            self.last = nn.Linear(CHANNELS, outputs)

        def forward(self, x: Any, lengths: Any) -> tuple[Any, Any]:
            x = self.first(x.transpose(1, 2))
            lengths = (lengths + 1) // 2
            mask = (torch.arange(x.shape[2])[None] < lengths[:, None])[:, None].to(x.dtype)
            x = torch.relu(self.norm(x)) * mask
            for block in self.blocks:
                x = block(x) * mask
            return self.last(x.transpose(1, 2)), lengths

    outputs = CHANNELS if case == "seq2seq" else CLASSES
    encoder = Encoder(outputs)
    x, lengths, targets = (torch.tensor(each) for each in batch(tiny))
    extra, loss_of = their_criterion(case, targets)
    parameters = [*encoder.parameters(), *extra]
    optimizer = torch.optim.AdamW(parameters, LR, weight_decay=DECAY)

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of(*encoder(x, lengths))
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        return loss.item()

    return step


def their_criterion(case: str, targets: Any) -> tuple[list[Any], Callable[[Any, Any], Any]]:
    """Parameters of a criterion, and the mean loss of emissions (B, T, N) and lengths (B,)."""
    import torch
    from torch import nn

    count = torch.full((len(targets),), targets.shape[1])
    if case == "ctc":

        def ctc(x: Any, lengths: Any) -> Any:
            scores = x.log_softmax(2).transpose(0, 1)
            losses = nn.functional.ctc_loss(
                scores, targets, lengths, count, blank=CLASSES - 1, reduction="none"
            )
            return losses.mean()

        return [], ctc
    if case == "asg":
        transitions = torch.zeros(CLASSES, CLASSES, requires_grad=True)
        return [transitions], partial(their_asg, targets, transitions)
    embedding, out = nn.Embedding(CLASSES, CHANNELS), nn.Linear(CHANNELS, CLASSES)
    start = nn.Parameter(torch.zeros(CHANNELS))
    gru = nn.GRU(CHANNELS, CHANNELS, batch_first=True)
    expected = torch.cat([targets, torch.full((len(targets), 1), EOS)], 1)

    def attention(x: Any, lengths: Any) -> Any:
        seen = torch.cat([start.expand(len(x), 1, -1), embedding(targets)], 1)
        y, _ = gru(seen)
        mask = torch.arange(x.shape[1])[None] < lengths[:, None]
        scores = torch.where(mask[:, None], y @ x.transpose(1, 2) / math.sqrt(CHANNELS), -math.inf)
        y = y + torch.softmax(scores, -1) @ x
        found = nn.functional.cross_entropy(
            out(y).flatten(0, 1), expected.flatten(), reduction="sum"
        )
        return found / len(x)

    parameters = [*embedding.parameters(), *out.parameters(), *gru.parameters(), start]
    return parameters, attention


def their_asg(targets: Any, transitions: Any, x: Any, lengths: Any) -> Any:
    """All paths less the right ones; a recording that has ended keeps its scores."""
    import torch

    samples, frames, _ = x.shape
    every = x[:, 0]
    picked = x.gather(2, targets[:, None].expand(-1, frames, -1))
    stay = transitions[targets, targets]
    move = transitions[targets[:, 1:], targets[:, :-1]]
    low = torch.full((samples, 1), -1e30, dtype=x.dtype)
    one = torch.cat([picked[:, 0, :1], low.expand(-1, targets.shape[1] - 1)], 1)
    for t in range(1, frames):
        goes_on = (t < lengths)[:, None]
        every = torch.where(
            goes_on, x[:, t] + torch.logsumexp(every[:, None] + transitions, 2), every
        )
        moved = torch.cat([low, one[:, :-1] + move], 1)
        one = torch.where(goes_on, picked[:, t] + torch.logaddexp(one + stay, moved), one)
    return (torch.logsumexp(every, 1) - one[:, -1]).mean()


def warm(library: str, tiny: bool, case: str) -> Callable[[], object]:
    threads = int(os.environ["OMP_NUM_THREADS"])
    if library == "torch":
        import torch

        torch.set_num_threads(threads)
        step = their_step(case, tiny)
    else:
        import fl_tensor as ft

        ft.set_num_threads(threads)
        ft.use(library)
        step = our_step(case, tiny)
    for _ in range(WARM):
        step()
    if library == "jit":
        ft.jit.wait()
    return step


def main() -> None:
    parser = parser_of(__doc__, 15)
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE", choices=CASES)
    parser.add_argument("--serve", metavar="LIBRARY", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=2)
    given = parsed(parser)
    if given.serve:
        serve(OneAtATime(partial(warm, given.serve, given.tiny)))
        return
    libraries = ("numpy",) if given.tiny else ("jit", "torch")
    if not given.tiny:
        require(["torch"], "install it, or run with --tiny")
    rows = []
    for case in given.only or CASES:
        with ExitStack() as stack:
            workers = {
                one: stack.enter_context(Worker(one, given.threads, tiny=given.tiny))
                for one in libraries
            }
            times = take_turns(workers, case, given.rounds, given.moment)
        row: dict[str, Any] = {"step": case}
        row |= {f"{one} ms": 1e3 * seconds for one, seconds in times.items()}
        if not given.tiny:
            row["torch / jit"] = times["torch"] / times["jit"]
        rows.append(row)
    about = environment("numpy", "llvmlite", "torch", "fl-tensor", "fl-nn", "fl-jit", "fl-speech")
    report(given, about, rows)


if __name__ == "__main__":
    main()
