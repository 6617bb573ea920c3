"""OGG files that were cut off: the decoder takes what is there for the whole."""

from __future__ import annotations

import io

import pytest

import fl_speech as speech
from fl_speech.audio import load_batch
from fl_speech.container import check_complete

pytestmark = pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])


@pytest.fixture
def whole(write, tone, subtype):
    """A recording of 2.5 s."""
    return write("a.ogg", tone(40_000), format="OGG", subtype=subtype)


def pages(data):
    """Where pages begin (by RFC 3533), which the samples do not look like."""
    found, place = [], 0
    while place < len(data):
        assert data[place : place + 4] == b"OggS"
        found.append(place)
        count = data[place + 26]
        place += 27 + count + sum(data[place + 27 : place + 27 + count])
    return found


def is_refused(path, data):
    path.write_bytes(data)
    try:
        speech.load_audio(path)
    except speech.AudioError as error:
        assert path.name in str(error)
        return True
    return False


@pytest.mark.defect("V4")
@pytest.mark.parametrize("lost", [1, 2, 10, 100, 1000])
def test_bytes_lost_at_the_end(whole, tmp_path, lost):
    (tmp_path / "cut.ogg").write_bytes(whole.read_bytes()[:-lost])
    for read in (speech.load_audio, speech.audio_info, lambda path: load_batch([path], 10)):
        with pytest.raises(speech.AudioError, match=r"cut\.ogg: truncated: its last page does not"):
            read(tmp_path / "cut.ogg")


@pytest.mark.defect("V4")
@pytest.mark.defect("P6")
def test_pages_lost_at_the_end(whole, tmp_path):
    data = whole.read_bytes()
    starts = pages(data)
    assert len(starts) > 3
    assert all(is_refused(tmp_path / "cut.ogg", data[:start]) for start in starts[1:])


@pytest.mark.defect("V4")
def test_the_second_of_two_streams_is_cut(whole, tmp_path):
    data = whole.read_bytes()
    assert not is_refused(tmp_path / "two.ogg", data + data)
    for left in (1, 4, 20, 28, 100, len(data) - 1):
        assert is_refused(tmp_path / "two.ogg", data + data[:left]), left


def test_what_follows_the_stream_is_passed_over(whole, tmp_path):
    data = whole.read_bytes()
    for more in (b"TAG" + bytes(125), bytes(1)):
        assert not is_refused(tmp_path / "tagged.ogg", data + more)


def test_samples_that_look_like_a_page(whole, tmp_path):
    # What looks like the header of a page, inside of the last one, where no page follows it.
    data = whole.read_bytes()
    last = pages(data)[-1]
    inside = last + 27 + data[last + 26] + 5
    false = b"OggS\0\0" + bytes(20) + b"\1\5"
    path = tmp_path / "false.ogg"
    path.write_bytes(data[:inside] + false + data[inside + len(false) :])
    with open(path, "rb") as file:
        check_complete(str(path), file, len(data))


def test_little_is_read_of_a_long_recording(write, tone, subtype):
    data = write("long.ogg", tone(1_000_000), format="OGG", subtype=subtype).read_bytes()
    read = []

    class Counting(io.BytesIO):
        def read(self, count):
            read.append(count)
            return super().read(count)

    check_complete("long.ogg", Counting(data), len(data))
    assert sum(read) < 131_000 < len(data)
