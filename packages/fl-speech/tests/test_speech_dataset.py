"""Datasets of utterances: features, lengths, targets, effects, caches, bad samples."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fl_data as data
import fl_nn as nn
import fl_speech as speech
import fl_tensor as ft
import fl_text as text
from fl_speech.datasets import (
    ListFile,
    SpeechDataset,
    SpeechStatMeter,
    TargetGenerator,
    Utterance,
    batches,
    filter_utterances,
)
from fl_speech.errors import SpeechDataError
from fl_speech.features import FeatureExtractor, FeatureParams

RATE = 8000
WORDS = {"a": ("ab",), "b": ("ba", "b"), "c": ("a",), "d": ("b", "b")}
MILLISECONDS = {"a": 300, "b": 100, "c": 200, "d": 150}
FEATURES = speech.LogMel(speech.FeatureParams(sample_rate=RATE, filters=8))
Write = Callable[..., Path]


@pytest.fixture
def tokens() -> text.Dictionary:
    return text.Dictionary(["|", "a", "b"])


@pytest.fixture
def listed(write: Write, tone: Callable[..., np.ndarray], tmp_path: Path) -> ListFile:
    lines = []
    for seed, (id, milliseconds) in enumerate(MILLISECONDS.items()):
        write(f"{id}.wav", tone(RATE * milliseconds // 1000, RATE, seed), RATE)
        lines.append(f"{id} {id}.wav {milliseconds} {' '.join(WORDS[id])}\n")
    (tmp_path / "all.lst").write_text("".join(lines))
    return ListFile(tmp_path / "all.lst")


@pytest.fixture
def make(listed: ListFile, tokens: text.Dictionary) -> Callable[..., SpeechDataset]:
    def dataset(utterances: Any = listed, features: Any = FEATURES, **options: Any) -> Any:
        return SpeechDataset(utterances, features, TargetGenerator(tokens), **options)

    return dataset


Make = Callable[..., SpeechDataset]


def louder(samples: Any, generator: ft.Generator) -> Any:
    return samples * (1 + generator.uniform(()))


def same(a: Any, b: Any) -> bool:
    return np.array_equal(np.asarray(a), np.asarray(b))


def test_a_sample_is_features_length_and_target(make: Make, listed: ListFile) -> None:
    ds = make()
    features, length, target = ds[0]
    audio, _ = speech.load_audio(listed[0].path)
    assert same(features, FEATURES(audio[0])) and features.shape == (28, 8)
    assert length == 28 and target.tolist() == [1, 2, 0] and target.dtype == ft.int64
    assert ds[-1][2].tolist() == [2, 0, 2, 0] == ds.target(3)
    assert (len(ds), ds.durations) == (4, [300, 100, 200, 150])


def test_batches_are_padded(make: Make) -> None:
    ds = make(normalize=lambda x: x - x.mean(axis=0))
    features, lengths, targets = batches(ds, 3, shuffle=False)[0]  # b, d, c
    assert (features.shape, lengths.tolist()) == ((3, 18, 8), [8, 13, 18])
    assert targets.tolist() == [[2, 1, 0, 2, 0], [2, 0, 2, 0, -1], [1, 0, -1, -1, -1]]
    assert same(features[0, :8], ds[1][0]) and not np.any(np.asarray(features[0, 8:]))
    assert abs(float(ds[1][0].mean().item())) < 1e-5
    padded, _, _ = batches(ds, 3, shuffle=False, pad=-2.0)[0]
    assert set(np.asarray(padded[0, 8:]).ravel()) == {-2.0}


def found(made: data.Dataset) -> list[list[int]]:
    return [np.asarray(lengths).tolist() for _, lengths, _ in made]


def test_strategies(make: Make) -> None:
    ds = make()
    assert found(batches(ds, 2, shuffle=False)) == [[8, 13], [18, 28]]
    assert found(batches(ds, 2, strategy="random", shuffle=False)) == [[28, 8], [18, 13]]
    dynamic = batches(ds, strategy="dynamic", max_duration_ms=300, shuffle=False)
    assert found(dynamic) == [[8, 13], [18], [28]]
    epochs = []
    for strategy, options in [
        ("none", {"size": 1}),
        ("random", {"size": 2}),
        ("dynamic", {"max_duration_ms": 300}),
        ("random_dynamic", {"max_duration_ms": 400}),
    ]:
        made = batches(ds, strategy=strategy, seed=3, **options)  # type: ignore[arg-type]
        epochs = [found(made) for _ in range(6)]
        assert all(sorted(sum(epoch, [])) == [8, 13, 18, 28] for epoch in epochs)
        assert len({str(epoch) for epoch in epochs}) > 1
        if strategy == "random_dynamic":
            longest = {8: 100, 13: 150, 18: 200, 28: 300}
            sizes = [len(b) * longest[max(b)] for epoch in epochs for b in epoch]
            assert max(sizes) <= 400


def test_ranks_share_batches(make: Make) -> None:
    ds = make()
    for strategy, options in [("none", {"size": 2}), ("random", {"size": 2})]:
        ranks = [
            found(batches(ds, strategy=strategy, rank=rank, world_size=2, **options))  # type: ignore[arg-type]
            for rank in (0, 1)
        ]
        assert [len(rank) for rank in ranks] == [2, 2]
        assert sorted(sum(ranks[0] + ranks[1], [])) == [8, 13, 18, 28]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strategy": "dynamic", "size": 2},
        {"size": 2, "max_duration_ms": 5.0},
        {"strategy": "dynamic", "max_duration_ms": -1.0},
        {"strategy": "dynamic", "max_duration_ms": 250.0},
        {"size": 2, "effects_from_update": 1},
    ],
)
def test_batches_that_cannot_be(make: Make, options: dict[str, Any]) -> None:
    with pytest.raises(SpeechDataError) as raised:
        batches(make(), **options)
    if options.get("max_duration_ms") == 250:
        assert "all.lst, line 1, sample 'a': its 300 ms are more" in str(raised.value)


def test_effects_are_drawn_anew_in_each_epoch(make: Make) -> None:
    clean, ds = make(), make(effects=louder, effects_from=1, seed=5)
    assert same(ds[0][0], clean[0][0])
    ds.set_epoch(1)
    first = ds[0][0]
    assert not same(first, clean[0][0]) and same(ds[0][0], first)
    assert same(ds.with_effects(False)[0][0], clean[0][0])
    ds.set_epoch(2)
    assert not same(ds[0][0], first)


def test_effects_from_an_update_on(make: Make) -> None:
    ds = make(effects=louder, seed=5)
    made = batches(ds, 2, seed=1, effects_from_update=3)
    clean = batches(make(), 2, seed=1)
    equal = [
        same(a[0], b[0]) for _ in range(3) for a, b in zip(list(made), list(clean), strict=True)
    ]
    assert equal == [True, True, True, False, False, False]


def test_features_are_kept_but_not_those_with_effects(make: Make, tmp_path: Path) -> None:
    class Counted:
        params = FEATURES.params
        calls = 0

        def __call__(self, samples: Any) -> Any:
            Counted.calls += 1
            return FEATURES(samples)

        def __repr__(self) -> str:
            return "Counted()"

    for options in ({"cache_bytes": 100_000}, {"cache_folder": tmp_path / "kept"}):
        Counted.calls = 0
        ds = make(features=Counted(), effects=louder, effects_from=1, **options)
        for kept, fresh in zip(list(ds.scan()), list(make()), strict=True):
            # Sums of a compiled graph differ from those of single operations in rounding.
            np.testing.assert_allclose(np.asarray(kept[0]), np.asarray(fresh[0]), atol=1e-5)
        assert Counted.calls == 4
        ds.set_epoch(1)
        ds[0], ds[0]
        assert Counted.calls == 6
    make(features=Counted(), cache_folder=tmp_path / "kept")[2]  # of another run
    assert Counted.calls == 6
    bounded = make(features=Counted(), cache_bytes=1)
    bounded[0], bounded[0]
    assert Counted.calls == 8


def spoiled(name: str, write: Write, folder: Path) -> str:
    """Spoil sample b; what its error says."""
    if name == "no samples":
        write("b.wav", np.zeros(0), RATE)
        return "it has 0 samples"
    if name == "wrong rate":
        write("b.wav", np.zeros(8000), 16000)
        return "its rate is 16000 Hz and the features are for 8000 Hz: convert"
    if name == "two channels":
        write("b.wav", np.zeros((8000, 2)), RATE)
        return "it has 2 channels: give downmix=True"
    if name == "short":
        write("b.wav", np.zeros(100), RATE)
        return "shorter than one frame"
    if name == "long target":
        write("b.wav", np.zeros(500), RATE)
        return "5 tokens needs 5 frames.* of its 4 the model makes 4"
    (folder / "b.wav").write_bytes(b"RIFF")
    return r"\[audio\] .*b.wav"


@pytest.mark.parametrize(
    "name", ["no samples", "wrong rate", "two channels", "short", "long target", "damaged"]
)
def test_bad_recordings_are_named_or_left_out(
    make: Make, write: Write, tmp_path: Path, name: str
) -> None:
    says = spoiled(name, write, tmp_path)
    with pytest.raises(SpeechDataError, match=f"all.lst, line 2, sample 'b': .*{says}") as raised:
        make()[1]
    assert raised.value.line == 2
    ds = make(on_error="skip")
    assert [one.id for one in ds.utterances] == ["a", "c", "d"]
    assert [(error.id, error.problem) for error in ds.skipped] == [("b", raised.value.problem)]
    assert found(batches(ds, 2, shuffle=False)) == [[13, 18], [28]]


def test_channels_may_be_mixed(make: Make, write: Write) -> None:
    stereo = np.stack([np.full(8000, 0.5), np.full(8000, 0.25)], axis=1)
    write("b.wav", stereo, RATE)
    raw = lambda x: ft.reshape(x, (-1, 1))  # noqa: E731
    raw.sample_rate = RATE  # type: ignore[attr-defined]
    assert make(features=raw, downmix=True)[1][0][0, 0].item() == 0.375


def test_words_that_cannot_be_targets(listed: ListFile, tokens: text.Dictionary) -> None:
    wrong = [
        Utterance("z", listed[0].path, 300, ("az",), source="x.lst", line=7),
        Utterance("e", listed[0].path, 300, (), source="x.lst", line=8),
        Utterance("n", listed[0].path, 300, None, source="x.lst", line=9),
    ]
    targets = TargetGenerator(tokens)
    ds = SpeechDataset(wrong, FEATURES, targets)
    for index, says in enumerate(
        ["line 7, sample 'z': the token 'z'", "line 8, .* is empty", "line 9, .* no words"]
    ):
        with pytest.raises(SpeechDataError, match=says):
            ds[index]
    assert len(SpeechDataset(wrong, FEATURES, targets, on_error="skip").skipped) == 3
    empty = SpeechDataset(wrong[1:], FEATURES, targets, allow_empty=True)
    assert [batch[2].shape for batch in batches(empty, 2)] == [(2, 0)]


def test_frames_that_the_model_joins(make: Make) -> None:
    (error,) = make(subsampling=2, on_error="skip").skipped
    assert "of its 8 the model makes 4" in str(error)
    assert make(subsampling=0, on_error="skip").skipped == []


def test_equal_tokens_need_a_frame_between_them(listed: ListFile) -> None:
    def repeated(count: int) -> SpeechDataset:
        return SpeechDataset(listed, FEATURES, lambda words, generator: [1] * count)

    assert repeated(4)[1][1] == 8
    with pytest.raises(SpeechDataError, match="5 tokens needs 9 frames"):
        repeated(5)[1]


def test_features_that_are_not_finite(make: Make) -> None:
    ds = make(normalize=lambda x: x / (x.sum() * 0) if x.shape[0] == 8 else x, on_error="skip")
    with pytest.raises(
        SpeechDataError, match=r"line 2, sample 'b': its features \(8, 8\) hold NaN"
    ):
        ds[1]
    scanned = ds.scan()
    assert len(scanned) == 3 and [error.id for error in scanned.skipped] == ["b"]
    assert len(ds) == 4 and ds.skipped == []


def test_what_is_left_out_changes_no_other_sample(make: Make, write: Write) -> None:
    whole = make(effects=louder, seed=5)
    c = whole[2][0]
    write("b.wav", np.zeros(0), RATE)
    assert same(make(effects=louder, seed=5, on_error="skip")[1][0], c)


def test_sounds_may_come_from_elsewhere(tokens: text.Dictionary) -> None:
    spoken = [Utterance("one", "nowhere", 1000, ("ab",))]
    rates = [RATE]

    def load(one: Utterance) -> Any:
        return ft.ones((1, 8000)), rates[0]

    ds = SpeechDataset(spoken, FEATURES, TargetGenerator(tokens), load=load, on_error="skip")
    assert ds[0][1] == 98
    rates[0] = 16000
    with pytest.raises(SpeechDataError, match="sample 'one': its rate is 16000"):
        ds[0]


def test_workers_make_the_same_batches(make: Make) -> None:
    fresh = speech.LogMel(FEATURES.params)
    plain = batches(make(features=fresh), 2, shuffle=False)
    sent = pickle.loads(pickle.dumps(plain))  # as processes get it
    for made in (sent, data.Prefetch(plain, threads=2)):
        for a, b in zip(list(made), list(plain), strict=True):
            assert all(same(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    "wrong",
    [
        {"utterances": [1]},
        {"features": lambda x: x},
        {"effects_from": -1},
        {"subsampling": -1},
        {"on_error": "pass"},
        {"targets": 3},
    ],
)
def test_datasets_that_cannot_be(listed: ListFile, wrong: dict[str, Any]) -> None:
    options: dict[str, Any] = {"utterances": listed, "features": FEATURES, "targets": len}
    with pytest.raises((SpeechDataError, ft.DTypeError)):
        SpeechDataset(**{**options, **wrong})


def test_limits_of_sizes(listed: ListFile, tokens: text.Dictionary) -> None:
    targets = TargetGenerator(tokens)
    kept, dropped = filter_utterances(
        listed, targets, minisz=120, maxisz=250, mintsz=3, maxtsz=1000
    )
    assert [one.id for one in kept] == ["d"]
    assert dropped == {"minisz": 1, "maxisz": 1, "mintsz": 1}
    assert filter_utterances(listed, targets, maxtsz=4).dropped == {"maxtsz": 1}
    assert filter_utterances(listed).dropped == {}
    with pytest.raises(SpeechDataError, match="give targets"):
        filter_utterances(listed, maxtsz=4)
    with pytest.raises(SpeechDataError, match="nothing is between"):
        filter_utterances(listed, minisz=4, maxisz=3)
    with pytest.raises(SpeechDataError, match="line 1, sample 'a'"):
        filter_utterances(listed, TargetGenerator(text.Dictionary(["|"])), maxtsz=4)


def test_statistics_are_those_of_the_original() -> None:
    meter = SpeechStatMeter()
    meter.add([4, 5], [6, 10])
    assert list(meter.value) == [9, 16, 5, 10, 2, 1]
    other = meter.fresh()
    other.add(ft.asarray([1, 8, 4, 3]), ft.asarray([2, 7, 6, 1]))
    meter.merge(other.state())
    assert list(meter.value) == [25, 32, 8, 10, 6, 2]
    assert meter.result() == 25 / 6
    for wrong in ([1], [-1, 2], [1.5, 2], 3):
        with pytest.raises(SpeechDataError):
            meter.add(wrong, [1, 2])  # type: ignore[arg-type]
    assert list(meter.value) == [25, 32, 8, 10, 6, 2]


class Small(nn.Module):
    takes_lengths = True

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, features: Any, lengths: Any = None) -> Any:
        return self.linear(features), lengths


def first_letters(output: Any, targets: Any) -> Any:
    """Every frame that is there says the first letter."""
    emissions, lengths = output
    frames = ft.arange(emissions.shape[1])
    there = (ft.reshape(frames, (1, -1)) < ft.reshape(lengths, (-1, 1))).astype(ft.float32)
    chosen = ft.one_hot(targets[:, 0], 4).astype(ft.float32)
    scores = ft.log_softmax(emissions, axis=-1) * ft.reshape(chosen, (-1, 1, 4))
    return -(scores.sum(axis=-1) * there).sum() / there.sum()


def test_the_trainer_takes_batches(make: Make) -> None:
    ds = make(normalize=lambda x: (x - x.mean()) / 5.0)
    ft.seed(0)
    model = Small()
    trainer = nn.Trainer(
        model, nn.AdamW(model.parameters(), lr=0.05), first_letters, progress=False
    )
    history = trainer.fit(batches(ds, 2, seed=0), batches(ds, 2, shuffle=False), epochs=12)
    assert history[-1]["valid_loss"] < 0.7 * history[0]["valid_loss"]


@pytest.mark.parametrize("kind", ["mfsc", "mfcc", "power"])
def test_an_extractor_gives_the_features(make: Make, listed: ListFile, kind: str) -> None:
    params = FeatureParams.flashlight(sample_rate=RATE, filters=10, cepstra=8)
    extractor = FeatureExtractor(params, kind)
    ds = make(features=extractor)
    for (features, frames, _), utterance in zip(list(ds), listed, strict=True):
        audio, _ = speech.load_audio(utterance.path)
        assert features.shape == (frames, extractor.size)
        assert same(features, extractor(audio[0]))
    batch, lengths, _ = next(iter(batches(ds, 4)))
    assert batch.shape == (4, max(lengths.tolist()), extractor.size)


def test_processes_prepare_samples(make: Make) -> None:
    ds = make(features=FeatureExtractor(FeatureParams.kaldi(sample_rate=RATE, filters=8)))
    here = list(ds)  # constants of the extractor are there, and not sent
    for (a, *_), (b, *_) in zip(data.Prefetch(ds, processes=1), here, strict=True):
        assert same(a, b)
