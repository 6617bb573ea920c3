"""Acoustic models: output lengths, architecture files, parameter counts."""

import os
import random

import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_speech.models import AcousticModel, arch_names, load_arch


def count(model):
    return sum(p.size for p in model.parameters())


def conv(inputs, outputs, kernel, bias=True, groups=1):
    return inputs // groups * outputs * kernel + outputs * bias


def linear(inputs, outputs):
    return inputs * outputs + outputs


def tds(channels, kernel, width, hidden=0):
    size = channels * width
    hidden = hidden or size
    return conv(channels, channels, kernel) + linear(size, hidden) + linear(hidden, size) + 4


def transformer(size, hidden):
    return 4 * linear(size, size) + linear(size, hidden) + linear(hidden, size) + 4 * size


def original_transformer(size, hidden):
    return 4 * size**2 + 2 * size * hidden + 4


def conformer(size, hidden, heads, context, kernel):
    feed_forward = linear(size, hidden) + linear(hidden, size)
    attention = 4 * linear(size, size) + (2 * context - 1) * size // heads
    convolution = (
        linear(size, 2 * size) + conv(size, size, kernel, groups=size) + linear(size, size)
    )
    return 2 * feed_forward + attention + convolution + 6 * 2 * size


def gated(n_features):
    widths = [n_features, 200, 200, 200, 250, 250, 250, 300, 300, 350, 350, 400, 400]
    kernels = [13, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    layers = zip(widths, widths[1:], kernels, strict=False)
    return sum(conv(a, 2 * b, k) + 2 * b for a, b, k in layers) + linear(400, 800) + 800


#: For each file of the package: features, and its parameters without the labels' and with n.
FORMULAS = {
    "asr_transformer": (80, 768, conv(80, 1536, 7) + 36 * transformer(768, 3072) + 2),
    "tds": (
        80, 1440,
        conv(1, 10, 21) + 2 * tds(10, 21, 80, 2400) + conv(10, 14, 21) + 3 * tds(14, 21, 80, 3360)
        + conv(14, 18, 21) + 4 * tds(18, 21, 80, 4320) + 6,
    ),
    "conv_glu": (80, 400, gated(80)),
    "conformer": (
        80, 256,
        conv(80, 512, 3) + conv(256, 512, 3) + 16 * conformer(256, 1024, 4, 100, 31),
    ),
    "streaming_tds": (
        80, 1840,
        conv(1, 15, 10) + 2 * tds(15, 9, 80) + conv(15, 19, 10) + 3 * tds(19, 9, 80)
        + conv(19, 23, 12) + 5 * tds(23, 11, 80) + 6,
    ),
    "digits_conv": (40, 128, conv(40, 128, 5) + 256 + 4 * (conv(128, 128, 5) + 256)),
    "digits_tds": (40, 240, conv(1, 6, 7) + 2 + 3 * tds(6, 7, 40)),
    "digits_streaming_tds": (40, 240, conv(1, 6, 8) + 2 + 3 * tds(6, 7, 40)),
    "digits_conformer": (40, 96, conv(40, 192, 5) + 3 * conformer(96, 192, 4, 50, 15)),
}  # fmt: skip


#: A step of all of them takes half a minute: with FL_LARGE_MODELS in the environment.
LARGE = ["asr_transformer", "tds", "conv_glu", "conformer", "streaming_tds"]


def labels(name, size, n):
    return linear(size, n) + (n if name == "conv_glu" else 0)


def test_the_formulas_cover_every_file():
    assert sorted(FORMULAS) == arch_names()


@pytest.mark.parametrize("name", FORMULAS)
def test_parameter_counts_are_closed_formulas(name):
    features, size, body = FORMULAS[name]
    with ft.use("null"):  # shapes alone
        model = load_arch(name, features, 30).eval()
        assert count(model) == body + labels(name, size, 30)
        output, lengths = model(ft.zeros((2, 64, features)), [64, 40])
        assert output.shape == (2, *output.shape[1:2], 30)
        assert lengths.shape == (2,)


@pytest.mark.parametrize("as_flashlight", [False, True])
def test_the_large_transformer_has_263_million_parameters(as_flashlight):
    layer = original_transformer(768, 3072) if as_flashlight else transformer(768, 3072)
    with ft.use("null"):
        model = load_arch("asr_transformer", 80, 9998, as_flashlight=as_flashlight)
    total = count(model)
    assert total == conv(80, 1536, 7) + 36 * layer + 2 + linear(768, 9998)
    assert abs(total / 263e6 - 1) < 0.02


def step(model, features):
    """A training step, which reaches the parameters."""
    model.eval()  # no layers dropped
    output, lengths = model(ft.randn((1, 16, features)), [13])
    assert output.shape[1] == model.output_lengths([16])[0]
    assert lengths.tolist() == model.output_lengths([13])
    loss = nn.cross_entropy(output[0], ft.zeros(output.shape[1:2], ft.int64))
    loss.backward()
    found = [ft.max(ft.abs(p.grad)).item() for p in model.parameters()]
    assert sum(0.0 < largest < 1e3 for largest in found) > 0.9 * len(found)
    nn.SGD(model.parameters(), 0.01).step()


@pytest.mark.parametrize("name", [n for n in FORMULAS if n.startswith("digits")])
def test_small_files_run_a_step(name):
    step(load_arch(name, 40, 12), 40)


@pytest.mark.parametrize("name", LARGE if "FL_LARGE_MODELS" in os.environ else LARGE[:1])
def test_large_files_run_a_step_with_fewer_layers(name, tmp_path):
    import fl_speech.models.acoustic as acoustic

    kept, lines = set(), []
    for line in acoustic._found(name).read_text().splitlines():
        head = line.split()[:3]
        if head[:1] in (["TR"], ["CFR"], ["TDS"]):  # one of each kind and size
            if tuple(head) in kept:
                continue
            kept.add(tuple(head))
        lines.append(line)
    path = tmp_path / "short.arch"
    path.write_text("\n".join(lines))
    step(load_arch(path, 80, 12), 80)


NETWORK = """
V -1 1 NFEAT 0
PD 0 2 1
C NFEAT 6 5 2 3
R
M 3 1 2 1 1 0
C 6 6 4 3 -1
C 6 8 3 1 2 2
GLU 2
A 2 1 2 1
RO 2 0 3 1
TR 4 8 2 5 0.0
L 4 NLABEL
"""


def test_output_lengths_are_those_of_sequences_alone(tmp_path):
    path = tmp_path / "a.arch"
    path.write_text(NETWORK)
    model = load_arch(path, 3, 5).eval()
    x = ft.randn((1, 120, 3))
    lengths = [*range(20, 60), 90, 119, 120]
    expected = [model(x[:, :n])[0].shape[1] for n in lengths]
    assert model.output_lengths(lengths) == expected
    batch = ft.concatenate([x] * len(lengths), 0)
    output, found = model(batch, ft.asarray(lengths))
    assert found.tolist() == expected
    assert found.dtype is ft.int64
    assert output.shape == (len(lengths), expected[-1], 5)
    assert model(x)[1] is None


def test_output_lengths_of_random_windows():
    drawn = random.Random(5)
    for _ in range(60):
        layers, channels = [], 3
        for _ in range(drawn.randint(1, 4)):
            kernel, stride = drawn.randint(1, 5), drawn.randint(1, 3)
            padding = drawn.choice(["same", *range(kernel // 2 + 1)])
            if drawn.random() < 0.5:
                dilation = drawn.randint(1, 2)
                layers.append(nn.Conv1D(channels, 4, kernel, stride, padding, dilation))
                channels = 4
            else:
                ceil = padding != "same" and drawn.random() < 0.5
                layers.append(nn.Pool1D(kernel, stride, padding, "max", ceil_mode=ceil))
        model = AcousticModel(nn.Sequential(*layers), "channels")
        for n in (200, 201, 217):
            output, lengths = model(ft.randn((1, n, 3)), [n])
            assert lengths.tolist() == [output.shape[1]] == model.output_lengths([n]), (layers, n)


def test_attention_does_not_see_padding():
    model = AcousticModel(
        nn.Sequential(nn.Linear(3, 8), nn.TransformerEncoderLayer(8, 2, 16), nn.Linear(8, 5))
    ).eval()
    x = ft.randn((2, 9, 3))
    output, lengths = model(x, [9, 4])
    alone, _ = model(x[1:, :4])
    assert ft.allclose(output[1:, :4], alone, atol=1e-6)
    assert lengths.tolist() == [9, 4]


def test_lengths_inside_are_exact():
    # Of 10 and 9 frames, a stride of 4 makes 3 and 3 steps; shares of the longest would be 3 and 3,
    # of 10 and 8 steps 3 and 2: durations say ceil(8 / 10 * 3) = 3.
    layers = nn.Sequential(
        nn.Conv1D(3, 8, 1, 4), nn.Reorder((0, 2, 1)), nn.TransformerEncoderLayer(8, 2, 16)
    )
    model = AcousticModel(layers, "channels").eval()
    x = ft.randn((2, 10, 3))
    output, lengths = model(x, [10, 8])
    assert lengths.tolist() == [3, 2]
    alone, _ = model(x[1:, :8])
    assert ft.allclose(output[1:, :2], alone, atol=1e-6)


def test_gradients_reach_features_and_parameters():
    model = load_arch("digits_conv", 40, 5)
    x = ag.Variable(ft.randn((1, 20, 40)), requires_grad=True)
    model(x, [20])[0].sum().backward()
    assert x.grad.shape == x.shape
    assert all(p.grad is not None for p in model.parameters())


def test_residual_blocks_may_have_strides():
    block = nn.Residual(nn.Conv1D(3, 4, 3, 2, 1), nn.ReLU(), nn.Conv1D(4, 4, 3, 1, 1))
    block.add_shortcut(0, 4, nn.Conv1D(3, 4, 1, 2))
    model = AcousticModel(nn.Sequential(block), "channels")
    assert model(ft.randn((2, 9, 3)), [9, 6])[1].tolist() == [5, 3]


def test_stride():
    assert load_arch("digits_conv", 40, 5).stride == 2


@pytest.mark.parametrize(
    ("network", "layout", "message"),
    [
        (nn.Conv1D(3, 4, 3), "features", "time is axis 1"),
        (nn.Sequential(nn.View((0, -1))), "features", r"View\(0, -1\)|made"),
        (nn.Flatten(), "channels", "joins time"),
        (nn.AdaptiveAvgPool1D(2), "channels", "is not known"),
        (nn.Transform(lambda x: x[:, ::2]), "features", "expected 8 steps on axis 1"),
        (nn.LSTM(3, 4), "features", "made tuple"),
        (nn.Sequential(nn.Reorder((0, 2, 1)), nn.View((2, 3, 8))), "features", "write 0 there"),
    ],
)
def test_layers_that_hide_time_are_refused(network, layout, message):
    with pytest.raises(ft.FlError, match=message):
        AcousticModel(network, layout)(ft.randn((2, 8, 3)), [8, 8])


def test_bad_arguments():
    model = load_arch("digits_conv", 40, 5)
    x = ft.randn((2, 8, 40))
    with pytest.raises(ft.ShapeError, match=r"expected \(batch, steps, features\)"):
        model(x[0])
    for lengths in ([8], [8, 9], [8, 0]):
        with pytest.raises(ft.ShapeError, match="2 numbers of steps from 1 to 8"):
            model(x, lengths)
    with pytest.raises(nn.ModuleError, match="layout 'frames'"):
        AcousticModel(nn.Linear(2, 2), "frames")
    short = AcousticModel(nn.Conv1D(3, 4, 5), "channels")
    with pytest.raises(ft.ShapeError, match="sequence 1 of the batch has 3 steps"):
        short(ft.randn((2, 8, 3)), [8, 3])
    assert short.output_lengths([3]) == [0]
    with pytest.raises(nn.ArchError, match="digits_conv"):
        load_arch("digits_con", 40, 5)
