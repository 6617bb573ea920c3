"""The recurrent decoder: its loss, its two ways of computing, its paths, training."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fl_data as data
import fl_nn as nn
import fl_tensor as ft
import fl_text as text
from fl_speech.criteria import (
    CTC,
    EmittingModel,
    MedianWindow,
    MultiHeadContentAttention,
    Seq2Seq,
    SoftPretrainWindow,
    SoftWindow,
    StepWindow,
    make_attention,
)
from fl_speech.criteria.sampling import SAMPLINGS
from fl_text.decoder import DecoderOptions, LexiconSeq2SeqDecoder

CLASSES, SIZE, EOS = 7, 8, 0
LENGTHS = [9, 4, 6]
TARGETS = np.array([[1, 2, 3, -1], [4, -1, -1, -1], [5, 5, 2, 1]])
WINDOWS = {
    "none": None,
    "median": MedianWindow(2, 1),
    "step": StepWindow(0, 3, 0.5, 2.0),
    "soft": SoftWindow(1.0, 2.0, 1.0),
    "softpretrain": SoftPretrainWindow(2.0),
}


def encoded(width: int = SIZE, seed: int = 0) -> ft.Tensor:
    rng = np.random.default_rng(seed)
    return ft.asarray(rng.normal(size=(3, 9, width)))


def made(kind: str = "content", rounds: int = 1, seed: int = 1, **options) -> Seq2Seq:
    ft.seed(seed)
    attentions = [
        make_attention(kind, SIZE, heads=2, kernel=3, dtype=ft.float64) for _ in range(rounds)
    ]
    options = {"max_length": 6, "attentions": attentions, "dtype": ft.float64} | options
    model = Seq2Seq(CLASSES, SIZE, EOS, **options)
    model.embedding.weight.tensor = model.embedding.weight.tensor * 3.0  # paths that differ
    return model


def width(kind: str) -> int:
    return SIZE * (1 + ("kv" in kind or kind == "keyvalue"))


# ---- the loss ------------------------------------------------------------------------------------


def test_the_loss_is_that_of_the_targets_and_their_ends():
    model = made(reduction="none")
    scores, _ = model.vectorized_decoder(encoded(), TARGETS, LENGTHS)
    log_probs = ft.log_softmax(scores, -1).numpy()
    expected = [
        -sum(log_probs[b, u, token] for u, token in enumerate([*[t for t in row if t >= 0], EOS]))
        for b, row in enumerate(TARGETS)
    ]
    np.testing.assert_allclose(model((encoded(), LENGTHS), TARGETS).numpy(), expected)
    model.reduction = "mean"
    np.testing.assert_allclose(model((encoded(), LENGTHS), TARGETS).item(), np.mean(expected))


def test_an_end_token_in_the_target_counts_once():
    model = made(reduction="none")
    ended = np.array([[1, 2, 3, 0, -1], [4, 0, -1, -1, -1], [5, 5, 2, 1, 0]])
    np.testing.assert_allclose(
        model((encoded(), LENGTHS), ended).numpy(), model((encoded(), LENGTHS), TARGETS).numpy()
    )


def test_an_empty_target_is_an_end():
    model = made(reduction="none")
    scores, _ = model.vectorized_decoder(encoded(), np.empty((3, 0), np.int64))
    assert scores.shape == (3, 1, CLASSES)
    expected = -ft.log_softmax(scores, -1).numpy()[:, 0, EOS]
    found = model((encoded(), None), np.empty((3, 0), np.int64)).numpy()
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("kind", ["content", "multikv", "neuralloc"])
@pytest.mark.parametrize("window", WINDOWS)
def test_a_sample_has_the_same_loss_alone(kind, window):
    model = made(kind, reduction="none", window=WINDOWS[window]).eval()
    together = model((encoded(width(kind)), LENGTHS), TARGETS).numpy()
    for b, length in enumerate(LENGTHS):
        x = encoded(width(kind))[b : b + 1, :length]
        target = TARGETS[b : b + 1, : (TARGETS[b] >= 0).sum()]
        np.testing.assert_allclose(model((x, None), target).numpy()[0], together[b], rtol=1e-9)


@pytest.mark.parametrize("pad", [None, 6, EOS])
def test_the_padding_token_survives_save_and_load(pad, tmp_path):
    model = made(attentions=None, pad=pad, reduction="none", window=StepWindow(0, 3))
    padded = np.where(TARGETS < 0, -1 if pad is None else pad, TARGETS)
    expected = model((encoded(), LENGTHS), TARGETS).numpy()
    np.testing.assert_array_equal(model((encoded(), LENGTHS), padded).numpy(), expected)
    assert model.target_lengths(padded).tolist() == [3, 1, 4]

    nn.save_weights(tmp_path / "model.safetensors", model)
    config = json.loads(json.dumps(model.to_config()))
    twin = nn.from_config(config, types=[Seq2Seq, StepWindow])
    nn.load_weights(tmp_path / "model.safetensors", twin)
    assert twin.pad == pad
    np.testing.assert_array_equal(twin((encoded(), LENGTHS), padded).numpy(), expected)


def test_scales():
    by_sample = made(reduction="none")((encoded(), LENGTHS), TARGETS).numpy()
    for mode, divisors in [("input", LENGTHS), ("target", [4, 2, 5])]:
        found = made(scale_mode=mode, reduction="none")((encoded(), LENGTHS), TARGETS).numpy()
        np.testing.assert_allclose(found, by_sample / divisors)


def test_label_smoothing_is_for_training():
    model, plain = made(label_smoothing=0.2, reduction="none"), made(reduction="none")
    scores, _ = plain.vectorized_decoder(encoded(), TARGETS, LENGTHS)
    log_probs = ft.log_softmax(scores, -1).numpy()
    spread = [log_probs[b, :n].sum() / CLASSES for b, n in enumerate([4, 2, 5])]
    hard = plain((encoded(), LENGTHS), TARGETS).numpy()
    found = model((encoded(), LENGTHS), TARGETS).numpy()
    np.testing.assert_allclose(found, 0.8 * hard - 0.2 * np.array(spread))
    np.testing.assert_allclose(model.eval()((encoded(), LENGTHS), TARGETS).numpy(), hard)


# ---- two ways of computing -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["keyvalue", "neural", "multikv"])
@pytest.mark.parametrize("window", ["none", "step", "soft", "softpretrain"])
def test_all_steps_at_once_are_one_after_the_other(kind, window):
    model = made(kind, rounds=2, layers=2, window=WINDOWS[window], train_with_window=True)
    x = encoded(width(kind))
    gradients = []
    for decoder in (model.vectorized_decoder, model.sequential_decoder):
        scores, weights = decoder(x, TARGETS, LENGTHS)
        model.zero_grad()
        ft.sum(ft.sin(scores)).backward()
        found = {n: p.grad.numpy() for n, p in model.named_parameters() if p.grad is not None}
        gradients.append(found | {"scores": scores.numpy(), "weights": weights.numpy()})
    assert gradients[0].keys() == gradients[1].keys()
    for name, value in gradients[0].items():
        np.testing.assert_allclose(gradients[1][name], value, rtol=1e-9, atol=1e-11, err_msg=name)


def test_what_goes_step_by_step_is_refused_at_once():
    sequential = {
        "location": made("location"),
        "input feeding": made(input_feeding=True),
        "median": made(window=MedianWindow(), train_with_window=True),
        "gumbel": made(sampling="gumbel"),
        "model": made(sampling="model", teacher_forcing=50),
    }
    for model in sequential.values():
        assert model.is_sequential()
        assert np.isfinite(model((encoded(), LENGTHS), TARGETS).item())
        with pytest.raises(nn.ModuleError, match="sequential_decoder"):
            model.vectorized_decoder(encoded(), TARGETS, LENGTHS)
    assert not made(window=MedianWindow()).is_sequential()  # not used in training
    assert made(window=MedianWindow()).eval().is_sequential()
    assert not made(sampling="model").is_sequential()  # nothing is sampled
    assert not made(sampling="gumbel").eval().is_sequential()


def test_input_feeding_adds_the_summary():
    model, plain = made(input_feeding=True), made()
    fed = model.sequential_decoder(encoded(), TARGETS)[0].numpy()
    unfed = plain.sequential_decoder(encoded(), TARGETS)[0].numpy()
    np.testing.assert_allclose(fed[:, 0], unfed[:, 0])  # nothing before the first step
    state = plain.start(encoded())
    _, state = plain.decode_step(None, state)
    embedded = plain.embed(ft.asarray(TARGETS[:, 0])) + state.summary[:, 0]
    second, _ = plain.step(ft.expand_dims(embedded, 1), state, None)
    np.testing.assert_allclose(fed[:, 1], second.numpy())


# ---- windows in training -------------------------------------------------------------------------


def test_windows_of_training_and_evaluation():
    window, pretrain = StepWindow(0, 1, 0.0, 0.0), SoftPretrainWindow(0.1)
    x, loss = (encoded(), LENGTHS), lambda m: m(x, TARGETS).item()
    plain = loss(made())
    model = made(window=window, pretrain_window=pretrain)
    assert loss(model) == plain  # training does without
    model.pretraining = True
    pretrained = loss(model)
    assert pretrained == loss(made(window=pretrain, train_with_window=True)) != plain
    assert loss(model.eval()) == loss(made(window=window).eval()) != plain
    assert loss(made(window=window, train_with_window=True)) == loss(model)


# ---- sampling ------------------------------------------------------------------------------------


def test_sampling_is_for_training_and_for_what_is_not_forced():
    x, plain = (encoded(), LENGTHS), made()((encoded(), LENGTHS), TARGETS).item()
    for sampling in SAMPLINGS:
        model = made(sampling=sampling, teacher_forcing=0)
        assert model(x, TARGETS).item() != plain
        assert model.eval()(x, TARGETS).item() == pytest.approx(plain, rel=1e-12)
        forced = made(sampling=sampling, teacher_forcing=100)(x, TARGETS).item()
        assert (forced == plain) is (sampling != "gumbel")


def test_the_sampled_token_is_the_best_of_the_model():
    model = made(sampling="model", teacher_forcing=0)
    scores, _ = model.sequential_decoder(encoded(), TARGETS, LENGTHS)
    own, state = model.decode_step(None, model.start(encoded(), LENGTHS))
    for u in range(scores.shape[1]):
        np.testing.assert_allclose(scores.numpy()[:, u], own.numpy())
        own, state = model.decode_step(ft.argmax(own, -1), state)


def test_teacher_forcing_is_a_share():
    class Counting(Seq2Seq):
        def embed(self, tokens: ft.Array) -> ft.Array:
            seen.append(tokens.numpy())
            return super().embed(tokens)

    for kind, rtol in (("content", 0.05), ("simpleloc", 0.2)):
        seen: list[np.ndarray] = []
        ft.seed(3)
        model = Counting(
            1000, SIZE, EOS, attentions=[make_attention(kind, SIZE)], teacher_forcing=70.0
        )
        for _ in range(1 if kind == "content" else 3):
            model((ft.randn((20, 3, SIZE)), None), np.full((20, 60), 7))
        np.testing.assert_allclose((np.concatenate(seen, None) == 7).mean(), 0.7, rtol=rtol)


def test_gumbel_shows_the_mean_of_all_embeddings():
    model = made(sampling="gumbel", gumbel_temperature=2.0, seed=4)
    twin = made(sampling="gumbel", gumbel_temperature=2.0, seed=4)
    scores, _ = model.sequential_decoder(encoded(), TARGETS, LENGTHS)
    np.testing.assert_allclose(np.exp(scores.numpy()).sum(-1), 1.0)
    _, state = twin.decode_step(None, twin.start(encoded(), LENGTHS))
    mixed = np.exp(scores.numpy()[:, 0]) @ twin.embedding.weight.numpy()
    second, _ = twin.step(ft.expand_dims(ft.asarray(mixed), 1), state, None)
    noise = scores.numpy()[:, 1] * 2.0 - second.numpy()  # up to a constant of each row
    assert (noise.std(1) > 0.2).all()
    assert (np.abs(noise - noise.mean(1, keepdims=True)) < 20).all()


# ---- paths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["content", "location", "multi"])
@pytest.mark.parametrize("window", WINDOWS)
def test_a_beam_of_one_is_the_best_path(kind, window):
    model = made(kind, window=WINDOWS[window])
    greedy = model.best_path(encoded(), LENGTHS)
    beam = model.beam_path(encoded(), LENGTHS, beam_size=1)
    assert [p.tolist() for p in greedy] == [p.tolist() for p in beam]
    assert all(p.dtype == np.int64 and EOS not in p and len(p) <= 6 for p in greedy)
    assert model.training


@pytest.mark.parametrize("window", WINDOWS)
def test_the_best_path_of_a_batch_is_that_of_each(window):
    model = made(window=WINDOWS[window])
    together = model.best_path(encoded(), LENGTHS)
    for b, length in enumerate(LENGTHS):
        assert model.best_path(encoded()[b : b + 1, :length])[0].tolist() == together[b].tolist()


def test_a_path_ends_with_the_end_token():
    model, calls = made(), list[int]()
    model.out.bias.tensor = ft.asarray([50.0] + [0.0] * 6, ft.float64)
    model.out.register_forward_hook(lambda *_: calls.append(1))
    assert [p.tolist() for p in model.best_path(encoded())] == [[]] * 3
    assert len(calls) == 1  # nothing is computed after the last end
    assert [p.tolist() for p in model.beam_path(encoded())] == [[]] * 3


@pytest.mark.parametrize("window", WINDOWS)
def test_a_beam_that_holds_everything_finds_the_best_sequence(window):
    model = made(window=WINDOWS[window], max_length=2).eval()
    best = model.beam_search(encoded()[:1], beam_size=200)[0]
    scores = {}
    first, state = model.decode_step(None, model.start(encoded()[:1]))
    first = ft.log_softmax(first, -1).numpy()[0]
    for a in range(CLASSES):
        second, _ = model.decode_step([a], state)
        for b, more in enumerate(ft.log_softmax(second, -1).numpy()[0]):
            scores[(a,) if a == EOS else (a, b)] = first[a] + (0.0 if a == EOS else more)
    assert len(best) == len(scores)
    for hypothesis in best:
        expected = scores[tuple(hypothesis.tokens)]
        np.testing.assert_allclose(hypothesis.score, expected, rtol=1e-9)
    assert tuple(best[0].tokens) == max(scores, key=scores.get)
    assert len(model.beam_search(encoded(), LENGTHS, 5, max_length=1, n_best=2)[2]) == 2


@pytest.mark.parametrize("kind", ["neuralloc", "multisplit"])
@pytest.mark.parametrize("window", WINDOWS)
def test_batched_steps_are_single_ones(kind, window):
    model = made(kind, rounds=2, layers=2, window=WINDOWS[window], input_feeding=True).eval()
    one = encoded()[:1]
    start = model.start(one)
    scores, states = model.decode_batch_step([-1, -1, -1], [start] * 3)
    paths = [[3, 1], [5, 5], [2, 6]]
    for u in range(2):
        tokens = [path[u] for path in paths]
        scores, states = model.decode_batch_step(tokens, states)
    for b, path in enumerate(paths):
        alone, state = model.decode_step(None, model.start(one))
        for token in path:
            alone, state = model.decode_step([token], state)
        expected = ft.log_softmax(alone, -1).numpy()[0]
        np.testing.assert_allclose(scores[b], expected, rtol=1e-9)


def test_a_state_goes_on_in_several_ways():
    model = made().eval()
    _, state = model.decode_step(None, model.start(encoded(), LENGTHS))
    ways = [model.decode_step([k] * 3, state)[0].numpy() for k in (1, 2, 1)]
    assert np.abs(ways[0] - ways[1]).max() > 1e-3
    np.testing.assert_array_equal(ways[0], ways[2])
    some = state.select([2, 0])
    assert some.rows == 2 and state.rows == 3
    np.testing.assert_allclose(model.decode_step([1, 1], some)[0].numpy(), ways[0][[2, 0]])


def test_states_of_several_recordings_are_not_joined():
    model = made().eval()
    with pytest.raises(nn.ModuleError, match="several recordings"):
        model.decode_batch_step([-1, -1], [model.start(encoded()[:1]) for _ in range(2)])
    batch = model.start(encoded())
    with pytest.raises(nn.ModuleError, match="one recording"):
        model.decode_batch_step([-1, -1], [batch, batch])
    with pytest.raises(nn.ModuleError, match="at least one"):
        model.decode_batch_step([], [])


# ---- behind the decoders of fl-text --------------------------------------------------------------


def test_a_lexicon_decoder_finds_words_only():
    tokens = text.Dictionary(["</s>", *"abcdef"])
    lexicon = text.Lexicon({"abc": [list("abc")], "fed": [list("fed")]})
    criterion = made().eval()
    model = criterion.emitting_model(temperature=2.0)
    decoder = LexiconSeq2SeqDecoder(
        lexicon, tokens, model, None, DecoderOptions(beam_size=50), max_output_length=4
    )
    found = decoder.decode(model.start(encoded()[0]))
    assert sorted(h.text for h in found if h.tokens[-1] == EOS and len(h.tokens) > 1) == [
        "abc",
        "fed",
    ]
    by_hand, state = 0.0, model.start(encoded()[:1])
    best = max((h for h in found if len(h.tokens) == 4), key=lambda h: h.score)
    for before, token in zip([-1, *best.tokens], best.tokens, strict=False):
        logits, state = criterion.decode_step([before], state)
        by_hand += ft.log_softmax(logits / 2.0, -1).numpy()[0, token]
    np.testing.assert_allclose(best.score, by_hand)


def test_hypotheses_whose_attention_jumps_are_dropped():
    model = made().eval()
    x = ft.zeros((1, 9, SIZE), dtype=ft.float64)
    free = model.emitting_model()
    first, state = free(np.array([-1]), free.start(x))
    x[0, 5] = 100.0 * np.sign(state.hidden[0].numpy()[0, 0])  # what the first state looks at
    for threshold, dropped in [(4, True), (5, False), (None, False)]:
        emitting = model.emitting_model(attention_threshold=threshold)
        scores, _ = emitting(np.array([-1]), emitting.start(x))
        assert np.isneginf(scores).all() == dropped


# ---- what does not fit ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eos": 7}, "eos 7"),
        ({"classes": 0}, "at least 1"),
        ({"max_length": 0}, "at least 1"),
        ({"teacher_forcing": 101}, "percentage"),
        ({"label_smoothing": 1.0}, "share"),
        ({"gumbel_temperature": 0.0}, "above 0"),
        ({"sampling": "best"}, "'gumbel'"),
        ({"attentions": []}, "at least one"),
        (
            {"attentions": [MultiHeadContentAttention(8, 2), MultiHeadContentAttention(8, 4)]},
            "as many heads",
        ),
    ],
)
def test_settings_that_do_not_fit(options, message):
    with pytest.raises((nn.ModuleError, ft.ArgumentError), match=message):
        Seq2Seq(**{"classes": CLASSES, "hidden": SIZE, "eos": EOS} | options)


def test_inputs_that_do_not_fit():
    model = made()
    with pytest.raises(ft.IndexingError, match="sample 1.*holds 7"):
        model((encoded(), LENGTHS), [[1, 2], [7, -1], [1, 1]])
    with pytest.raises(ft.IndexingError, match="-1 only after"):
        model((encoded(), LENGTHS), [[1, 2], [-1, 3], [1, 1]])
    with pytest.raises(ft.ShapeError, match="sample 2 has no frames"):
        model((encoded(), [9, 4, 0]), TARGETS)
    with pytest.raises(ft.ShapeError, match="twice as many"):
        model((encoded(SIZE + 1), LENGTHS), TARGETS)
    with pytest.raises(nn.ModuleError, match="CTC or ASG"):
        model.align(encoded(), TARGETS, LENGTHS)
    _, state = model.decode_step(None, model.start(encoded()))
    with pytest.raises(nn.ModuleError, match="no previous tokens"):
        model.decode_step(None, state)
    with pytest.raises(ft.ShapeError, match="3 rows"):
        model.decode_step([1], state)
    with pytest.raises(nn.ModuleError, match="temperature"):
        model.emitting_model(0.0)
    with pytest.raises(nn.ModuleError, match="attention_threshold"):
        model.emitting_model(1.0, -1.0)
    with pytest.raises(ft.ShapeError, match="one recording"):
        model.emitting_model().start(encoded())


# ---- training ------------------------------------------------------------------------------------


def test_it_learns_to_copy():
    rng = np.random.default_rng(5)
    targets = rng.integers(1, 5, (160, 4))
    noise = rng.normal(size=(160, 8, 5)) * 0.1
    x = np.repeat(np.eye(5)[targets], 2, 1) + noise  # each token lasts two frames
    ft.seed(6)
    hidden = 24

    class Copying(nn.Module):
        takes_lengths = True

        def __init__(self) -> None:
            self.rnn = nn.GRU(5, hidden // 2, batch_first=True, bidirectional=True)

        def forward(self, x: ft.Array, lengths: ft.Array) -> tuple[ft.Array, ft.Array]:
            return self.rnn(x)[0], lengths

    model = Copying()
    window = SoftWindow(2.0, 2.0, 1.0)
    criterion = Seq2Seq(5, hidden, EOS, max_length=8, window=window, train_with_window=True)
    whole = nn.Sequential(model, criterion)  # one optimizer for both
    optimizer = nn.AdamW(whole.parameters(), lr=0.02)
    trainer = nn.Trainer(model, optimizer, criterion, progress=False)
    fields = [ft.asarray(x, ft.float32), ft.full((160,), 8), ft.asarray(targets)]
    train = data.TensorDataset(*(field[:128] for field in fields))
    history = trainer.fit(data.Batch(data.Shuffle(train), 32), epochs=10)
    with nn.evaluating(model):
        output, lengths = model(fields[0][128:], fields[1][128:])
    right = [
        p.tolist() == t.tolist()
        for p, t in zip(criterion.best_path(output, lengths), targets[128:], strict=True)
    ]
    assert np.mean(right) >= 0.9, (np.mean(right), history[-1])
    weights = criterion.attention_weights(output, targets[128:], lengths).numpy()
    assert weights.shape == (32, 5, 8)
    np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-5)


def test_criteria_of_frames_have_no_emitting_model() -> None:
    with pytest.raises(nn.ModuleError, match="CTC decodes frames: give a criterion with a"):
        EmittingModel(CTC())
