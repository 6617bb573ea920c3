"""Transforms and datasets of torchaudio among ours."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

import fl_data as data
import fl_speech as speech
import fl_tensor as ft

torch = pytest.importorskip("torch")
torchaudio = pytest.importorskip("torchaudio")

from fl_speech.interop.torchaudio import TorchaudioDataset, TorchaudioTransform  # noqa: E402


@pytest.fixture
def ds(tone):
    return [(ft.asarray(tone(4000, seed=k)[None].astype(np.float32)), k) for k in range(4)]


def address(x) -> int:
    return x.numpy().__array_interface__["data"][0]


def test_importing_fl_speech_loads_no_pytorch():
    code = (
        "import sys, fl_speech, fl_speech.effects, fl_speech.interop;"
        "print(sorted({'torch', 'torchaudio'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


def test_a_transform_of_a_field(ds):
    mel = torchaudio.transforms.MelSpectrogram(16000, n_mels=40)
    made = data.Transform(ds, fields={0: TorchaudioTransform(mel)})
    audio, label = made[2]
    assert isinstance(audio, ft.Tensor) and label == 2
    theirs = mel(torch.from_numpy(ds[2][0].numpy().copy()))
    np.testing.assert_array_equal(audio.numpy(), theirs.numpy())
    batch, _ = data.Batch(made, 4)[0]
    assert batch.shape == (4, 1, 40, theirs.shape[-1])


def test_nothing_is_copied(ds):
    audio = ds[0][0]
    seen = []

    def look(x):
        seen.append((x.data_ptr(), x[:, 100:]))
        return seen[0][1]

    found = TorchaudioTransform(look)(audio)
    assert seen[0][0] == address(audio)
    assert address(found) == address(audio) + 400
    pair = TorchaudioTransform(lambda x: (x, [x + 1, 3]))(audio)
    assert address(pair[0]) == address(audio) and pair[1][1] == 3


@pytest.mark.parametrize(
    ("make", "tolerance"),
    [
        (lambda: torchaudio.transforms.Resample(16000, 8000), 0),
        (lambda: torchaudio.transforms.MuLawEncoding(), 0),
        (lambda: torchaudio.transforms.MFCC(16000, n_mfcc=13, melkwargs={"n_mels": 23}), 0),
        (lambda: torchaudio.transforms.Vol(0.5), 0),
        (lambda: torchaudio.transforms.Fade(100, 100), 0),
    ],
)
def test_what_comes_out_is_what_torchaudio_gives(ds, make, tolerance):
    transform = make()
    ours = TorchaudioTransform(transform)(ds[1][0])
    theirs = transform(torch.from_numpy(ds[1][0].numpy().copy()))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=tolerance)


def test_random_transforms_draw_by_seed_epoch_and_index(ds):
    same = [(ds[0][0], k) for k in range(6)]
    mask = TorchaudioTransform(torchaudio.transforms.TimeMasking(2000))
    made = data.RandomTransform(same, mask.on(0), seed=3)
    state = torch.get_rng_state()
    first = [made[k][0].tolist() for k in range(6)]
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(9)
    assert [made[k][0].tolist() for k in (5, 2)] == [first[5], first[2]]
    assert len({str(each) for each in first}) > 3
    made.set_epoch(1)
    assert [made[k][0].tolist() for k in range(6)] != first


def test_a_function_that_writes_to_its_argument_is_refused(ds):
    audio = ft.asarray(ds[0][0].numpy().copy())
    with pytest.raises(data.DataError, match=r"wrote to its argument.*give lambda x"):
        TorchaudioTransform(lambda x: x.mul_(2))(audio)
    double = TorchaudioTransform(lambda x: x.clone().mul_(2))(ds[1][0])
    np.testing.assert_array_equal(double.numpy(), 2 * ds[1][0].numpy())


def test_transforms_are_pickled(ds):
    mask = TorchaudioTransform(torchaudio.transforms.Vol(0.25))
    again = pickle.loads(pickle.dumps(mask))
    np.testing.assert_array_equal(again(ds[0][0]).numpy(), ds[0][0].numpy() / 4)


def test_gradients_are_not_recorded(ds):
    layer = torch.nn.Linear(4000, 3)
    recorded = []

    def apply(x):
        y = layer(x)
        recorded.append(y.requires_grad)
        return y

    assert TorchaudioTransform(apply)(ds[0][0]).shape == (1, 3)
    assert recorded == [False]


def test_bad_arguments(ds):
    with pytest.raises(ft.DTypeError, match="is not callable: give a module of torchaudio"):
        TorchaudioTransform("MelSpectrogram")
    with pytest.raises(ft.DTypeError, match="a ndarray: expected a Tensor"):
        TorchaudioTransform(torch.abs)(np.zeros(3))
    with pytest.raises(ft.DTypeError, match="a int has no length and no samples by number"):
        TorchaudioDataset(3)


@pytest.fixture
def yesno(tmp_path, tone, monkeypatch):
    """A dataset of torchaudio over files of ours. Where torchaudio has TorchCodec read files, which
    it does not install, `load_audio` does."""
    root = tmp_path / "waves_yesno"
    root.mkdir()
    for name in ("0_1_0_1_1_0_0_1", "1_1_1_1_0_0_0_0", "0_0_0_0_1_1_1_1"):
        speech.save_audio(root / f"{name}.wav", tone(2000, seed=len(name)), 8000)

    def load(path):
        audio, rate = speech.load_audio(path)
        return torch.from_dlpack(audio), rate

    monkeypatch.setattr(torchaudio, "load", load)
    return torchaudio.datasets.YESNO(tmp_path)


def test_a_dataset_of_torchaudio(yesno):
    ds = TorchaudioDataset(yesno)
    assert len(ds) == 3
    audio, rate, labels = ds[-1]
    assert isinstance(audio, ft.Tensor) and audio.shape == (1, 2000) and rate == 8000
    np.testing.assert_array_equal(audio.numpy(), yesno[2][0].numpy())
    assert labels == tuple(yesno[2][2])
    with pytest.raises(data.SampleIndexError, match="index 3 is out of range for 3 samples"):
        ds[3]
    batch, rates = data.Batch(TorchaudioDataset(yesno, fields=[0, 1]), 3)[0]
    assert batch.shape == (3, 1, 2000) and rates.tolist() == [8000] * 3
    with pytest.raises(data.DataError, match=r"fields \[7\]: the sample has \[0, 1, 2\]"):
        TorchaudioDataset(yesno, fields=[7])[0]


def test_samples_with_names():
    x = torch.arange(3.0)
    ds = TorchaudioDataset([{"audio": x, "text": "one"}], fields=["audio"])
    assert list(ds[0]) == ["audio"] and address(ds[0]["audio"]) == x.data_ptr()


def test_our_resampling_agrees_with_torchaudios(tone):
    """Both are windowed sincs, of other widths: what is left is at the edge of the band."""
    t = np.arange(16_000) / 16_000
    x = np.sin(2 * np.pi * 900 * t) * np.sin(np.pi * t) ** 2
    for rate, new_rate in [(16000, 8000), (16000, 44100), (16000, 11025)]:
        ours = speech.resample(x, rate, new_rate)
        theirs = torchaudio.functional.resample(
            torch.from_numpy(x), rate, new_rate, lowpass_filter_width=64
        )
        assert ours.shape == tuple(theirs.shape)
        np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-3)
