"""Recordings in a folder as a dataset."""

from __future__ import annotations

import numpy as np
import pytest

import fl_data as data
import fl_speech as speech
import fl_tensor as ft


@pytest.fixture
def folder(write, tmp_path):
    for i, name in enumerate(["yes_anna_0", "no_anna_0", "yes_ben_0", "no_ben_1"]):
        write(f"words/{name}.wav", np.full(100 + 10 * i, i, np.int16), 8000)
    (tmp_path / "words" / "notes.txt").write_text("not a recording")
    return tmp_path / "words"


def test_samples_are_audio_and_class(folder):
    ds = speech.AudioFolder(folder)
    assert [p.rsplit("/", 1)[-1] for p in ds.paths] == [
        "no_anna_0.wav",
        "no_ben_1.wav",
        "yes_anna_0.wav",
        "yes_ben_0.wav",
    ]
    assert (ds.classes, ds.labels, ds.sample_rate) == (["no", "yes"], [0, 0, 1, 1], 8000)
    audio, label = ds[1]
    assert (audio.shape, label.item(), label.dtype) == ((1, 130), 0, ft.int64)
    assert ds.fields[1] == {"label": "no", "speaker": "ben", "index": "1"}
    with pytest.raises(IndexError, match="out of range for 4 samples"):
        ds[4]


@pytest.mark.defect("P10")
def test_all_files_that_can_be_read_are_taken(tmp_path, write, tone):
    formats = {
        "wav": {}, "flac": {}, "ogg": {"subtype": "VORBIS"}, "opus": {"format": "OGG"},
        "mp3": {}, "aiff": {}, "AIF": {"format": "AIFF"}, "au": {}, "caf": {}, "w64": {},
    }  # fmt: skip
    formats["opus"]["subtype"] = "OPUS"
    for i, (suffix, options) in enumerate(formats.items()):
        write(f"all/{i}_anna_0.{suffix}", tone(4800, 48000), 48000, **options)
    (tmp_path / "all" / "._0_anna_0.wav").write_bytes(b"what macOS leaves beside a file")
    ds = speech.AudioFolder(tmp_path / "all")
    assert len(ds) == len(formats)
    assert [ds[i][0].shape for i in range(len(ds))] == [(1, 4800)] * len(ds)
    assert len(speech.AudioFolder(tmp_path / "all", suffixes=[".wav", ".flac"])) == 2


def test_fixed_length_makes_batches(folder):
    ds = speech.AudioFolder(folder, length=115)
    audio, labels = data.Batch(ds, 4)[0]
    assert (audio.shape, labels.tolist()) == ((4, 1, 115), [0, 0, 1, 1])
    assert (audio[2] * 32768).tolist() == [[0.0] * 115]
    assert (audio[0] * 32768).tolist() == [[1.0] * 110 + [0.0] * 5]
    assert (audio[1] * 32768).tolist() == [[3.0] * 115]


def test_padding_makes_batches_too(folder):
    batches = data.Batch(speech.AudioFolder(folder), 4, collate=data.pad_collate(lengths=True))
    assert [field.shape for field in batches[0]] == [(4, 1, 130), (4,), (4,)]


@pytest.mark.parametrize("channels", [1, 2])
def test_a_batch_has_the_values_of_its_samples(write, tmp_path, channels):
    rng = np.random.default_rng(0)
    for i, count in enumerate([50, 100, 0, 70]):
        values = rng.integers(-1000, 1000, (count, channels)).astype(np.int16)
        write(f"r/{i}_{i}.wav", values, 8000)
    ds = speech.AudioFolder(tmp_path / "r", "{label}_{take}", length=70)
    audio, labels = ds.__getitems__([3, 0, 2, 1])
    assert (audio.shape, labels.tolist()) == ((4, channels, 70), [3, 0, 2, 1])
    for row, index in enumerate([3, 0, 2, 1]):
        whole, _ = speech.load_audio(ds.paths[index])
        expected = np.zeros((channels, 70), np.float32)
        expected[:, : whole.shape[1]] = whole.numpy()[:, :70]
        np.testing.assert_array_equal(audio.numpy()[row], expected)
        np.testing.assert_array_equal(ds[index][0].numpy(), expected)


def test_a_bad_recording_in_a_batch_is_named(folder, write):
    ds = speech.AudioFolder(folder, length=120, max_values=1000)
    path = folder / "no_ben_1.wav"
    whole = path.read_bytes()
    for damage, message in [
        (lambda: path.write_bytes(whole[:100]), "truncated"),
        (lambda: write("words/no_ben_1.wav", np.zeros(100), 16000), "16000 Hz and 8000 Hz"),
        (lambda: write("words/no_ben_1.wav", np.zeros((100, 2)), 8000), "2 channels, and .* has 1"),
        (
            lambda: write("words/no_ben_1.wav", [0.0, np.nan], 8000, subtype="FLOAT"),
            "NaN or infinite",
        ),
        (lambda: write("words/no_ben_1.wav", np.zeros((200, 9)), 8000), "more than max_values"),
    ]:
        damage()
        with pytest.raises(speech.AudioError, match=rf"no_ben_1\.wav.*{message}"):
            ds.__getitems__([0, 1, 2, 3])


def test_split_by_a_part_of_the_name(folder):
    ds = speech.AudioFolder(folder)
    anna = data.Subset(ds, [i for i, f in enumerate(ds.fields) if f["speaker"] == "anna"])
    assert [label.item() for _, label in anna] == [0, 1]


def test_other_patterns(write, tmp_path):
    write("p/a-1.wav", np.zeros(10))
    write("p/b-2.wav", np.zeros(10))
    ds = speech.AudioFolder(tmp_path / "p", "{label}-{take}")
    assert ds.fields == [{"label": "a", "take": "1"}, {"label": "b", "take": "2"}]


@pytest.mark.parametrize("pattern", ["{speaker}_{index}", "{label}_{label}", "words"])
def test_a_pattern_names_the_label(folder, pattern):
    with pytest.raises(data.DataError, match=r"must name \{label\}"):
        speech.AudioFolder(folder, pattern)


def test_bad_folders_are_refused(folder, write, tmp_path):
    with pytest.raises(speech.AudioError, match="nowhere.*unreadable folder"):
        speech.AudioFolder(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(speech.AudioError, match=r"empty: no files named \*\.wav or \*\.flac"):
        speech.AudioFolder(tmp_path / "empty")
    with pytest.raises(data.DataError, match="length must be at least 1"):
        speech.AudioFolder(folder, length=0)
    write("words/odd.wav", np.zeros(10))
    with pytest.raises(speech.AudioError, match=r"odd\.wav: its name does not follow"):
        speech.AudioFolder(folder)


def test_one_rate_for_all(folder, write):
    write("words/yes_cleo_0.wav", np.zeros(10), 16000)
    ds = speech.AudioFolder(folder)
    with pytest.raises(
        speech.AudioError, match=r"yes_cleo_0\.wav.*16000 Hz and 8000 Hz are needed"
    ):
        ds[4]


def test_a_broken_recording_names_itself_through_prefetching(folder):
    (folder / "no_ben_1.wav").write_bytes(b"RIFF")
    batches = data.Batch(speech.AudioFolder(folder, length=10, sample_rate=8000), 1)
    with pytest.raises(data.WorkerError, match=r"sample 1 .*no_ben_1\.wav") as caught:
        list(data.Prefetch(batches))
    assert isinstance(caught.value.__cause__, speech.AudioError)


def test_spoken_digits(recordings):
    ds = speech.AudioFolder(recordings, sample_rate=8000, length=4000)
    assert (len(ds), ds.classes) == (3000, [str(d) for d in range(10)])
    assert [ds.labels.count(i) for i in range(10)] == [300] * 10
    assert len({f["speaker"] for f in ds.fields}) == 6
    features = speech.LogMel(speech.FeatureParams(sample_rate=8000, filters=40))
    batch = data.Transform(data.Batch(data.Shuffle(ds, seed=1), 16), features, None)[0]
    assert batch[0].shape == (16, 1, 48, 40)
    assert ft.all(ft.isfinite(batch[0])).item()


def test_fit_length_cuts_or_pads_the_last_axis():
    x = ft.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert speech.fit_length(x, 2).tolist() == [[1, 2], [4, 5]]
    assert speech.fit_length(x, 4).tolist() == [[1, 2, 3, 0], [4, 5, 6, 0]]
    assert speech.fit_length(x, 3).tolist() == x.tolist()
