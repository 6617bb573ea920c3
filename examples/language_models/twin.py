"""Twins in PyTorch of the transformer of characters and of the LSTM of words: initial weights,
batches, learning rates and number of updates of a finished run of `fl-text train`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import fl_tensor as ft
from fl_dist import local
from fl_nn import load_checkpoint
from fl_text import TextFiles
from fl_text.language_model_folder import load_language_model
from fl_text.recipe import Recipe
from fl_text.training.data import training_batches, valid_batches
from fl_text.training.networks import make_network


class TransformerTwin(nn.Module):
    """`TransformerLanguageModel` with sinusoidal positions, layers that normalise first, and a tied
    output."""

    def __init__(self, recipe: Recipe, tokens: int) -> None:
        super().__init__()
        self.size, self.dropout = recipe.size, recipe.dropout
        self.embedding = nn.Embedding(tokens, recipe.size)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                recipe.size, recipe.heads, recipe.hidden or 4 * recipe.size, recipe.dropout,
                recipe.activation, batch_first=True, norm_first=True,
            )
            for _ in range(recipe.layers)
        )  # fmt: skip
        self.norm = nn.LayerNorm(recipe.size)

    def forward(self, tokens: Any, state: Any) -> Any:
        """Scores and no state."""
        steps = tokens.shape[1]
        x = self.embedding(tokens) * math.sqrt(self.size) + sinusoids(steps, self.size)
        x = F.dropout(x, self.dropout, self.training)
        mask = nn.Transformer.generate_square_subsequent_mask(steps)
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return F.linear(self.norm(x), self.embedding.weight), None


class LSTMTwin(nn.Module):
    """`LSTMLanguageModel` with an output of its own, without dropout."""

    def __init__(self, recipe: Recipe, tokens: int) -> None:
        super().__init__()
        hidden = recipe.hidden or recipe.size
        self.embedding = nn.Embedding(tokens, recipe.size)
        self.lstm = nn.LSTM(recipe.size, hidden, recipe.layers, batch_first=True)
        self.head = nn.Linear(hidden, tokens)

    def forward(self, tokens: Any, state: Any) -> Any:
        """Scores and the state behind the tokens."""
        x, state = self.lstm(self.embedding(tokens), state)
        return self.head(x), tuple(each.detach() for each in state)


def sinusoids(steps: int, size: int) -> Any:
    """Positions as `fl_nn.SinusoidalPositionEmbedding` has them."""
    import fl_nn

    found = fl_nn.SinusoidalPositionEmbedding(size, 1.0)(ft.zeros((1, steps, size)))
    return torch.from_numpy(np.array(found))


def train_twin(run: Path, train: Path, valid: Path, settings: Sequence[str] = ()) -> float:
    """The lowest validation loss in nats a token."""
    recipe = Recipe.of(
        load_checkpoint(run / "checkpoint.safetensors").metadata["fl_text"]["recipe"]
    )
    tokenizer = load_language_model(run).tokenizer
    events = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    rates = [event["lr"] for event in events if event["event"] == "step"]
    ft.set_default_generator(ft.Generator(recipe.seed))
    network = make_network(recipe, len(tokenizer), ())
    is_lstm = recipe.network == "lstm"
    twin = (LSTMTwin if is_lstm else TransformerTwin)(recipe, len(tokenizer))
    own = {name: torch.from_numpy(np.array(x)) for name, x in network.state_dict().items()}
    if not is_lstm:
        own.pop("head.weight")  # that of the embedding
    twin.load_state_dict(own)
    optimizer = optimizer_of(recipe, twin)
    batches = training_batches(recipe, TextFiles(train), tokenizer, local())
    held_out = valid_batches(recipe, TextFiles(valid), tokenizer, local())
    best, epoch, left = math.inf, 0, list(reversed(rates))
    while left:
        batches.set_epoch(epoch)
        twin.train()
        state = None
        for x, y in batches.iterate():
            if not left:
                break
            for group in optimizer.param_groups:
                group["lr"] = left[-1]
            left.pop()
            optimizer.zero_grad()
            loss, state = loss_of(twin, x, y, state)
            loss.backward()
            nn.utils.clip_grad_norm_(twin.parameters(), recipe.clip)
            optimizer.step()
        epoch += 1
        best = min(best, measured(twin, held_out))
    return best


def optimizer_of(recipe: Recipe, twin: nn.Module) -> torch.optim.Optimizer:
    """As `fl_text.training` makes it."""
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(twin.parameters(), recipe.lr, recipe.momentum)
    groups = [
        {"params": [p for p in twin.parameters() if p.ndim > 1]},
        {"params": [p for p in twin.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    decay, betas = recipe.weight_decay, (0.9, recipe.beta2)
    return torch.optim.AdamW(groups, lr=recipe.lr, betas=betas, weight_decay=decay)


def loss_of(twin: nn.Module, x: Any, y: Any, state: Any, reduction: str = "mean") -> Any:
    """The loss, and the state behind the tokens."""
    tokens, targets = (torch.from_numpy(np.array(field)) for field in (x, y))
    scores, state = twin(tokens, state)
    flat = scores.flatten(0, 1)
    return F.cross_entropy(flat, targets.flatten(), reduction=reduction), state


def measured(twin: nn.Module, batches: Any) -> float:
    """The mean loss of a target."""
    twin.eval()
    total, count, state = 0.0, 0, None
    with torch.no_grad():
        for x, y in batches.iterate():
            loss, state = loss_of(twin, x, y, state, "sum")
            total, count = total + loss.item(), count + y.size
    return total / count
