"""Lexicons: words and spellings from files."""

from __future__ import annotations

import pytest

import fl_text as text


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lexicon.txt"


def test_several_spellings_append(path):
    path.write_text("a A |\nread r e d |\r\n\tread\tr ee d |\nnaïve n a ï v e |", "utf-8")
    lexicon = text.load_words(path)
    assert lexicon == {
        "a": [["A", "|"]],
        "read": [["r", "e", "d", "|"], ["r", "ee", "d", "|"]],
        "naïve": [[*"naïve", "|"]],
        "<unk>": [],
    }
    path.write_text("<unk> u n k\n")
    assert text.load_words(path) == {"<unk>": []}
    lexicon.save(path)
    assert path.read_text("utf-8").splitlines()[2] == "read r ee d |"
    assert text.load_words(path) == lexicon


def test_reading_ends_with_the_last_word_that_is_wanted(path):
    path.write_text("a 1\nb 1\nb 2\nc 1\nbad\n")
    assert list(text.load_words(path, max_words=1)) == ["a", "<unk>"]
    assert text.load_words(path, 2) == {"a": [["1"]], "b": [["1"]], "<unk>": []}
    assert list(text.load_words(path, 0)) == ["<unk>"]
    with pytest.raises(text.TextFileError, match="line 5 has only the word 'bad'"):
        text.load_words(path)


def test_bad_files_are_named_with_their_line(path, fifo):
    def refused(content, message):
        path.write_bytes(content)
        with pytest.raises(text.TextFileError, match=message) as caught:
            text.load_words(path)
        assert caught.value.path == str(path)

    refused(b"a 1\nb\n", "line 2 has only the word 'b': write a word and the tokens")
    refused(b"a 1\n \nb 1\n", "line 2 has nothing")
    refused(b"a 1 2\nb 1\na 1 2\n", "line 3: .* 'a' has the spelling 1 2 already: remove")
    refused(b"a 1\nb\xc3(", r"line 2 is not UTF-8 \(byte 0xc3 at 1\)")
    for missing in (path.with_name("missing"), fifo):
        with pytest.raises(text.TextFileError, match="no such file"):
            text.load_words(missing)


def test_words_are_numbered_and_unknown_ones_have_a_number():
    words = text.create_word_dict(text.Lexicon({"b": [["1"]], "a": [["2"]], "<unk>": []}))
    assert words.map_entries_to_indices(["b", "a", "<unk>", "else"]) == [0, 1, 2, 2]
    with pytest.raises(text.TextError, match="no <unk>"):
        text.create_word_dict({"a": [["1"]]})


def test_spellings_are_numbered():
    tokens = text.Dictionary([*"helo", "|", "<1>"])
    lexicon = text.Lexicon({"hello": [[*"hello", "|"]], "<unk>": [], "ee": ["ee", ["e", "e"]][1:]})
    assert list(lexicon.indices(tokens, 1)) == [("hello", [0, 1, 2, 5, 3, 4]), ("ee", [1, 5])]
    assert dict(lexicon.indices(tokens))["hello"] == [0, 1, 2, 2, 3, 4]
    lexicon.add("ox", ["o", "x"])
    with pytest.raises(text.TextError, match="word 'ox', spelled o x: .*'x' is not among the 6"):
        list(lexicon.indices(tokens))


@pytest.mark.parametrize("spelling", ["ab", [], ["1", "2"]])
def test_spellings_that_are_none_are_refused(spelling):
    lexicon = text.Lexicon({"a": [["1", "2"], ["2"]]})
    with pytest.raises(text.TextError, match="is no list of tokens|has the spelling 1 2 already"):
        lexicon.add("a", spelling)
    with pytest.raises(text.TextError, match="is no list of tokens"):
        lexicon.add("new", "")
    assert lexicon == {"a": [["1", "2"], ["2"]]}


def test_what_a_file_cannot_hold_is_not_saved(path):
    for word, token in (("a b", "1"), ("a", " "), ("", "1")):
        with pytest.raises(text.TextError, match="white space and empty"):
            text.Lexicon({word: [[token]]}).save(path)
    assert not path.exists()


def test_a_word_splits_into_characters():
    assert text.split_word("naïve語") == ["n", "a", "ï", "v", "e", "語"]
    assert text.split_word("ï語".encode()) == ["ï", "語"]
    for bad in (b"a\xff", b"\xe8\xaa", "\ud800"):
        with pytest.raises(text.TextError, match="is no UTF-8"):
            text.split_word(bad)
