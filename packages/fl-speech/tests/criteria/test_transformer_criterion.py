"""The Transformer decoder: its loss, its steps, its paths."""

from __future__ import annotations

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_speech.criteria import (
    MedianWindow,
    SoftPretrainWindow,
    SoftWindow,
    StepWindow,
    TransformerCriterion,
    make_attention,
)

CLASSES, SIZE, EOS = 7, 8, 0
LENGTHS = [9, 4, 6]
TARGETS = np.array([[1, 2, 3, -1], [4, -1, -1, -1], [5, 5, 2, 1]])
WINDOWS = [None, MedianWindow(2, 1), StepWindow(0, 3, 0.5, 2.0), SoftWindow(1.0, 2.0, 1.0)]


def encoded(seed: int = 0) -> ft.Tensor:
    return ft.asarray(np.random.default_rng(seed).normal(size=(3, 9, SIZE)))


def made(kind: str = "content", **options) -> TransformerCriterion:
    ft.seed(1)
    options = {"max_length": 6, "layers": 1, "dtype": ft.float64} | options
    attention = make_attention(kind, SIZE, heads=2, kernel=3, dtype=ft.float64)
    model = TransformerCriterion(CLASSES, SIZE, EOS, attention=attention, **options)
    model.embedding.weight.tensor = model.embedding.weight.tensor * 4.0  # paths that differ
    return model


def test_the_loss_is_that_of_the_targets_and_their_ends():
    model = made(reduction="none")
    scores, _ = model.vectorized_decoder(encoded(), TARGETS, LENGTHS)
    log_probs = ft.log_softmax(scores, -1).numpy()
    expected = [
        -sum(log_probs[b, u, token] for u, token in enumerate([*[t for t in row if t >= 0], EOS]))
        for b, row in enumerate(TARGETS)
    ]
    np.testing.assert_allclose(model((encoded(), LENGTHS), TARGETS).numpy(), expected)


@pytest.mark.parametrize("kind", ["content", "multi"])
@pytest.mark.parametrize("window", [WINDOWS[0], *WINDOWS[2:], SoftPretrainWindow(2.0)])
def test_all_steps_at_once_are_one_after_the_other(kind, window):
    model = made(kind, layers=2, window=window, train_with_window=True)
    found = []
    for decoder in (model.vectorized_decoder, model.sequential_decoder):
        scores, weights = decoder(encoded(), TARGETS, LENGTHS)
        model.zero_grad()
        ft.sum(ft.sin(scores)).backward()
        gradients = {n: p.grad.numpy() for n, p in model.named_parameters() if p.grad is not None}
        found.append(gradients | {"scores": scores.numpy(), "weights": weights.numpy()})
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-8, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("kind", ["content", "simpleloc"])
@pytest.mark.parametrize("window", WINDOWS[:3])
def test_a_beam_of_one_is_the_best_path(kind, window):
    model = made(kind, window=window)
    greedy = model.best_path(encoded(), LENGTHS)
    beam = model.beam_path(encoded(), LENGTHS, beam_size=1)
    assert [p.tolist() for p in greedy] == [p.tolist() for p in beam]
    for b, length in enumerate(LENGTHS):
        alone = model.best_path(encoded()[b : b + 1, :length])[0]
        assert alone.tolist() == greedy[b].tolist()


def test_decoded_steps_are_those_of_the_loss():
    model = made(layers=2).eval()
    scores, _ = model.vectorized_decoder(encoded(), TARGETS, LENGTHS)
    state, tokens = model.start(encoded(), LENGTHS), None
    for u in range(scores.shape[1]):
        step, state = model.decode_step(tokens, state)
        np.testing.assert_allclose(step.numpy()[0], scores.numpy()[0, u], rtol=1e-9)
        tokens = np.maximum(TARGETS[:, min(u, 3)], 0)
    assert state.hidden[0].shape[2] == 5  # keys of five steps


@pytest.mark.parametrize("window", WINDOWS)
def test_batched_steps_are_single_ones(window):
    model = made("multi", window=window).eval()
    start = model.start(encoded()[:1])
    scores, states = model.decode_batch_step([-1, -1], [start] * 2)
    paths = [[3, 1, 1], [5, 5, 2]]
    for u in range(3):
        scores, states = model.decode_batch_step([path[u] for path in paths], states)
    for b, path in enumerate(paths):
        alone, state = model.decode_step(None, start)
        for token in path:
            alone, state = model.decode_step([token], state)
        np.testing.assert_allclose(scores[b], ft.log_softmax(alone, -1).numpy()[0], rtol=1e-9)


def test_a_state_goes_on_in_several_ways():
    model = made().eval()
    _, state = model.decode_step(None, model.start(encoded(), LENGTHS))
    ways = [model.decode_step([k] * 3, state)[0].numpy() for k in (1, 2, 1)]
    assert np.abs(ways[0] - ways[1]).max() > 1e-3
    np.testing.assert_array_equal(ways[0], ways[2])


def test_other_tokens_are_shown_in_training_by_a_percentage():
    forced, free = made(), made(teacher_forcing=0)
    x = (encoded(), LENGTHS)
    plain = forced(x, TARGETS).item()
    assert free(x, TARGETS).item() != plain
    assert free.eval()(x, TARGETS).item() == pytest.approx(plain, rel=1e-12)


def test_layers_are_left_out_in_training_only():
    ft.seed(3)
    model = made(layer_drop=0.5)
    found = {model((encoded(), LENGTHS), TARGETS).item() for _ in range(12)}
    assert len(found) > 1
    model.eval()
    assert len({model((encoded(), LENGTHS), TARGETS).item() for _ in range(4)}) == 1


def test_settings_that_do_not_fit():
    with pytest.raises(nn.ModuleError, match="layers=0"):
        made(layers=0)
    with pytest.raises(nn.ModuleError, match="3 heads"):
        made(heads=3)
    for kind, more in [
        ("location", {}),
        ("content", {"window": MedianWindow(), "train_with_window": True}),
        ("content", {"pretrain_window": MedianWindow()}),
    ]:
        with pytest.raises(nn.ModuleError, match="set layer_drop to 0"):
            made(kind, layer_drop=0.1, **more)
    made(layer_drop=0.1, window=MedianWindow())  # not in training
