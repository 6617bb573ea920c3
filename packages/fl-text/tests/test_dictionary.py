"""Dictionaries: tokens and numbers, from lists and files."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import fl_text as text


def test_a_list_is_numbered_in_order():
    letters = text.Dictionary(["a", "b", "c"])
    assert letters.map_entries_to_indices(["c", "a", "b"]) == [2, 0, 1]
    assert letters.map_indices_to_entries([2, 0, np.int64(1)]) == ["c", "a", "b"]
    assert (letters.entry_size(), letters.index_size(), len(letters)) == (3, 3, 3)
    assert letters.contains("b")
    assert "b" in letters
    assert "d" not in letters


def test_aliases_share_a_number_and_the_first_is_its_token(tmp_path):
    path = tmp_path / "tokens.txt"
    path.write_bytes(b"\xef\xbb\xbfa A\r\n\n \t \nb\nc C\xc2\xa0 c'")
    letters = text.Dictionary(path)
    assert letters.map_entries_to_indices(["a", "A", "b", "c", "C\xa0", "c'"]) == [0, 0, 1, 2, 2, 2]
    assert letters.map_indices_to_entries(range(3)) == ["a", "b", "c"]
    assert (letters.entry_size(), letters.index_size()) == (6, 3)
    letters.save(tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_text("utf-8") == "a A\nb\nc C\xa0 c'\n"


def test_a_token_gets_the_next_free_number_or_its_own():
    made = text.Dictionary()
    assert made.is_contiguous()
    made.add_entry("c", 2)
    assert not made.is_contiguous()
    for token in "ab":
        made.add_entry(token)  # the second would be 2, which is taken
    assert made.get_index("a") == 1
    assert made.get_index("b") == 3
    made.add_entry("z", np.int32(0))
    made.add_entry("Z", 0)
    assert made.is_contiguous()
    assert made.get_entry(0) == "z"


def test_unknown_tokens_get_the_default_number():
    made = text.Dictionary(["a", "<unk>"])
    with pytest.raises(text.TextError, match=r"'x' is not among the 2 tokens .* set_default_index"):
        made.get_index("x")
    made.set_default_index(1)
    assert made.map_entries_to_indices("xa") == [1, 0]
    assert not made.contains("x")
    assert pickle.loads(pickle.dumps(made)).get_index("x") == 1


@pytest.mark.parametrize(
    "message, wrong",
    [
        ("'a' has the number 0 already", lambda d: d.add_entry("a")),
        ("'a' has the number 0 already", lambda d: d.add_entry("a", 5)),
        ("the number -1 is not at least 0", lambda d: d.add_entry("b", -1)),
        ("the number True is not at least 0", lambda d: d.add_entry("b", True)),
        ("the number 1.5 is no integer", lambda d: d.add_entry("b", 1.5)),
        ("the token 3 is no str", lambda d: d.add_entry(3)),
        (r"no number 1, only 0 \.\. 0", lambda d: d.get_entry(1)),
        ("the number -1 is not at least 0", lambda d: d.get_entry(-1)),
        (r"no number 7, only 0 \.\. 0", lambda d: d.set_default_index(7)),
    ],
)
def test_what_does_not_fit_is_refused(message, wrong):
    made = text.Dictionary(["a"])
    with pytest.raises(text.TextError, match=message):
        wrong(made)
    assert made.entry_size() == 1


def test_bad_files_are_named_with_their_line(tmp_path):
    path = tmp_path / "tokens.txt"

    def refused(content, message):
        path.write_bytes(content)
        with pytest.raises(text.TextFileError, match=message) as caught:
            text.Dictionary(path)
        assert str(path) in str(caught.value)

    refused(b"a\n\nb a\n", "line 3 has 'a', which has the number 0 already: remove one")
    refused(b"a\nb\xff\n", r"line 2 is not UTF-8 \(byte 0xff at 1\)")
    refused(b"a\nb\xe2\x82", r"line 2 is not UTF-8 \(byte 0xe2 at 1\)")
    with pytest.raises(text.TextFileError, match="no such file"):
        text.Dictionary(tmp_path / "missing")


def test_what_a_file_cannot_hold_is_not_saved(tmp_path):
    path = tmp_path / "tokens.txt"
    gap = text.Dictionary(["a"])
    gap.add_entry("c", 2)
    with pytest.raises(text.TextError, match=r"0 \.\. 2 without 1, and a file has no gaps"):
        gap.save(path)
    for token in ("", "a b", "a\n"):
        with pytest.raises(text.TextError, match="is empty or has white space"):
            text.Dictionary([token]).save(path)
    with pytest.raises(text.TextFileError, match="surrogate"):
        text.Dictionary(["\ud800"]).save(path)
    with pytest.raises(text.TextFileError, match="check its folder"):
        text.Dictionary(["a"]).save(tmp_path / "missing" / "tokens.txt")
    assert not path.exists()
