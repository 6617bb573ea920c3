"""Each attention against NumPy in float64, its masks, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_speech.criteria import Attention, make_attention
from fl_speech.criteria.attention import ATTENTIONS

SIZE, HEADS, KERNEL, BATCH, STEPS, FRAMES = 8, 4, 3, 3, 4, 6
LOCATION = ("simpleloc", "location", "neuralloc")
LENGTHS = [6, 3, 1]


def made(kind: str) -> Attention:
    ft.seed(1)
    return make_attention(kind, SIZE, heads=HEADS, kernel=KERNEL, channels=3, dtype=ft.float64)


def inputs(kind: str, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    steps = 1 if kind in LOCATION else STEPS
    width = SIZE * (1 + ("kv" in kind or kind == "keyvalue"))
    previous = rng.random((BATCH, HEADS if "multi" in kind else 1, FRAMES))
    return {
        "state": rng.normal(size=(BATCH, steps, SIZE)),
        "encoded": rng.normal(size=(BATCH, FRAMES, width)),
        "previous": previous / previous.sum(-1, keepdims=True),
        "log_weights": -rng.random((BATCH, steps, FRAMES)),
    }


def run(layer: Attention, given: dict[str, np.ndarray], **more) -> tuple[np.ndarray, np.ndarray]:
    arrays = {name: ft.asarray(value) for name, value in given.items()}
    weights, summaries = layer(**arrays, **more)
    return weights.numpy(), summaries.numpy()


def reference(kind: str, layer: Attention, given: dict[str, np.ndarray], lengths: list[int]):
    """One sample, head and step after the other."""
    p = {name: value.numpy() for name, value in layer.state_dict().items()}
    linear = lambda name, x: x @ p[f"{name}.weight"].T + p.get(f"{name}.bias", 0.0)  # noqa: E731
    heads = HEADS if "multi" in kind else 1
    steps = given["state"].shape[1]
    weights, summaries = np.zeros((BATCH, heads * steps, FRAMES)), np.zeros((BATCH, steps, SIZE))
    for b in range(BATCH):
        keys = values = given["encoded"][b]
        if "kv" in kind or kind == "keyvalue":
            keys, values = keys[:, :SIZE], keys[:, SIZE:]
        padded = np.pad(given["previous"][b, 0], KERNEL // 2)
        spots = np.stack([padded[t : t + KERNEL] for t in range(FRAMES)])
        for u in range(steps):
            s, mixed = given["state"][b, u], []
            for h in range(heads):
                part = slice(h * SIZE // heads, (h + 1) * SIZE // heads)
                if kind in ("content", "keyvalue"):
                    scores = keys @ s / np.sqrt(SIZE)
                elif kind == "neural":
                    scores = linear("out", np.maximum(keys + s, 0))[:, 0]
                elif kind == "simpleloc":
                    added = spots @ p["conv.weight"][0, 0] + p["conv.bias"]
                    scores = keys @ s + np.maximum(added, 0)
                elif kind == "location":
                    added = spots @ p["conv.weight"][:, 0].T + p["conv.bias"]
                    scores = (keys + np.maximum(added, 0)) @ s
                elif kind == "neuralloc":
                    places = spots @ p["conv.weight"][:, 0].T + p["conv.bias"]
                    total = linear("of_frame", keys) + linear("of_state", s)
                    scores = linear("out", np.tanh(total + linear("of_place", places)))[:, 0]
                else:
                    own = (lambda _, x: x) if "split" in kind else linear
                    q, k = own("query", s)[part], own("key", keys)[:, part]
                    scores = k @ q / np.sqrt(SIZE // heads)
                scores = (scores + given["log_weights"][b, u])[: lengths[b]]
                found = np.exp(scores - scores.max())
                found /= found.sum()
                weights[b, h * steps + u, : lengths[b]] = found
                what = values
                if "multi" in kind:
                    what = values[:, part] if "split" in kind else linear("value", values)[:, part]
                mixed.append(found @ what[: lengths[b]])
            summaries[b, u] = np.concatenate(mixed)
            if "multi" in kind:
                summaries[b, u] = linear("out", summaries[b, u])
    return weights, summaries


@pytest.mark.parametrize("kind", ATTENTIONS)
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_numpy_in_float64(kind, seed):
    layer, given = made(kind), inputs(kind, seed)
    expected = reference(kind, layer, given, LENGTHS)
    for ours, theirs in zip(run(layer, given, lengths=LENGTHS), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_neural_attention_may_have_more_layers():
    ft.seed(2)
    from fl_speech.criteria import NeuralContentAttention

    layer, given = NeuralContentAttention(SIZE, 2, dtype=ft.float64), inputs("neural")
    p = {name: value.numpy() for name, value in layer.state_dict().items()}
    total = given["encoded"][:, None] + given["state"][:, :, None]
    hidden = np.maximum(np.maximum(total, 0) @ p["hidden.0.weight"].T + p["hidden.0.bias"], 0)
    scores = (hidden @ p["out.weight"].T + p["out.bias"])[..., 0] + given["log_weights"]
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(run(layer, given)[0], expected, rtol=1e-12)


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_weights_sum_to_one_and_are_zero_at_padding(kind):
    given = inputs(kind)
    given["log_weights"][:] = -10000.0  # even where a window excludes all frames
    given["log_weights"][:, :, -1] = 0.0
    weights, _ = run(made(kind), given, lengths=LENGTHS)
    np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-12)
    for row, length in zip(weights, LENGTHS, strict=True):
        assert (row[:, length:] == 0.0).all()


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_a_window_of_zeros_is_neutral(kind):
    layer, given = made(kind), inputs(kind)
    given["log_weights"][:] = 0.0
    windowed = run(layer, given, lengths=LENGTHS)
    del given["log_weights"]
    for a, b in zip(windowed, run(layer, given, lengths=LENGTHS), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_padding_does_not_matter(kind):
    layer, given = made(kind), inputs(kind)
    given["previous"][:] = given["previous"][:, :, :1]  # nothing that a convolution brings over
    before = run(layer, given, lengths=LENGTHS)
    for b, length in enumerate(LENGTHS):
        given["encoded"][b, length:] = 1e3
    for a, b in zip(before, run(layer, given, lengths=LENGTHS), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_states_may_share_one_recording(kind):
    layer, given = made(kind), inputs(kind)
    one = given["encoded"][:1]
    given["encoded"] = one
    shared = run(layer, given)
    given["encoded"] = np.repeat(one, BATCH, 0)
    for a, b in zip(shared, run(layer, given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("kind", LOCATION)
def test_location_takes_one_step_at_a_time(kind):
    given = inputs("content")
    with pytest.raises(ft.ShapeError, match="one step in a call"):
        run(made(kind), given)


@pytest.mark.parametrize("kind", LOCATION)
def test_location_has_nothing_to_add_in_the_first_step(kind):
    layer, given = made(kind), inputs(kind)
    after = run(layer, given)[0]
    del given["previous"]
    assert np.abs(run(layer, given)[0] - after).max() > 1e-4


@pytest.mark.parametrize(
    ("kind", "name", "shape", "message"),
    [
        ("content", "state", (BATCH, STEPS, SIZE + 1), "twice as many for keys"),
        ("keyvalue", "encoded", (BATCH, FRAMES, 7), "an even number of features"),
        ("neural", "encoded", (BATCH, FRAMES, 7), "expected 8 features"),
        ("multikv", "encoded", (BATCH, FRAMES, SIZE), "expected 16 features"),
        ("multi", "state", (BATCH, STEPS, SIZE + 1), "expected 8 features"),
        ("neuralloc", "state", (BATCH, 1, SIZE + 1), "expected 8 features"),
        ("content", "state", (BATCH + 1, STEPS, SIZE), "a row for each sample"),
        ("content", "log_weights", (BATCH, 1, FRAMES), "log_weights"),
        ("simpleloc", "previous", (BATCH, 1, FRAMES + 1), "the weights of one step"),
    ],
)
def test_shapes_that_do_not_fit(kind, name, shape, message):
    given = inputs(kind) | {name: np.zeros(shape)}
    with pytest.raises(ft.ShapeError, match=message):
        run(made(kind), given)


def test_a_sample_without_frames_is_named():
    with pytest.raises(ft.ShapeError, match="sample 1 has no frames"):
        run(made("content"), inputs("content"), lengths=[6, 0, 1])


def test_settings_that_do_not_fit():
    with pytest.raises(ft.ArgumentError, match="'multikvsplit'"):
        make_attention("dot", SIZE)
    with pytest.raises(nn.ModuleError, match="into 3 heads"):
        make_attention("multi", SIZE, heads=3)
    for kind in ("neural", "simpleloc", "location", "neuralloc", "multi"):
        with pytest.raises(nn.ModuleError, match="at least 1"):
            make_attention(kind, 0, kernel=0, heads=1)
