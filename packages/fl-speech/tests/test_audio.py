"""Reading audio: values, stretches, and every kind of broken file."""

from __future__ import annotations

import os
import struct
import subprocess
import sys

import numpy as np
import pytest

import fl_speech as speech
import fl_tensor as ft


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.aiff"])
def test_integers_come_as_float32_in_minus_one_to_one(write, name):
    values = np.array([[0, 100], [-32768, 200], [32767, 300]], dtype=np.int16)
    audio, rate = speech.load_audio(write(name, values, 8000))
    assert (audio.shape, audio.dtype, rate) == ((2, 3), ft.float32, 8000)
    np.testing.assert_array_equal(audio.numpy(), (values.T / 32768).astype(np.float32))


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
def test_every_usual_sample_format_is_read(write, tone, subtype):
    values = tone(1000)
    audio, _ = speech.load_audio(write("a.wav", values, subtype=subtype))
    np.testing.assert_allclose(audio.numpy()[0], values, atol=1e-2 if subtype == "PCM_U8" else 1e-6)


def test_long_files_are_read_whole(write):
    values = (np.arange(600_000) % 30_000).astype(np.int16)
    audio, _ = speech.load_audio(write("a.wav", values))
    np.testing.assert_array_equal(audio.numpy()[0] * 32768, values)


def test_a_stretch(write):
    path = write("a.wav", np.arange(10, dtype=np.int16))
    for start, count, expected in [
        (3, 4, [3, 4, 5, 6]),
        (8, None, [8, 9]),
        (10, None, []),
        (0, 0, []),
    ]:
        audio, _ = speech.load_audio(path, start=start, samples=count)
        assert audio.shape == (1, len(expected))
        assert (audio * 32768).tolist()[0] == expected


def test_info_reads_the_header_alone(write):
    info = speech.audio_info(write("a.wav", np.zeros((4000, 2), np.int16), 8000))
    assert (info.sample_rate, info.channels, info.samples, info.seconds) == (8000, 2, 4000, 0.5)
    assert (info.format, info.subtype) == ("WAV", "PCM_16")


def refused(path, message, **options):
    with pytest.raises(speech.AudioError, match=message) as caught:
        speech.load_audio(path, **options)
    assert isinstance(caught.value, speech.FlError)
    assert isinstance(caught.value, ValueError)
    assert str(path) in str(caught.value)
    assert caught.value.path == str(path)


def test_settings_that_the_file_does_not_meet(write):
    path = write("a.wav", np.zeros((100, 2), np.int16), 8000)
    refused(path, "rate is 8000 Hz and 16000 Hz are needed: convert", sample_rate=16000)
    refused(path, r"2 x 100 values are more than max_values=199: read a stretch", max_values=199)
    refused(path, r"samples 90 \.\. 110 were asked for and it has 100", start=90, samples=20)
    refused(path, "were asked for", start=101)
    refused(path, "were asked for", start=-1)


def test_paths_that_are_no_audio(tmp_path):
    refused(tmp_path / "none.wav", "no such file")
    refused(tmp_path, "not a regular file")
    for name, content in [("e.wav", b""), ("t.wav", b"This is a text, and no audio." * 9)]:
        (tmp_path / name).write_bytes(content)
    refused(tmp_path / "e.wav", "the file is empty")
    refused(tmp_path / "t.wav", "not an audio file that can be decoded")
    if os.geteuid() != 0:
        (tmp_path / "t.wav").chmod(0)
        refused(tmp_path / "t.wav", "unreadable")


@pytest.mark.parametrize("name", ["a.wav", "a.aiff", "a.flac"])
def test_a_truncated_file_is_refused_wherever_it_was_cut(write, tone, name):
    """The decoder alone would give what is left of a WAV, without a word."""
    path = write(name, tone(20_000))
    whole = path.read_bytes()
    for size in (1, 11, 20, 43, 60, len(whole) // 2, len(whole) - 2):
        path.write_bytes(whole[:size])
        refused(path, "truncated|cut off|not an audio file|broken")


def test_a_truncated_rf64_is_refused(write, tone):
    path = write("a.wav", tone(20_000), format="RF64")
    audio, _ = speech.load_audio(path)
    assert audio.shape == (1, 20_000)
    path.write_bytes(path.read_bytes()[:-100])
    refused(path, "truncated")


def test_a_streamed_wav_ends_where_the_file_ends(write):
    """Who writes to a pipe cannot know the length, and writes the largest number."""
    path = write("a.wav", np.arange(50, dtype=np.int16))
    raw = bytearray(path.read_bytes())
    place = raw.index(b"data") + 4
    raw[place : place + 4] = struct.pack("<I", 0xFFFFFFFF)
    path.write_bytes(raw)
    assert speech.load_audio(path)[0].shape == (1, 50)


def test_a_header_that_promises_terabytes_costs_no_memory(write):
    path = write("a.flac", np.zeros(100, np.int16))
    raw = bytearray(path.read_bytes())
    # STREAMINFO: 36 bits of sample count, the low 32 of them 14 bytes into the block at offset 8
    raw[22:26] = b"\xff\xff\xff\xff"
    path.write_bytes(raw)
    refused(path, "more than max_values|not an audio file")


def test_damaged_samples_are_refused(write, tone):
    path = write("a.flac", tone(50_000))
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2 : len(raw) // 2 + 4000] = b"\x00" * 4000
    path.write_bytes(raw)
    refused(path, "broken|truncated")


def test_nan_and_infinity_are_refused(write):
    for bad in (np.nan, np.inf):
        refused(write("a.wav", [0.0, bad, 1.0], subtype="FLOAT"), "NaN or infinite")


@pytest.mark.parametrize("seed", range(30))
def test_random_damage_never_gives_anything_but_our_error(write, tone, seed):
    rng = np.random.default_rng(seed)
    path = write(["a.wav", "a.flac", "a.aiff", "a.ogg"][seed % 4], tone(5000))
    raw = bytearray(path.read_bytes())
    for place in rng.integers(0, min(len(raw), 200), 8):
        raw[place] = rng.integers(256)
    path.write_bytes(raw)
    try:
        audio, rate = speech.load_audio(path, max_values=1 << 20)
    except speech.AudioError as error:
        assert str(path) in str(error)
    else:
        assert audio.ndim == 2 and rate > 0


def test_import_loads_no_array_library_and_no_codec():
    code = "import sys, fl_speech; print(sorted({'numpy', 'soundfile'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
