"""Language-model networks against twins in PyTorch with the same names: scores, losses and all
gradients, and heads against PyTorch's losses.

Session `oracles` runs this folder, which needs PyTorch alone.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_text.heads import AdaptiveSoftMax, FullSoftmax, SampledSoftmax
from fl_text.models import GCNN, LSTMLanguageModel, TransformerLanguageModel

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.nn.utils.parametrizations import weight_norm  # noqa: E402

TOKENS = 23
BLOCKS = [[(6, 3)], [(4, 1), (4, 5), (6, 1)], [(3, 1), (3, 2), (16, 1)]]
CUTOFFS = [5, 12]


class LSTMTwin(nn.Module):
    def __init__(self, size, hidden, layers):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, size)
        self.lstm = nn.LSTM(size, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, TOKENS)

    def hidden(self, tokens):
        return self.lstm(self.embedding(tokens))[0]


class GatedTwin(nn.Module):
    def __init__(self, inputs, outputs, kernel):
        super().__init__()
        self.kernel = kernel
        self.conv = weight_norm(nn.Conv1d(inputs, 2 * outputs, kernel))

    def forward(self, x):
        return F.glu(self.conv(F.pad(x, (self.kernel - 1, 0))), 1)


class BlockTwin(nn.Module):
    def __init__(self, inputs, block):
        super().__init__()
        sizes = [inputs, *[outputs for outputs, _ in block]]
        self.convolutions = nn.ModuleList(
            GatedTwin(width, *pair) for width, pair in zip(sizes, block, strict=False)
        )
        self.projection = None
        if sizes[-1] != inputs:
            self.projection = weight_norm(nn.Conv1d(inputs, sizes[-1], 1))

    def forward(self, x):
        y = x
        for convolution in self.convolutions:
            y = convolution(y)
        return y + (x if self.projection is None else self.projection(x))


class GCNNTwin(nn.Module):
    def __init__(self, size):
        super().__init__()
        sizes = [size, *[block[-1][0] for block in BLOCKS]]
        self.embedding = nn.Embedding(TOKENS, size)
        pairs = zip(sizes, BLOCKS, strict=False)
        self.blocks = nn.ModuleList(BlockTwin(*pair) for pair in pairs)
        self.head = nn.AdaptiveLogSoftmaxWithLoss(sizes[-1], TOKENS, CUTOFFS)

    def hidden(self, tokens):
        x = self.embedding(tokens).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return x.transpose(1, 2)


class AdaptiveEmbeddingTwin(nn.Module):
    def __init__(self, size):
        super().__init__()
        ends = [0, *CUTOFFS, TOKENS]
        self.ranges = list(zip(ends, ends[1:], strict=False))
        widths = [size // 4**i for i in range(len(self.ranges))]
        self.embeddings = nn.ModuleList(
            nn.Embedding(high - low, width)
            for (low, high), width in zip(self.ranges, widths, strict=True)
        )
        self.projections = nn.ModuleList(nn.Linear(width, size, bias=False) for width in widths)

    def forward(self, tokens):
        parts = zip(self.ranges, self.embeddings, self.projections, strict=True)
        found = 0.0
        for (low, high), rows, projection in parts:
            inside = (tokens >= low) & (tokens < high)
            part = projection(rows((tokens - low).clamp(0, high - low - 1)))
            found = found + part * inside[..., None]
        return found


class TransformerTwin(nn.Module):
    def __init__(self, size, heads, layers, hidden, norm_first):
        super().__init__()
        self.size = size
        self.embedding = AdaptiveEmbeddingTwin(size)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                size, heads, hidden, dropout=0.0, batch_first=True, norm_first=norm_first
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(size) if norm_first else nn.Identity()
        self.head = nn.AdaptiveLogSoftmaxWithLoss(size, TOKENS, CUTOFFS)

    def hidden(self, tokens):
        steps = tokens.shape[1]
        rates = 10000.0 ** (-torch.arange(0, self.size, 2) / self.size)
        angles = torch.arange(steps)[:, None] * rates
        places = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        x = self.embedding(tokens) * math.sqrt(self.size) + places
        mask = torch.ones(steps, steps, dtype=torch.bool).triu(1)
        for layer in self.layers:
            x = layer(x, src_mask=mask)
        return self.norm(x)


PAIRS = {
    "lstm": lambda: (LSTMLanguageModel(TOKENS, 7, 9, dropout=0.0), LSTMTwin(7, 9, 2)),
    "gcnn": lambda: (GCNN(TOKENS, 5, BLOCKS, cutoffs=CUTOFFS), GCNNTwin(5)),
    **{
        f"transformer, norm_first={first}": lambda first=first: (
            TransformerLanguageModel(
                TOKENS, 16, 2, 2, 24, dropout=0.0, cutoffs=CUTOFFS, norm_first=first
            ),
            TransformerTwin(16, 2, 2, 24, first),
        )
        for first in (False, True)
    },
}


@pytest.mark.parametrize("name", PAIRS)
def test_scores_losses_and_every_gradient(name):
    ft.seed(0)
    torch.manual_seed(0)
    ours, theirs = PAIRS[name]()
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    rng = np.random.default_rng(0)
    tokens, targets = rng.integers(0, TOKENS, (2, 3, 8))

    hidden = theirs.hidden(torch.tensor(tokens))
    flat, labels = hidden.flatten(0, 1), torch.tensor(targets).flatten()
    if isinstance(theirs.head, nn.Linear):
        scores = theirs.head(flat).log_softmax(-1)
        loss = F.nll_loss(scores, labels)
    else:
        scores, loss = theirs.head.log_prob(flat), theirs.head(flat, labels).loss
    loss.backward()

    x = ft.asarray(tokens)
    near(ours.head.log_probs(ours.hidden(x)).reshape(-1, TOKENS), scores)
    near(ft.log_softmax(ours(x), -1).reshape(-1, TOKENS), scores)
    found = ours.head.loss(ours.hidden(x), ft.asarray(targets))
    near(found, loss)
    found.backward()
    gradients = {k: p.grad for k, p in theirs.named_parameters()}
    assert {k for k, _ in ours.named_parameters()} <= set(ours.state_dict())
    for key, parameter in ours.named_parameters():
        near(parameter.grad, gradients[renamed(ours, key)], key)


def renamed(ours, key):
    """The name in the state dict, which weight normalisation has another one for."""
    for ending, name in (("weight_g", "original0"), ("weight_v", "original1")):
        key = key.replace(f".{ending}", f".parametrizations.weight.{name}")
    return key.replace(".module.", ".")


def near(found, wanted, what=""):
    np.testing.assert_allclose(
        np.asarray(found.detach() if hasattr(found, "detach") else found),
        wanted.detach().numpy(),
        atol=1e-5,
        rtol=1e-4,
        err_msg=what,
    )


@pytest.mark.parametrize("kind", [FullSoftmax, AdaptiveSoftMax, SampledSoftmax])
def test_heads_with_targets_that_do_not_count(kind):
    rng = np.random.default_rng(1)
    x, targets = rng.normal(size=(12, 16)).astype("float32"), rng.integers(0, TOKENS, 12)
    targets[::4] = -1
    extra = {FullSoftmax: (), AdaptiveSoftMax: (CUTOFFS,), SampledSoftmax: (TOKENS,)}[kind]
    ours = kind(16, TOKENS, *extra)
    theirs = nn.Linear(16, TOKENS)
    if kind is AdaptiveSoftMax:
        theirs = nn.AdaptiveLogSoftmaxWithLoss(16, TOKENS, CUTOFFS)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    vectors = torch.tensor(x, requires_grad=True)
    log_probs = (
        theirs.log_prob(vectors) if kind is AdaptiveSoftMax else theirs(vectors).log_softmax(-1)
    )
    loss = F.nll_loss(log_probs, torch.tensor(targets), ignore_index=-1)
    loss.backward()
    own = ag.Variable(ft.asarray(x), requires_grad=True)
    found = ours.loss(own, ft.asarray(targets), ignore_index=-1)
    near(found, loss)
    near(ag.grad(found, [own])[0], vectors.grad)
