"""Commands of fl-speech around recognition: streams, long recordings, voice activity, features."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from runs import NUMPY
from spoken_tones import RATE, WORDS, say

import fl_tensor as ft
from fl_speech import load_audio, save_audio
from fl_speech.cli import main
from fl_speech.datasets import ListFile
from fl_speech.effects import GaussianNoise, SoundEffectChain, write_effects
from fl_speech.errors import RecipeError
from fl_speech.inference import Decoder, Scored, emissions_of, rescore
from fl_speech.inference.long import pieces, transcribe_long
from fl_speech.inference.streaming import SpeechStream
from fl_speech.inference.vad import speech_by_blank
from fl_speech.recogniser import Recogniser, load_recogniser
from fl_text.decoder import DecoderOptions


def test_streams_normalise_frames_by_those_before(run: Path, task: Path) -> None:
    with ft.use("numpy"):
        trained = load_recogniser(run)
        recipe = trained.recipe.changed(normalise="local", local_left=30)
        recogniser = Recogniser(recipe, trained.tokens, trained.lexicon)
        recogniser.load_state_dict(trained.state_dict())
        decoder = Decoder(recogniser, recogniser.lexicon, None, DecoderOptions(beam_size=20))
        one = ListFile(task / "test.lst")[2]
        whole = next(emissions_of(recogniser, [one]))
        plain = next(emissions_of(trained, [one]))
        assert np.abs(whole.scores - plain.scores).max() > 0.1, "they are normalised otherwise"
        stream = SpeechStream(recogniser, decoder)
        samples = load_audio(one.path)[0][0]
        for start in range(0, len(samples), 700):
            stream.push(samples[start : start + 700])
        found, expected = stream.finish(), decoder([whole.scores])[0][0]
        assert found.text == expected.text
        assert abs(found.score - expected.score) < 1e-3 * abs(expected.score)
        later = Recogniser(recipe.changed(local_right=1), trained.tokens, trained.lexicon)
        with pytest.raises(RecipeError, match="normalise is 'local', which needs what comes later"):
            SpeechStream(later, decoder)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_streams_in_random_chunks_hear_what_the_whole_recording_says(
    run: Path, task: Path, seed: int
) -> None:
    with ft.use("numpy"):
        recogniser = load_recogniser(run)
        options = DecoderOptions(beam_size=20)
        decoder = Decoder(recogniser, recogniser.lexicon, None, options)
        utterances = ListFile(task / "test.lst")
        draw = random.Random(seed)
        for whole in emissions_of(recogniser, utterances, batch_size=1):
            expected = decoder([whole.scores])[0][0]
            samples = load_audio(whole.utterance.path)[0][0]
            stream, place = SpeechStream(recogniser, decoder), 0
            while place < len(samples):
                size = draw.choice((1, 37, 400, 1601))
                stream.push(samples[place : place + size])
                place += size
            found = stream.finish()
            assert found.text == expected.text == whole.utterance.text
            assert abs(found.score - expected.score) < 1e-3 * abs(expected.score)
            assert len(found.tokens) == len(expected.tokens)


def test_stream_prints_partial_results(
    run: Path, task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stream", str(run), str(task / "test2.wav"), "--chunk-ms", "50", *NUMPY]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines[-1][0].endswith("test2.wav") and len(lines) > 2
    assert float(lines[0][0]) < float(lines[-2][0])
    assert lines[-1][1].startswith(lines[0][1])


def long_recording(folder: Path, sentences: int) -> tuple[Path, list[tuple[str, float, float]]]:
    noise = random.Random(5)
    samples: list[float] = []
    times = []
    for _ in range(sentences):
        said, when = say([noise.choice(WORDS) for _ in range(2)], noise)
        times += [(w, a + len(samples) / RATE, b + len(samples) / RATE) for w, a, b in when]
        samples += said + [0.003 * noise.uniform(-1, 1) for _ in range(RATE // 4)]
    path = folder / "long.wav"
    save_audio(path, ft.asarray(samples, ft.float32), RATE)
    return path, times


def test_long_recordings_are_cut_where_it_is_quiet(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, times = long_recording(tmp_path, 10)
    total = len(load_audio(path)[0][0])
    cut = list(pieces(path, RATE, 2.0))
    assert [p.start for p in cut[1:]] == list(np.cumsum([len(p.samples) for p in cut])[:-1])
    assert sum(len(p.samples) for p in cut) == total and len(cut) > 4
    assert all(len(p.samples) <= 2 * RATE for p in cut)
    for piece in cut[1:]:
        assert not any(a < piece.start / RATE < b for _, a, b in times)
    assert main(["decode", str(run), str(path), "--longest", "2", *NUMPY]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines() if line[0] != "#"]
    assert [line[3] for line in lines] == [word for word, _, _ in times]
    for line, (_, start, end) in zip(lines, times, strict=True):
        assert abs(float(line[1]) - start) < 0.12 and abs(float(line[2]) - end) < 0.12


def test_vad_writes_four_files(run: Path, task: Path, tmp_path: Path) -> None:
    with ft.use("numpy"):
        recogniser = load_recogniser(run)
        emissions = next(emissions_of(recogniser, ListFile(task / "test.lst")))
        with pytest.raises(RecipeError, match="criterion is asg: use a recogniser of criterion"):
            speech_by_blank(recogniser, emissions)
    assert main(["vad", str(run), str(task / "test.lst"), "-o", str(tmp_path), *NUMPY]) == 1


def test_features_and_pictures(task: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    options = ["--filters", "20", "-o", str(tmp_path), "--picture", *NUMPY]
    assert main(["features", str(task / "test0.wav"), *options]) == 0
    found = np.load(tmp_path / "test0.npy")
    samples = load_audio(task / "test0.wav")[0].shape[-1]
    assert found.shape == ((samples - 200) // 80 + 1, 20) and found.dtype == np.float32
    assert (tmp_path / "test0.png").read_bytes()[:4] == b"\x89PNG"


def test_augment(task: Path, tmp_path: Path) -> None:
    write_effects(tmp_path / "effects.json", SoundEffectChain([GaussianNoise(1.0, 5.0, 5.0)]))
    out = tmp_path / "noisy.wav"
    options = ["--config", str(tmp_path / "effects.json"), "-o", str(out), *NUMPY]
    assert main(["augment", str(task / "test0.wav"), *options]) == 0
    clean, noisy = (load_audio(p)[0].numpy() for p in (task / "test0.wav", out))
    assert clean.shape == noisy.shape
    ratio = 10 * np.log10((clean**2).mean() / ((noisy - clean) ** 2).mean())
    assert abs(ratio - 5.0) < 0.5


def test_bench(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--frames", "60", "--labels", "4", "--channels", "8", "--blocks", "1"]
    assert main(["bench", *sizes, "--iterations", "1", *NUMPY]) == 0
    assert capsys.readouterr().out.count("real-time factor") == 3


def test_rescoring_with_weight_0_keeps_the_order() -> None:
    scores = {"a": -1.0, "b": -1.0, "c": -2.0}
    found = [Scored([word], score, score, 0.0) for word, score in scores.items()]

    def order(weight: float) -> str:
        rated = rescore(found, lambda sentences: [-9.0, -1.0, -2.0], weight)
        return "".join(each.words[0] for each in rated)

    assert order(0.0) == "abc"
    assert order(1.0) == "bca"
    assert rescore([], len, 1.0) == []


def test_json_of_long_recordings(run: Path, tmp_path: Path) -> None:
    path, times = long_recording(tmp_path, 3)
    with ft.use("numpy"):
        recogniser = load_recogniser(run)
        decoder = Decoder(recogniser, recogniser.lexicon, None, DecoderOptions(beam_size=20))
        words = list(transcribe_long(recogniser, path, decoder, 1.5))
    assert [word.word for word in words] == [word for word, _, _ in times]
    assert json.dumps(words[0]._asdict())
