"""Encoders of words and spellings; they and the tokenizer serve the same datasets."""

from __future__ import annotations

import pytest

import fl_tensor as ft
import fl_text as text


@pytest.fixture
def words():
    return text.Dictionary(["<pad>", "<unk>", "</s>", "the", "cat", "sat"])


@pytest.fixture
def letters():
    tokens = text.Dictionary([*"|acehlotz", "<1>"])
    lexicon = text.Lexicon({"hello": [[*"hello", "|"], ["z"]], "cat": [[*"cat", "|"]]})
    return text.SpellingEncoder(lexicon, tokens, max_reps=1)


def test_words_become_numbers_and_back(words):
    encoder = text.WordEncoder(words)
    assert encoder.encode("the  cat\tran\n", eos=True) == [3, 4, 1, 2]
    assert encoder.decode([3, 4, 1, 5, 2]) == "the cat sat"
    assert encoder.decode(ft.asarray([3, 1]), skip_special=False) == "the <unk>"
    assert len(encoder) == 6
    assert list(encoder.encode_corpus(["cat", ""])) == [[4], []]


def test_unknown_words_are_refused_without_a_number_for_them():
    known = text.Dictionary(["the", "cat"])
    encoder = text.WordEncoder(known)
    with pytest.raises(text.TextError, match="'ran' is not among the 2 tokens"):
        encoder.encode("the cat ran")
    known.set_default_index(1)
    assert text.WordEncoder(known).encode("the ran") == [0, 1]


def test_spellings_become_numbers_and_back(letters):
    numbers = letters.encode("hello cat")
    packed = letters.tokens.map_indices_to_entries(numbers)
    assert packed == [*"hel", "<1>", *"o|cat|"]
    assert letters.decode(numbers) == "hello cat"
    with pytest.raises(text.TextError, match="'hat' has no spelling"):
        letters.encode("hat")
    letters.letters = True
    assert letters.decode(letters.encode("hat cat")) == "hat cat"
    with pytest.raises(text.TextError, match="'q' is not among"):
        letters.encode("q")


def test_decoding_cuts_at_separators_and_looks_words_up(letters):
    numbers = letters.tokens.map_entries_to_indices
    letters.lexicon.add("hello", ["h"])
    other = text.SpellingEncoder(letters.lexicon, letters.tokens)
    assert other.decode(numbers("z|cat|h")) == "z cat hello"
    assert other.decode(numbers("||cat")) == "cat"
    pieces = text.Dictionary(["_he", "llo", "_cat", "s"])
    lexicon = text.Lexicon({"hello": [["_he", "llo"]], "Cats": [["_cat", "s"]]})
    encoder = text.SpellingEncoder(lexicon, pieces, separator="_")
    assert encoder.encode("hello Cats") == [0, 1, 2, 3]
    assert encoder.decode([0, 1, 2, 3, 2]) == "hello Cats cat"
    whole = text.SpellingEncoder(text.Lexicon({"hello": [["llo"]]}), pieces, separator="")
    assert whole.decode([0, 1]) == "_hello"


def test_encoders_check_their_dictionary(words, letters):
    gap = text.Dictionary(["a"])
    gap.add_entry("b", 2)
    with pytest.raises(text.TextError, match="have gaps"):
        text.WordEncoder(gap)
    with pytest.raises(text.TextError, match="<2> is not in the dictionary"):
        text.SpellingEncoder(letters.lexicon, letters.tokens, max_reps=2)
    with pytest.raises(text.TextError, match="the word 'cat', spelled c a t |"):
        text.SpellingEncoder(letters.lexicon, text.Dictionary([*"helo|", "z"]))
    with pytest.raises(text.TextError, match="no bos token .spelling '<s>'."):
        text.WordEncoder(words).encode("cat", bos=True)
    with pytest.raises(text.TextError, match=r"ids\[1\] is 6, the vocabulary has 0 \.\. 5"):
        text.WordEncoder(words).decode([0, 6])
    with pytest.raises(text.TextError, match=r"ids\[0\] is -1, the vocabulary has"):
        text.WordEncoder(words).decode([-1])
    with pytest.raises(text.TextError, match=r"ids\[0\] is True: expected an integer"):
        text.WordEncoder(words).decode([True])


def test_datasets_take_any_encoder(words, letters, tokenizers):
    lines = ["the cat sat\n", "the sat\n"] * 5
    for encoder in (text.WordEncoder(words), tokenizers["bpe"]):
        assert isinstance(encoder, text.TextEncoder)
        stream = text.lm_dataset(lines, encoder, 4, eos=True)
        assert encoder.decode(stream[0][0]).startswith("the cat")
    numbers = text.WordEncoder(words)
    assert text.lm_dataset(lines, numbers, 4, eos=True)[0][0].tolist() == [3, 4, 5, 2]
    inputs, targets = text.lm_dataset(lines, numbers, 5, "line", target_pad=-1)[1]
    assert inputs.tolist() == [2, 3, 5, 0, 0]  # begins with the end token: there is no <s>
    assert targets.tolist() == [3, 5, 2, -1, -1]
    assert text.lm_dataset(["cat hello\n"], letters, 4)[0][0].shape == (4,)
    with pytest.raises(text.TextError, match="is no TextEncoder: give a Tokenizer, or the Word"):
        text.lm_dataset(lines, words, 4)
