"""`arch.load_flashlight_weights`: Flashlight's parameters give Flashlight's outputs.

The references compute with Flashlight's axes, features first and the batch last, from arrays of the
shapes that its modules have. The files hold those with reversed axes, as its exporter writes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn.arch import load_flashlight_weights

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape) * 0.4


def exported(folder: Path, arrays: Sequence[np.ndarray]) -> Path:
    """Arrays with column-major bytes, read as row-major ones."""
    path = folder / "weights.safetensors"
    turned = {str(i): np.ascontiguousarray(a.T).astype(np.float32) for i, a in enumerate(arrays)}
    nn.save_tensors(path, {name: ft.asarray(a) for name, a in turned.items()}, {})
    return path


def loaded(folder: Path, text: str, arrays: Sequence[np.ndarray]) -> nn.Module:
    model = nn.build_sequential(text, as_flashlight=True)
    load_flashlight_weights(exported(folder, arrays), model)
    return model.eval().to(ft.float64)


def outputs(model: nn.Module, x: np.ndarray) -> np.ndarray:
    return np.asarray(model(ft.asarray(x, ft.float64)).tolist())


def scalar_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, axes: object) -> np.ndarray:
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * weight + bias


def test_linear(tmp_path: Path) -> None:
    w, b = drawn(3, 4), drawn(3)  # out, in
    x = drawn(4, 5)  # features, steps
    model = loaded(tmp_path, "L 4 3", [w, b])
    np.testing.assert_allclose(outputs(model, x.T), (w @ x + b[:, None]).T, atol=1e-6)


def test_weight_norm_of_linear(tmp_path: Path) -> None:
    v, g, b = drawn(3, 4), drawn(3), drawn(3)
    w = v * (g / np.linalg.norm(v, axis=1))[:, None]
    x = drawn(4, 5)
    model = loaded(tmp_path, "WN 0 L 4 3", [v, g, b])
    np.testing.assert_allclose(outputs(model, x.T), (w @ x + b[:, None]).T, atol=1e-5)


def convolved(x: np.ndarray, kernel: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """x (steps, width, channels), kernel (steps, width, in, out), bias (1, 1, out, 1)."""
    kx, ky, _, outs = kernel.shape
    steps, width = x.shape[0] - kx + 1, x.shape[1] - ky + 1
    y = np.zeros((steps, width, outs)) + bias.reshape(1, 1, outs)
    for i in range(kx):
        for j in range(ky):
            y += x[i : i + steps, j : j + width] @ kernel[i, j]
    return y


def test_convolution(tmp_path: Path) -> None:
    kernel, bias = drawn(3, 2, 4, 5), drawn(1, 1, 5, 1)
    x = drawn(9, 6, 4)  # steps, width, channels
    model = loaded(tmp_path, "C2 4 5 3 2 1 1", [kernel, bias])
    found = outputs(model, x.transpose(2, 1, 0)[None])  # (1, channels, width, steps)
    expected = convolved(x, kernel, bias).transpose(2, 1, 0)[None]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_time_depth_separable_block(tmp_path: Path) -> None:
    channels, width, k, hidden = 3, 4, 3, 5
    size = channels * width
    arrays = [
        drawn(k, 1, channels, channels), drawn(1, 1, channels, 1), drawn(1), drawn(1),
        drawn(hidden, size), drawn(hidden), drawn(size, hidden), drawn(size), drawn(1), drawn(1),
    ]  # fmt: skip
    kernel, bias, g1, b1, w1, c1, w2, c2, g2, b2 = arrays
    x = drawn(7, width, channels)
    padded = np.pad(x, ((1, 1), (0, 0), (0, 0)))
    y = scalar_norm(x + np.maximum(convolved(padded, kernel, bias), 0), g1, b1, None)
    flat = y.transpose(2, 1, 0).reshape(size, -1, order="F")  # channels count first
    z = w2 @ np.maximum(w1 @ flat + c1[:, None], 0) + c2[:, None]
    z = z.reshape(channels, width, -1, order="F").transpose(2, 1, 0)
    expected = scalar_norm(y + z, g2, b2, None)
    model = loaded(tmp_path, f"TDS {channels} {k} {width} 0.0 {hidden}", arrays)
    found = outputs(model, x.transpose(2, 1, 0)[None])
    np.testing.assert_allclose(found[0].transpose(2, 1, 0), expected, atol=1e-4)


def attended(
    x: np.ndarray, heads: int, wq: np.ndarray, wk: np.ndarray, wv: np.ndarray, wf: np.ndarray
) -> np.ndarray:
    """x (features, steps)."""
    size, steps = x.shape
    parts = []
    for q, k, v in zip(*(np.split(w @ x, heads) for w in (wq, wk, wv)), strict=True):
        scores = q.T @ k / math.sqrt(size // heads)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        parts.append(v @ (weights / weights.sum(1, keepdims=True)).T)
    return wf @ np.concatenate(parts)


def test_transformer(tmp_path: Path) -> None:
    size, hidden, heads, steps = 8, 12, 2, 5
    w1, w2 = drawn(hidden, size), drawn(size, hidden)
    attention = [drawn(size, size) for _ in range(4)]
    norms = [drawn(1) for _ in range(4)]
    x = drawn(size, steps)
    y = scalar_norm(x + attended(x, heads, *attention), norms[0], norms[1], 0)
    expected = scalar_norm(y + w2 @ np.maximum(w1 @ y, 0), norms[2], norms[3], 0)
    model = loaded(tmp_path, f"TR {size} {hidden} {heads} 0 0.0", [w1, w2, *attention, *norms])
    found = outputs(model, x.T[None, None])[0, 0]
    np.testing.assert_allclose(found.T, expected, atol=1e-4)


def test_conformer(tmp_path: Path) -> None:
    size, hidden, heads, k, steps = 8, 12, 2, 3, 6
    arrays = [
        drawn(hidden, size), drawn(size, hidden), drawn(size), drawn(size),
        drawn(hidden, size), drawn(size, hidden), drawn(size), drawn(size),
        *(drawn(size, size) for _ in range(4)), drawn(size), drawn(size),
        drawn(2 * size, size), drawn(size, size), drawn(k, 1, 1, size), drawn(1, 1, size, 1),
        *(drawn(size) for _ in range(6)),
    ]  # fmt: skip
    w11, w12, g1, b1, w21, w22, g2, b2, *attention, ga, ba, c1, c2, depth, bias = arrays[:18]
    gc1, bc1, gc2, bc2, g3, b3 = arrays[18:]

    def norm(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
        return scalar_norm(x, g[:, None], b[:, None], 0)

    def swish(x: np.ndarray) -> np.ndarray:
        return x / (1 + np.exp(-x))

    x = drawn(size, steps)
    y = x + 0.5 * w12 @ swish(w11 @ norm(x, g1, b1))
    y = y + attended(norm(y, ga, ba), heads, *attention)
    value, gate = np.split(c1 @ norm(y, gc1, bc1), 2)
    inner = np.pad(value / (1 + np.exp(-gate)), ((0, 0), (1, 1)))
    inner = sum(depth[i, 0, 0][:, None] * inner[:, i : i + steps] for i in range(k))
    y = y + c2 @ swish(norm(inner + bias.reshape(-1, 1), gc2, bc2))
    y = y + 0.5 * w22 @ swish(w21 @ norm(y, g2, b2))
    model = loaded(tmp_path, f"CFR {size} {hidden} {heads} 0 {k} 0.0", arrays)
    found = outputs(model, x.T[None, None])[0, 0]
    np.testing.assert_allclose(found.T, norm(y, g3, b3), atol=1e-4)


def test_layers_follow_one_another_and_positions_come_first(tmp_path: Path) -> None:
    size, reach = 8, 6
    text = f"L 4 {size}\nR\nTR {size} 12 2 {reach} 0.0\nL {size} 3"
    table = drawn(2 * reach - 1, size // 2)
    arrays = [
        drawn(size, 4), drawn(size), table, drawn(12, size), drawn(size, 12),
        *(drawn(size, size) for _ in range(4)), *(drawn(1) for _ in range(4)),
        drawn(3, size), drawn(3),
    ]  # fmt: skip
    model = loaded(tmp_path, text, arrays)
    state = {name: np.asarray(value) for name, value in model.state_dict().items()}
    (positions,) = [value for name, value in state.items() if "relative" in name]
    np.testing.assert_allclose(positions, table, atol=1e-6)
    np.testing.assert_allclose(state["3.weight"], arrays[-2], atol=1e-6)


def test_files_that_do_not_fit_change_nothing(tmp_path: Path) -> None:
    model = nn.build_sequential("L 4 3\nL 3 2", as_flashlight=True)
    before = {name: np.asarray(value).copy() for name, value in model.state_dict().items()}
    fits = [drawn(3, 4), drawn(3), drawn(2, 3), drawn(2)]
    with pytest.raises(nn.CheckpointError, match='3 tensors, and the network has 4.*"0" to "3"'):
        load_flashlight_weights(exported(tmp_path, fits[:3]), model)
    with pytest.raises(nn.CheckpointError, match=r'tensor "2" has shape \(5, 2\).*\(2, 3\) of 1'):
        load_flashlight_weights(exported(tmp_path, [*fits[:2], drawn(2, 5), fits[3]]), model)
    with pytest.raises(nn.CheckpointError, match=r'tensor "3" has shape \(7,\)'):
        load_flashlight_weights(exported(tmp_path, [*fits[:3], drawn(7)]), model)
    for name, value in model.state_dict().items():
        assert (np.asarray(value) == before[name]).all()


@pytest.mark.parametrize("line", ["LSTM 4 3 1 0", "BN 4 2"])
def test_layers_that_cannot_be_taken_over(tmp_path: Path, line: str) -> None:
    model = nn.build_sequential(line, as_flashlight=True)
    with pytest.raises(nn.ModuleError, match="no weights of Flashlight fill"):
        load_flashlight_weights(exported(tmp_path, [drawn(1)]), model)
