"""Text files as lines."""

from __future__ import annotations

import pytest

import fl_text as text


def test_lines_keep_their_end_and_can_be_read_twice(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\n\nthree")
    (tmp_path / "b.txt").write_bytes(b"vier\n")
    files = text.TextFiles(tmp_path / "a.txt", str(tmp_path / "b.txt"))
    expected = ["one\n", "two\n", "\n", "three", "vier\n"]
    assert list(files) == expected
    assert list(files) == expected


def refused(message, *paths, **options):
    with pytest.raises(text.TextFileError, match=message) as caught:
        list(text.TextFiles(*paths, **options))
    assert isinstance(caught.value, text.FlError)
    assert isinstance(caught.value, ValueError)
    assert str(paths[-1]) in str(caught.value)


def test_bad_files_are_named(tmp_path):
    path = tmp_path / "a.txt"
    refused("no such file", path)
    refused("no such file", tmp_path)
    path.write_bytes(b"good\nb\xe4d\n")
    refused(r"line 2 is not UTF-8 \(byte 0xe4 at 1\): convert", path)
    path.write_bytes(b"12345\n1234567\n")
    refused("line 2 is longer than max_line=6", path, max_line=6)
    refused("14 bytes are more than max_bytes=13", path, max_bytes=13)


def test_a_path_is_needed():
    with pytest.raises(text.TextError, match="at least one path"):
        text.TextFiles()
