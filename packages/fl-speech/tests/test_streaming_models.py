"""`model.stream()`: pieces of a recording give what the whole gives."""

import os
import random

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_speech.models import AcousticModel, load_arch

FILES = ["digits_streaming_tds", "streaming_tds"]
LAYERS = """
V -1 NFEAT 1 0
PD 0 5 3
C2 1 4 6 1 2 1
R
LN 1 2
TDS 4 5 NFEAT 0.1 0 1 0
C2 4 4 4 1 1 1 -1 -1
C2 4 6 3 1 4 1 1 0
A 2 1 3 1
M 1 1 2 1
TDS 6 3 NFEAT 0.1 8 0 0
V 0 1 24 0
AC 24 24 5 1 -1 0.25
WN 3 AC 24 16 4 2 1 0.5 2
GLU 2
BN 8 2
RO 2 0 3 1
L 8 NLABEL
LSM 0
"""


def chunks(x, drawn, axis):
    at, steps = 0, x.shape[axis]
    while at < steps:
        size = drawn.choice([0, 1, 1, 2, 3, 5, 8, 30, 100])
        yield x[(slice(None),) * axis + (slice(at, at + size),)]
        at += size


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("arch") / "a.arch"
    path.write_text(LAYERS)
    return load_arch(path, 4, 7).eval()


@pytest.mark.parametrize("steps", [250, 251, 263])
def test_random_chunks_give_what_the_whole_gives(model, steps):
    drawn = random.Random(steps)
    x = ft.randn((steps, 4))
    whole = model(x[None])[0][0]
    stream = model.stream()
    pieces = [stream.push(chunk) for chunk in chunks(x, drawn, 0)]
    pieces.append(stream.finish())
    found = ft.concatenate(pieces, 0)
    assert found.shape == whole.shape
    assert ft.allclose(found, whole, atol=1e-5)


@pytest.mark.parametrize("name", FILES if "FL_LARGE_MODELS" in os.environ else FILES[:1])
def test_files_of_the_package_stream(name):
    features = 40 if name.startswith("digits") else 80
    model = load_arch(name, features, 5).eval()
    x = ft.randn((2, 37, features))
    stream = model.stream()
    pieces = [stream.push(chunk) for chunk in (x[:, :30], x[:, 30:])]
    found = ft.concatenate([*pieces, stream.finish()], 1)
    assert ft.allclose(found, model(x)[0], atol=1e-5)


def test_scores_come_before_the_end():
    model = load_arch("digits_streaming_tds", 40, 5).eval()
    stream = model.stream()
    first = stream.push(ft.randn((30, 40)))
    # 4 steps of padding and 30 make 14 windows of stride 2; three blocks look one step ahead.
    assert first.shape == (14 - 3, 5)


def test_pieces_of_layers_without_arch_file():
    network = nn.Sequential(
        nn.Conv1D(3, 4, 4, 2, 1), nn.ReLU(), nn.Pool1D(1, 3), nn.Reorder((0, 2, 1)), nn.LayerNorm(4)
    )
    model = AcousticModel(network, "channels").eval()
    x = ft.randn((50, 3))
    stream = model.stream()
    pieces = [stream.push(chunk) for chunk in chunks(x, random.Random(2), 0)]
    found = ft.concatenate([*pieces, stream.finish()], 0)
    assert ft.allclose(found, model(x[None])[0][0], atol=1e-5)


def test_the_state_does_not_grow():
    model = load_arch("digits_streaming_tds", 40, 5).eval()
    stream = model.stream()
    for _ in range(20):
        stream.push(ft.randn((10, 40)))
    kept = [s.kept.shape[s.axis] for s in stream._stages if getattr(s, "kept", None) is not None]
    assert kept
    assert max(kept) <= 8


@pytest.mark.parametrize(
    ("layer", "layout", "reason"),
    [
        (nn.Conv1D(3, 4, 5, 2, "same"), "channels", "put Padding before it"),
        (nn.Pool1D(3, 2, ceil_mode=True), "channels", "ceil_mode"),
        (nn.Pool1D(3, 2, 1), "channels", "without padding"),
        (nn.TransformerEncoderLayer(3, 1, 4), "features", "every step by itself"),
        (nn.LSTM(3, 4), "features", "every step by itself"),
        (nn.ScalarLayerNorm((1, 2)), "features", "along time"),
        (nn.LogSoftmax(1), "features", "along time"),
        (nn.Linear(3, 3), "channels", "along time"),
        (nn.LayerNorm((2, 3)), "features", "along time"),
        (nn.Padding([(0, 0), (0, 0), (1, 1)], 1.0), "channels", "only zeros"),
        (nn.Residual(nn.Linear(3, 3)), "features", "every step by itself"),
    ],
)
def test_layers_that_need_the_whole_are_refused(layer, layout, reason):
    model = AcousticModel(nn.Sequential(layer), layout).eval()
    with pytest.raises(nn.ModuleError, match=reason) as error:
        model.stream()
    assert type(layer).__name__ in str(error.value)


def test_blocks_with_norms_over_time_are_refused():
    model = load_arch("digits_tds", 40, 5).eval()
    with pytest.raises(nn.ModuleError, match="depends on the length"):
        model.stream()
    block = AcousticModel(nn.Sequential(nn.TDSBlock(1, 3, 4)), "image").eval()
    with pytest.raises(nn.ModuleError, match="norm_over_time=False"):
        block.stream()


def test_wrong_use_of_a_stream():
    model = load_arch("digits_streaming_tds", 40, 5)
    with pytest.raises(nn.ModuleError, match=r"call eval\(\) first"):
        model.stream()
    stream = model.eval().stream()
    with pytest.raises(ft.ArgumentError, match="finish before push"):
        stream.finish()
    with pytest.raises(ft.ShapeError, match=r"expected \(steps, features\)"):
        stream.push(ft.zeros((40,)))
    stream.push(ft.zeros((3, 40)))
    with pytest.raises(ft.ShapeError, match="behind others"):
        stream.push(ft.zeros((3, 20)))
    stream.finish()
    with pytest.raises(ft.ArgumentError, match="push behind finish"):
        stream.push(ft.zeros((3, 40)))
    with pytest.raises(ft.ArgumentError, match="finish twice"):
        stream.finish()
