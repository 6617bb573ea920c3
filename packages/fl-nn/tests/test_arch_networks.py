"""Whole networks from architecture files against the same ones written by hand, row-major, with the
same weights."""

from __future__ import annotations

import json

import pytest

import fl_nn as nn
import fl_tensor as ft

TDS = """
# time-depth separable convolutions, for CTC
SAUG 0 4 2 6 0.5 1
V -1 NFEAT 1 0          # {T, NFEAT, 1, B}
C2 1 4 5 1 2 1 -1 -1
R
DO 0.1
LN 0 1 2
TDS 4 5 NFEAT 0.1 24
TDS 4 5 NFEAT 0.1 0 1 0
C2 4 6 5 1 2 1 -1 -1
R
LN 1 2
TDS 6 3 NFEAT 0.1
V 0 48 1 0              # {T, 48, 1, B}
RO 1 0 3 2              # {48, T, B, 1}
L 48 NLABEL
"""

TRANSFORMER = """
V -1 1 NFEAT 0          # {T, 1, NFEAT, B}
PD 0 1 2
WN 3 C NFEAT 16 3 2
GLU 2
DO 0.1
M 2 1 2 1
RO 2 0 3 1              # {8, T, B, 1}
POSEMB 8 50 0.1
TR 8 16 2 10 0.1 0.2
TR 8 16 2 0 0.1 0.2 1 1
CFR 8 16 2 10 3 0.1
RES 2 1 2
WN 0 L 8 8
SH
SKIP 0 3 0.70711
L 8 NLABEL
LSM 0
"""


class HandMadeTDS(nn.Module):
    """(batch, 1, features, steps) to (batch, steps, labels)."""

    def __init__(self):
        self.conv1 = nn.Conv2D(1, 4, (1, 5), (1, 2), "same")
        self.norm1 = nn.ScalarLayerNorm((1, 2, 3))
        self.block1 = nn.TDSBlock(4, 5, 8, hidden=24)
        self.block2 = nn.TDSBlock(4, 5, 8, future=1, norm_over_time=False)
        self.conv2 = nn.Conv2D(4, 6, (1, 5), (1, 2), "same")
        self.norm2 = nn.ScalarLayerNorm((1, 2))
        self.block3 = nn.TDSBlock(6, 3, 8)
        self.linear = nn.Linear(48, 5)

    def forward(self, x):
        x = self.block2(self.block1(self.norm1(ft.relu(self.conv1(x)))))
        x = self.block3(self.norm2(ft.relu(self.conv2(x))))
        n, channels, features, steps = x.shape
        return self.linear(x.reshape(n, channels * features, steps).permute(0, 2, 1))


class HandMadeTransformer(nn.Module):
    """(batch, 1, features, steps) to (batch, steps, log-probabilities)."""

    def __init__(self):
        self.conv = nn.WeightNorm(nn.Conv1D(8, 16, 3, 2))
        self.positions = nn.PositionEmbedding(50, 8)
        self.layers = [
            nn.TransformerEncoderLayer(8, 2, 16, relative=10),
            nn.TransformerEncoderLayer(8, 2, 16, norm_first=True),
            nn.Conformer(8, 2, 16, 3, relative=10),
        ]
        self.linears = [nn.WeightNorm(nn.Linear(8, 8)) for _ in range(2)]
        self.last = nn.Linear(8, 5)

    def forward(self, x):
        x = ft.pad(x[:, 0], ((0, 0), (0, 0), (1, 2)))
        value, gate = ft.split(self.conv(x), 2, 1)
        x = ft.max_pool(value * ft.sigmoid(gate), (2,), (2,), ((0, 0),))
        x = self.positions(x.permute(0, 2, 1))
        x = self.layers[2](self.layers[1](self.layers[0](x), causal=True))
        for linear in self.linears:
            x = (ft.silu(linear(x)) + x) * 0.70711
        return ft.log_softmax(self.last(x), -1)


NETWORKS = {"TDS": (TDS, HandMadeTDS, 11), "Transformer": (TRANSFORMER, HandMadeTransformer, 11)}


def pair(name):
    text, make, _ = NETWORKS[name]
    model, twin = nn.build_sequential(text, 8, 5), make()
    mine, theirs = list(model.parameters()), list(twin.parameters())
    assert [p.size for p in mine] == [p.size for p in theirs]
    for one, other in zip(mine, theirs):
        other.tensor = one.tensor.reshape(other.shape)
    return model.to("float64").eval(), twin.to("float64").eval()


@pytest.mark.parametrize("name", NETWORKS)
def test_results_and_gradients_are_those_of_the_model_written_by_hand(name):
    model, twin = pair(name)
    x = ft.randn((3, 1, 8, 43), dtype=ft.float64)
    y, expected = model(x), twin(x)
    assert y.shape == (1, 3, NETWORKS[name][2], 5)
    assert ft.allclose(y[0], expected, rtol=1e-10, atol=1e-10)
    ft.sum(ft.square(y)).backward()
    ft.sum(ft.square(expected)).backward()
    for mine, theirs in zip(model.parameters(), twin.parameters()):
        found = mine.grad.tensor.reshape(theirs.shape)
        assert ft.allclose(found, theirs.grad.tensor, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", NETWORKS)
def test_configurations_summaries_and_states(name):
    model, _ = pair(name)
    twin = nn.from_config(json.loads(json.dumps(model.to_config()))).to("float64").eval()
    twin.load_state_dict(model.state_dict())
    x = ft.randn((2, 1, 8, 43), dtype=ft.float64)
    assert ft.allclose(model(x), twin(x))
    table = nn.summary(nn.build_sequential(NETWORKS[name][0], 8, 5), (2, 1, 8, 43))
    assert table.parameters == sum(p.size for p in model.parameters())
    assert str(NETWORKS[name][2]) in str(table)


def test_networks_train():
    for text, _, _ in NETWORKS.values():
        model = nn.build_sequential(text, 8, 5)
        ft.sum(ft.square(model(ft.randn((2, 1, 8, 43))))).backward()
        assert any(p.grad is not None for p in model.parameters())


def test_a_padded_recording_gives_what_it_gives_alone():
    # Without convolutions over time, whose windows reach into the padding.
    text = "V -1 1 NFEAT 0\nRO 2 0 3 1\nRES 1 0 2\nTR 8 16 2 10 0\nCFR 8 16 2 10 3 0\nL 8 NLABEL"
    model = nn.build_sequential(text, 8, 5).eval()
    x = ft.randn((2, 1, 8, 20))
    alone = model(x[1:, :, :, :13])
    told = model(x, lengths=nn.Durations([2000, 1300]))[:, 1:, :13]
    assert ft.allclose(told, alone, rtol=1e-4, atol=1e-5)
    assert not ft.allclose(model(x)[:, 1:, :13], alone, rtol=1e-4, atol=1e-5)
