"""What each token of an architecture file builds: counts, shapes, and the original's arithmetic
on column-major arrays, which have the same memory read the other way."""

from __future__ import annotations

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft

#: A line with NFEAT = 5 and NLABEL = 7, the shape of an input, that of the output, and how many
#: numbers are learned.
TOKENS = [
    ("V -1 1 NFEAT 0", (2, 1, 5, 9), (2, 5, 1, 9), 0),
    ("V -1 0 1 1", (3, 4), (1, 1, 3, 4), 0),
    ("RO 2 0 3 1", (2, 5, 1, 9), (1, 2, 9, 5), 0),
    ("PD 0 5 3", (2, 1, 5, 9), (2, 1, 5, 17), 0),
    ("PD -1.5 0 0 1 2", (2, 1, 5, 9), (2, 1, 8, 9), 0),
    ("PC f64", (2, 3), (2, 3), 0),
    ("C NFEAT 6 3 2 -1", (2, 5, 1, 9), (2, 6, 1, 5), 5 * 6 * 3 + 6),
    ("C1 5 6 3 1", (2, 5, 4, 9), (2, 6, 4, 7), 96),
    ("C 5 6 3 1 2 4", (2, 5, 1, 9), (2, 6, 1, 5), 96),
    ("C2 5 6 3 2 2 1", (2, 5, 4, 9), (2, 6, 3, 4), 5 * 6 * 3 * 2 + 6),
    ("C2 5 6 3 2 2 1 -1 1 1 2", (2, 5, 4, 9), (2, 6, 4, 5), 186),
    ("AC 5 6 3 1 -1 0", (2, 5, 1, 9), (2, 6, 1, 9), 96),
    ("AC 5 6 3 2 1 1 2", (2, 5, 1, 9), (2, 6, 1, 4), 96),
    ("M 2 1 3 1", (2, 5, 4, 9), (2, 5, 4, 3), 0),
    ("A 3 2 1 2 1 0", (2, 5, 4, 9), (2, 5, 2, 9), 0),
    ("M 3 3 2 2 -1 -1", (2, 5, 4, 9), (2, 5, 2, 5), 0),
    ("L NFEAT NLABEL", (2, 3, 5), (2, 3, 7), 42),
    ("L 5 7 0", (2, 3, 5), (2, 3, 7), 35),
    ("BN 5 2", (2, 5, 4, 9), (2, 5, 4, 9), 10),
    ("BN 20 1 2", (2, 5, 4, 9), (2, 5, 4, 9), 40),
    ("LN 0 1 2", (2, 5, 4, 9), (2, 5, 4, 9), 2),
    ("LN 1 2", (2, 5, 4, 9), (2, 5, 4, 9), 2),
    ("WN 0 L 5 7", (2, 5), (2, 7), 7 + 35 + 7),
    ("WN 3 C 5 6 3 1", (2, 5, 1, 9), (2, 6, 1, 7), 6 + 90 + 6),
    ("WN 3 AC 5 6 3 1 -1 0", (2, 5, 1, 9), (2, 6, 1, 9), 102),
    ("DO 0.5", (2, 3), (2, 3), 0),
    ("ELU", (2, 3), (2, 3), 0),
    ("R", (2, 3), (2, 3), 0),
    ("R6", (2, 3), (2, 3), 0),
    ("PR", (2, 3), (2, 3), 1),
    ("PR 3 0.1", (2, 3), (2, 3), 3),
    ("LG", (2, 3), (2, 3), 0),
    ("HT", (2, 3), (2, 3), 0),
    ("T", (2, 3), (2, 3), 0),
    ("SH", (2, 3), (2, 3), 0),
    ("GLU 2", (2, 6, 1, 9), (2, 3, 1, 9), 0),
    ("GLU 0", (2, 3, 6), (2, 3, 3), 0),
    ("LSM 0", (2, 3, 7), (2, 3, 7), 0),
    ("TDS 2 3 5", (2, 2, 5, 9), (2, 2, 5, 9), 2 * 2 * 3 + 2 + 2 * 110 + 4),
    ("TDS 2 3 5 0.1 8 0 0", (2, 2, 5, 9), (2, 2, 5, 9), 14 + 88 + 90 + 4),
    ("TR 8 16 2 6 0.1", (1, 2, 9, 8), (1, 2, 9, 8), 4 * 72 + 11 * 4 + 144 + 136 + 32),
    ("TR 8 16 2 0 0.1 0.2 1 1", (2, 9, 8), (2, 9, 8), 600),
    # 2 half networks, attention, convolution (norms included)
    ("CFR 8 16 2 6 3 0.1 0.2", (1, 2, 9, 8), (1, 2, 9, 8),
     2 * 296 + 16 + 288 + 44 + 16 + 144 + 32 + 16 + 72 + 16),
    ("POSEMB 8 20 0.1", (1, 2, 9, 8), (1, 2, 9, 8), 160),
    ("SINPOSEMB 8 2.0", (1, 2, 9, 8), (1, 2, 9, 8), 0),
    ("RNN 5 6", (1, 9, 2, 5), (1, 9, 2, 6), 30 + 36 + 12),
    ("LSTM 5 6 1 1", (1, 9, 2, 5), (1, 9, 2, 12), 2 * 4 * 78),
    ("GRU 5 6 2 0 0.3", (9, 2, 5), (9, 2, 6), 3 * 78 + 3 * 84),
    ("SAUG 0 2 1 3 0.5 1", (2, 1, 5, 9), (2, 1, 5, 9), 0),
]  # fmt: skip


def build(text, **options):
    return nn.build_sequential(text, 5, 7, **options)


@pytest.mark.parametrize(("line", "given", "expected", "count"), TOKENS)
def test_shapes_and_parameters(line, given, expected, count):
    model = build(line)
    assert nn.summary(model, given).parameters == count
    assert model(ft.rand(given) + 0.1).shape == expected
    twin = nn.from_config(model.to_config())
    assert repr(twin) == repr(model)
    twin.load_state_dict(model.state_dict())


def test_every_token_is_looked_at():
    structure = {"E", "ADAPTIVEE"}
    assert {line.split()[0] for line, *_ in TOKENS} | structure == set(nn.arch.TOKENS)


def test_classes_become_vectors():
    classes = ft.asarray([[1, 4, 2], [0, 3, 3]])
    for line, count in [("E 8 NFEAT", 40), ("ADAPTIVEE 8 2,4,5", 16 + 64 + 4 + 16 + 1 + 8)]:
        model = build(line)
        assert sum(p.size for p in model.parameters()) == count
        y = model(classes)
        assert y.shape == (2, 3, 8)
        assert build("V -1 0 1 1\n" + line)(classes).shape == (1, 2, 3, 8)


# ---- the arithmetic of the original --------------------------------------------------------------

X = np.random.default_rng(0).uniform(0.5, 2.0, (9, 4, 6, 2))  # {width, height, channels, batch}


def axes_but(*kept):
    return tuple(i for i in range(4) if i not in kept)


def split(x, axis):
    return np.split(x, 2, axis)


def normalised(x, over):
    return (x - x.mean(over, keepdims=True)) / np.sqrt(x.var(over, keepdims=True) + 1e-5)


def windows(x, kernel, stride):
    """Of {width, height, ...}: {width, height, ..., kernel width, kernel height}."""
    view = np.lib.stride_tricks.sliding_window_view(x, kernel, (0, 1))
    return view[:: stride[0], :: stride[1]]


ORIGINAL = {
    "V -1 1 24 0": lambda x: x.reshape((9, 1, 24, 2), order="F"),
    "V 0 24 -1 2": lambda x: x.reshape((9, 24, 1, 2), order="F"),
    "V 6 -1 0 1": lambda x: x.reshape((6, 12, 6, 1), order="F"),
    "RO 2 0 3 1": lambda x: x.transpose(2, 0, 3, 1),
    "RO 1 3 0 2": lambda x: x.transpose(1, 3, 0, 2),
    "PD 0.5 1 2 3 0": lambda x: np.pad(x, [(1, 2), (3, 0), (0, 0), (0, 0)], constant_values=0.5),
    "GLU 2": lambda x: split(x, 2)[0] / (1 + np.exp(-split(x, 2)[1])),
    "GLU 1": lambda x: split(x, 1)[0] / (1 + np.exp(-split(x, 1)[1])),
    "LSM 0": lambda x: x - np.log(np.exp(x).sum(0, keepdims=True)),
    "LSM 2": lambda x: x - np.log(np.exp(x).sum(2, keepdims=True)),
    "LN 0 1 2": lambda x: normalised(x, (0, 1, 2)),
    "LN 1 2": lambda x: normalised(x, (1, 2)),
    "LN 0": lambda x: normalised(x, (0,)),
    "BN 6 2": lambda x: normalised(x, axes_but(2)),
    "BN 24 2 1": lambda x: normalised(x, axes_but(1, 2)),
    "M 2 1 3 2": lambda x: windows(x, (2, 1), (3, 2)).max((-1, -2)),
    "A 3 2 1 2": lambda x: windows(x, (3, 2), (1, 2)).mean((-1, -2)),
    "R6": lambda x: np.clip(x * 1.0, 0, 6),
    "HT": lambda x: np.clip(x, -1, 1),
    "LG": np.log,
    "SH 2": lambda x: x / (1 + np.exp(-2 * x)),
}


@pytest.mark.parametrize("line", ORIGINAL)
def test_axes_are_those_of_the_original_read_the_other_way(line):
    found = build(line).astype("float64")(ft.asarray(X.T, ft.float64))
    assert np.allclose(np.asarray(found.tolist()), ORIGINAL[line](X).T, atol=1e-9)


def test_convolutions_have_their_kernels_where_the_original_has():
    model = build("C2 6 3 3 2 2 1 1 1").to("float64")
    kernel = np.asarray(model[0].weight.tolist()).T  # {width, height, inputs, outputs}
    assert kernel.shape == (3, 2, 6, 3)
    patches = windows(np.pad(X, [(1, 1), (1, 1), (0, 0), (0, 0)]), (3, 2), (2, 1))
    expected = np.einsum("whibkl,klio->whob", patches, kernel)
    expected += np.asarray(model[0].bias.tolist())[:, None]
    found = model(ft.asarray(X.T, ft.float64)).tolist()
    assert np.allclose(np.asarray(found), expected.T, atol=1e-9)


def test_learned_slopes_belong_to_the_first_axis_of_the_original():
    model = build("PR 9").to("float64")
    slopes = np.linspace(-1, 1, 9)
    model[0].weight.tensor = ft.asarray(slopes, ft.float64)
    found = model(ft.asarray(-X.T, ft.float64)).tolist()
    assert np.allclose(np.asarray(found), (-X * slopes[:, None, None, None]).T)


@pytest.mark.parametrize("token", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers_go_along_the_third_axis_of_the_original(token):
    model = build(token + " 5 6")
    x = ft.randn((1, 9, 2, 5))  # {features, batch, steps, 1}
    assert ft.allclose(model(x)[:, :4], model(x[:, :4]))
    assert (ft.min(model(x)).item() >= 0.0) == (token == "RNN")  # its nonlinearity is relu


def test_a_share_of_the_padding_lies_ahead():
    x = ft.zeros((1, 1, 1, 7))
    x[0, 0, 0, 3] = 1.0
    for share, seen in [("0", [3, 4, 5]), ("1", [1, 2, 3]), ("0.5", [2, 3, 4])]:
        layer = build(f"AC 1 1 3 1 -1 {share}")
        response = layer(x) - layer(ft.zeros_like(x))
        assert [i for i, v in enumerate(response[0, 0, 0].tolist()) if v] == seen


# ---- blocks --------------------------------------------------------------------------------------


def test_shortcuts_and_scales():
    model = build("RES 2 2 1\nL 5 5\nSKIP 0 2 0.5\nR\nSKIP 1 3\n")
    linear = model[0][0]
    x = ft.randn((3, 5))
    inside = linear(x)
    expected = ft.relu((inside + x) * 0.5) + inside
    assert ft.allclose(model(x), expected)


def test_a_shortcut_through_a_projection():
    model = build("RES 1 2 1\nL 5 7\nSKIPL 0 2 2 0.5\nL 5 7\nT\nSKIP 1 2\nR")
    x = ft.randn((3, 5))
    block = model[0]
    inside = block[0](x)
    projected = ft.tanh(block.shortcut_0_2[0](x))
    expected = ft.relu((inside + projected + inside) * 0.5)
    assert len(model) == 2 and ft.allclose(model(x), expected)
    twin = nn.from_config(model.to_config())
    twin.load_state_dict(model.state_dict())
    assert ft.allclose(twin(x), expected)


def test_repeated_blocks_have_weights_of_their_own():
    model = build("RES 1 1 3\nL 5 5\nSKIP 0 2")
    assert len(model) == 1 and len(model[0]) == 3
    first, second, _ = (block[0].weight for block in model[0])
    assert sum(p.size for p in model.parameters()) == 90 and not ft.allclose(first, second)
    x = ft.randn((2, 5))
    expected = x
    for block in model[0]:
        expected = expected + block[0](expected)
    assert ft.allclose(model(x), expected)


def test_blocks_in_blocks():
    model = build("RES 2 1 1\nRES 1 1 2\nL 5 5\nSKIP 0 2\nR\nSKIP 0 3")
    outer = model[0]
    x = ft.randn((2, 5))
    assert ft.allclose(model(x), x + ft.relu(outer[0](x))) and len(outer[0]) == 2


# ---- text ----------------------------------------------------------------------------------------


def test_comments_blank_lines_and_spaces():
    model = build("\n# a comment\n\tL  NFEAT   3   # and another\r\n   \nR#\n\n")
    assert [type(m) for m in model] == [nn.Linear, nn.ReLU]
    assert len(build("# nothing but a comment")) == 0


def test_a_file(tmp_path):
    path = tmp_path / "am.arch"
    path.write_bytes("\ufeffL NFEAT NLABEL # äußerst einfach\r\nR".encode())
    model = nn.build_sequential(path, n_features=3, n_labels=4)
    assert (model[0].inputs, model[0].outputs, len(model)) == (3, 4, 2)


def test_weights_are_those_of_a_model_built_by_hand_with_the_same_seed():
    text = "L 5 7\nDO 0.5\nLSTM 7 3 1 1"
    ft.seed(3)
    found = build(text).state_dict()
    ft.seed(3)
    layers = nn.Linear(5, 7), nn.Dropout(0.5), nn.FourAxes(nn.LSTM(7, 3, bidirectional=True))
    for name, value in nn.Sequential(*layers).state_dict().items():
        assert value.tolist() == found[name].tolist()
