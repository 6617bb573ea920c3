"""Writing audio, and reading it in other dtypes and from file objects."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

import fl_speech as speech
import fl_tensor as ft

CONTAINERS = sorted(set(soundfile.available_formats()) - {"RAW", "SD2"})  # RAW has no header


@pytest.mark.parametrize(
    ("subtype", "dtype"),
    [("PCM_16", np.int16), ("PCM_32", np.int32), ("FLOAT", np.float32), ("DOUBLE", np.float64)],
)
@pytest.mark.parametrize("channels", [1, 2])
def test_wav_gives_back_the_samples_of_its_own_format(tmp_path, subtype, dtype, channels):
    rng = np.random.default_rng(0)
    if np.issubdtype(dtype, np.integer):
        ends = np.iinfo(dtype)
        x = rng.integers(ends.min, ends.max, (channels, 70_000), dtype, endpoint=True)
    else:
        x = rng.uniform(-2, 2, (channels, 70_000)).astype(dtype)
    speech.save_audio(tmp_path / "a.wav", ft.asarray(x), 8000, subtype=subtype)
    info = speech.audio_info(tmp_path / "a.wav")
    assert (info.format, info.subtype, info.sample_rate) == ("WAV", subtype, 8000)
    back, rate = speech.load_audio(tmp_path / "a.wav", dtype=str(np.dtype(dtype)))
    assert rate == 8000
    np.testing.assert_array_equal(back.numpy(), x, strict=True)


@pytest.mark.parametrize(("subtype", "bits"), [("PCM_U8", 8), ("PCM_16", 16), ("PCM_24", 24)])
def test_levels_that_came_from_a_file_are_written_as_they_were(tmp_path, subtype, bits):
    levels = np.unique(np.linspace(-(1 << bits - 1), (1 << bits - 1) - 1, 70_001).astype(np.int64))
    x = (levels / (1 << bits - 1)).astype(np.float32)
    speech.save_audio(tmp_path / "a.wav", x, 8000, subtype=subtype)
    np.testing.assert_array_equal(speech.load_audio(tmp_path / "a.wav")[0].numpy()[0], x)


def test_floats_are_rounded_to_the_nearest_level_and_clipped(tmp_path):
    x = np.array([0.4 / 32768, 0.6 / 32768, -0.6 / 32768, 1.5, -1.5])
    speech.save_audio(tmp_path / "a.flac", x, 16000)
    levels = speech.load_audio(tmp_path / "a.flac", dtype=ft.int16)[0]
    assert levels.tolist() == [[0, 1, -1, 32767, -32768]]


def test_vorbis_is_near(tmp_path):
    t = np.arange(16_000) / 16_000
    x = 0.5 * np.sin(2 * np.pi * 440 * t) * np.sin(np.pi * t) ** 2
    for quality in (None, 1):
        speech.save_audio(tmp_path / "a.ogg", x, 16_000, quality=quality)
        back, _ = speech.load_audio(tmp_path / "a.ogg", dtype="float64")
        assert back.shape == (1, 16_000)
        error = np.abs(back.numpy()[0] - x)
        assert np.sqrt(np.mean(error**2)) < 5e-3
    assert error.max() < 5e-3  # of the best quality


def test_the_name_tells_the_container(tmp_path):
    for name, format, subtype in [
        ("a.opus", "OGG", "OPUS"),
        ("a.oga", "OGG", "VORBIS"),
        ("a.AIF", "AIFF", "PCM_16"),
        ("a.snd", "AU", "PCM_16"),
        ("a.flac", "FLAC", "PCM_16"),
        ("a.mp3", "MP3", "MPEG_LAYER_III"),
    ]:
        speech.save_audio(tmp_path / name, np.zeros(4800), 48_000)
        info = speech.audio_info(tmp_path / name)
        assert (info.format, info.subtype) == (format, subtype)


def test_a_lower_quality_takes_less_room(tone):
    sizes = []
    for quality in (0.0, 1.0):
        file = io.BytesIO()
        speech.save_audio(file, tone(20_000), 16000, format="OGG", quality=quality)
        sizes.append(len(file.getvalue()))
    assert 1.5 * sizes[0] < sizes[1]


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_is_written_and_read(tone, container):
    """With its usual sample format, or the first that it has."""
    file = io.BytesIO()
    x = 0.9 * tone(8000, 8000)
    speech.save_audio(file, x, 8000, format=container.lower())
    audio, rate = speech.load_audio(file)
    # Padded by encoders that work in blocks; WVE and XI hold no rate.
    assert audio.shape[0] == 1 and 8000 <= audio.shape[1] <= 12_000
    near = np.abs(audio.numpy()[0, :8000] - x).max()
    assert near < (0.25 if container in ("MP3", "OGG") else 0.05)
    assert rate == 8000 or container in ("WVE", "XI")


@pytest.mark.parametrize(
    "subtype",
    sorted(set(soundfile.available_subtypes("WAV")) - {"MPEG_LAYER_III"}),  # read, and not written
)
def test_every_sample_format_of_wav(tone, subtype):
    file = io.BytesIO()
    x = 0.5 * tone(4000, 8000)
    mono = {"G721_32", "NMS_ADPCM_16", "NMS_ADPCM_24", "NMS_ADPCM_32", "GSM610"}
    speech.save_audio(file, x if subtype in mono else np.stack([x, x]), 8000, subtype=subtype,
                      format="WAV")  # fmt: skip
    assert speech.audio_info(file).subtype == subtype


def test_integers_are_scaled_for_formats_of_floats(tmp_path):
    """The encoder alone would store 16384.0."""
    for dtype, one in ((np.int16, 2**15), (np.int32, 2**31)):
        x = np.array([0, one // 2, -one], dtype)
        speech.save_audio(tmp_path / "a.wav", x, 8000, subtype="FLOAT")
        assert speech.load_audio(tmp_path / "a.wav")[0].tolist() == [[0.0, 0.5, -1.0]]


def test_whole_numbers_of_files_of_floats(write):
    """The decoder alone would round them to 0 and 1."""
    path = write("a.wav", [0.0, 0.5, -1.0, 1.0, 2.0], subtype="DOUBLE")
    for dtype, one in (("int16", 2**15), ("int32", 2**31)):
        audio, _ = speech.load_audio(path, dtype=dtype)
        assert str(audio.dtype) == dtype
        assert audio.tolist() == [[0, one // 2, -one, one - 1, one - 1]]


def test_int32_of_int16(write):
    path = write("a.wav", np.array([-32768, 1, 32767], np.int16))
    assert speech.load_audio(path, dtype=ft.int32)[0].tolist() == [[-(2**31), 2**16, 32767 * 2**16]]


def test_file_objects(tmp_path, tone):
    x = tone(3000)
    file = io.BytesIO()
    speech.save_audio(file, x, 16000, format="wav", subtype="double")
    assert file.tell() == len(file.getvalue())  # what is written next stands behind it
    np.testing.assert_array_equal(speech.load_audio(file, dtype="float64")[0].numpy()[0], x)
    part, _ = speech.load_audio(file, start=10, samples=5, dtype="float64")
    np.testing.assert_array_equal(part.numpy()[0], x[10:15])
    speech.save_audio(tmp_path / "a.flac", x, 16000)
    with open(tmp_path / "a.flac", "rb") as opened:
        assert speech.audio_info(opened).path == str(tmp_path / "a.flac")


def test_file_objects_that_are_none(tmp_path, tone):
    speech.save_audio(tmp_path / "a.wav", tone(100), 16000)
    cut = io.BytesIO((tmp_path / "a.wav").read_bytes()[:-20])
    with pytest.raises(speech.AudioError, match=r"<BytesIO>: truncated"):
        speech.load_audio(cut)
    with pytest.raises(speech.AudioError, match="not an audio file that can be decoded"):
        speech.load_audio(io.BytesIO(b"no sound" * 20))
    with pytest.raises(speech.AudioError, match="the file is empty"):
        speech.load_audio(io.BytesIO())
    with pytest.raises(speech.AudioError, match="it gives text, not bytes: open it in mode 'rb'"):
        speech.load_audio(io.StringIO("RIFF"))
    with pytest.raises(speech.AudioError, match="cannot be written to"):
        speech.save_audio(io.StringIO(), tone(100), 16000, format="wav")


def test_saving_refuses_what_no_file_holds(tmp_path, tone):
    path, x = tmp_path / "a.wav", tone(100)

    def refused(message, audio=x, rate=16000, where=path, **options):
        with pytest.raises(speech.AudioError, match=message):
            speech.save_audio(where, audio, rate, **options)
        assert not path.exists()

    refused("NaN or infinite", np.full(3, np.nan))
    refused("a rate of 0 Hz: give 1 Hz", rate=0)
    refused("0 channels of 10 samples", np.zeros((0, 10)))
    refused("2000 channels of 2 samples: .*the channels are the first axis", np.zeros((2000, 2)))
    refused("subtype 'VORBIS' of format WAV: give one of ALAW, DOUBLE", subtype="VORBIS")
    refused("format 'wave': give format=, one of AIFF", format="wave")
    refused("format 'SD2': give format=", format="SD2")
    refused("no format is named after 'txt': give format=", where=tmp_path / "a.txt")
    refused("FLAC with PCM_16 cannot hold 9 channels", np.zeros((9, 10)), format="FLAC")
    refused("quality 0.5 of PCM_16: give 0 to 1, for VORBIS", quality=0.5)
    refused("quality 2 of VORBIS", format="OGG", quality=2)
    with pytest.raises(ft.DTypeError, match="samples of int64: give float32"):
        speech.save_audio(path, np.zeros(3, np.int64), 8000)
    with pytest.raises(ft.ShapeError, match=r"expected \(channels, samples\)"):
        speech.save_audio(path, np.zeros((1, 1, 3)), 8000)
    with pytest.raises(ft.FileError, match="cannot be written"):
        speech.save_audio(tmp_path / "none" / "a.wav", x, 8000)
    with pytest.raises(ft.DTypeError, match="dtype int8: give one of float32, float64, int16"):
        speech.load_audio(path, dtype="int8")


def test_recordings_of_no_samples(tmp_path):
    speech.save_audio(tmp_path / "a.wav", np.zeros((2, 0)), 8000)
    assert speech.load_audio(tmp_path / "a.wav")[0].shape == (2, 0)
