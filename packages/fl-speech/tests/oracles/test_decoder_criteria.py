"""Seq2Seq and TransformerCriterion against the same networks in PyTorch: losses and gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fl_tensor as ft
from fl_speech.criteria import Seq2Seq, SoftWindow, TransformerCriterion, make_attention

torch = pytest.importorskip("torch")
F = torch.nn.functional

CLASSES, SIZE, HEADS, EOS = 9, 16, 4, 0
LENGTHS, TARGETS = [12, 7, 9], [[1, 2, 3, 8], [4, -1, -1, -1], [5, 5, -1, -1]]
EXPECTED = [[1, 2, 3, 8, EOS], [4, EOS, -1, -1, -1], [5, 5, EOS, -1, -1]]
SHOWN = [[1, 2, 3, 8], [4, EOS, 0, 0], [5, 5, EOS, 0]]


def encoded() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(3, 12, SIZE))


def parameters(model) -> dict[str, torch.Tensor]:
    return {
        name: torch.tensor(value.numpy(), requires_grad=True)
        for name, value in model.state_dict().items()
    }


def embedded(p):
    start = p["start_embedding"].expand(3, 1, SIZE)
    return torch.cat([start, p["embedding.weight"][torch.tensor(SHOWN)]], 1)


def attended(p, name, y, x, kind, window):
    """`y` and the summaries of one attention."""
    mask = torch.arange(12)[None] < torch.tensor(LENGTHS)[:, None]
    bias = torch.where(mask[:, None, None], window[:, None], -math.inf)
    if kind == "content":
        mixed = F.scaled_dot_product_attention(y[:, None], x[:, None], x[:, None], bias)[:, 0]
        return y + mixed
    if kind == "neural":
        scores = F.linear(
            F.relu(y[:, :, None] + x[:, None]), p[f"{name}.out.weight"], p[f"{name}.out.bias"]
        )[..., 0]
        return y + torch.softmax(scores + bias[:, 0], -1) @ x
    q, k, v = (
        F.linear(z, p[f"{name}.{part}.weight"], p[f"{name}.{part}.bias"])
        .unflatten(-1, (HEADS, -1))
        .transpose(1, 2)
        for part, z in (("query", y), ("key", x), ("value", x))
    )
    mixed = F.scaled_dot_product_attention(q, k, v, bias).transpose(1, 2).flatten(2)
    return y + F.linear(mixed, p[f"{name}.out.weight"], p[f"{name}.out.bias"])


def loss_of(p, y, smoothing=0.0):
    scores = F.linear(y, p["out.weight"], p["out.bias"]).flatten(0, 1)
    expected = torch.tensor(EXPECTED).flatten()
    found = F.cross_entropy(
        scores, expected, ignore_index=-1, reduction="sum", label_smoothing=smoothing
    )
    return found / 3


def compare(model, theirs, p, x):
    given = ft.asarray(x)
    ours = model((given, LENGTHS), TARGETS)
    np.testing.assert_allclose(ours.item(), theirs.item(), rtol=1e-9)
    ours.backward()
    theirs.backward()
    for name, parameter in model.named_parameters():
        expected = p[name].grad.numpy()
        np.testing.assert_allclose(
            parameter.grad.numpy(), expected, rtol=1e-7, atol=1e-10, err_msg=name
        )


@pytest.mark.parametrize("kind", ["content", "neural", "multi"])
@pytest.mark.parametrize("sequential", [False, True])
def test_seq2seq(kind, sequential, monkeypatch):
    ft.seed(0)
    soft = SoftWindow(2.0, 2.0, 1.0)
    model = Seq2Seq(
        CLASSES, SIZE, EOS, window=soft, train_with_window=True, label_smoothing=0.1, layers=2,
        attentions=[make_attention(kind, SIZE, heads=HEADS, dtype=ft.float64) for _ in range(2)],
        dtype=ft.float64,
    )  # fmt: skip
    if sequential:
        monkeypatch.setattr(model, "is_sequential", lambda: True)
    p, x = parameters(model), torch.tensor(encoded())
    ends = torch.tensor(LENGTHS)[:, None, None]
    centre = torch.floor(torch.minimum(1 + 2.0 * torch.arange(5)[None, :, None], ends - 2) + 0.5)
    window = -((torch.arange(12) - centre).double() ** 2) / (2 * 2.0**2)
    y = embedded(p)
    for i in range(2):
        weights = [
            p[f"rnn.{i}.{n}_l{layer}"]
            for layer in range(2)
            for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        ]
        start = torch.zeros(2, 3, SIZE, dtype=torch.float64)
        y, _ = torch._VF.gru(y, start, weights, True, 2, 0.0, False, False, True)
        y = attended(p, f"attentions.{i}", y, x, kind, window)
    compare(model, loss_of(p, y, 0.1), p, encoded())


def test_transformer():
    ft.seed(0)
    attention = make_attention("multi", SIZE, heads=HEADS, dtype=ft.float64)
    model = TransformerCriterion(
        CLASSES, SIZE, EOS, max_length=8, layers=2, attention=attention, dtype=ft.float64
    )
    p, x = parameters(model), torch.tensor(encoded())
    y = embedded(p)
    for i in range(2):
        own = lambda name, i=i: p[f"layers.{i}.{name}"]  # noqa: E731
        q, k, v = (
            z.unflatten(-1, (4, -1)).transpose(1, 2)
            for z in F.linear(
                y, own("self_attn.in_proj_weight"), own("self_attn.in_proj_bias")
            ).chunk(3, -1)
        )
        distance = torch.arange(5)[None] - torch.arange(5)[:, None]  # key minus query
        rows = own("self_attn.relative.weight")[distance + 7]
        bias = torch.einsum("bhtd,tsd->bhts", q / 2.0, rows)
        bias = torch.where(distance <= 0, bias, -math.inf)
        mixed = F.scaled_dot_product_attention(q, k, v, bias).transpose(1, 2).flatten(2)
        mixed = F.linear(mixed, own("self_attn.out_proj.weight"), own("self_attn.out_proj.bias"))
        y = F.layer_norm(y + mixed, (SIZE,), own("norm1.weight"), own("norm1.bias"))
        inner = F.relu(F.linear(y, own("linear1.weight"), own("linear1.bias")))
        inner = F.linear(inner, own("linear2.weight"), own("linear2.bias"))
        y = F.layer_norm(y + inner, (SIZE,), own("norm2.weight"), own("norm2.bias"))
    y = attended(p, "attentions.0", y, x, "multi", torch.zeros(3, 5, 12).double())
    compare(model, loss_of(p, y), p, encoded())
