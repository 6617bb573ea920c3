"""Repetition labels."""

from __future__ import annotations

import itertools

import pytest

import fl_text as text


@pytest.fixture
def tokens():
    return text.Dictionary(["<1>", *"helo", "<2>", "<3>"])


def packed(tokens, word, most):
    return " ".join(tokens.map_indices_to_entries(text.tkn2idx(word, tokens, most)))


def test_repetitions_become_labels(tokens):
    assert packed(tokens, "hello", 1) == "h e l <1> o"
    assert packed(tokens, "hello", 0) == "h e l l o"
    assert packed(tokens, "oooh", 2) == "o <2> h"
    assert packed(tokens, "oooh", 1) == "o <1> o h"
    assert packed(tokens, "hooooo", 2) == "h o <2> o <1>"


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_unpacking_undoes_packing(tokens, most):
    for length in range(8):
        for word in itertools.product([1, 4], repeat=length):
            labels = text.pack_replabels(word, tokens, most)
            assert text.unpack_replabels(labels, tokens, most) == list(word)
            if most:
                assert all(a != b for a, b in itertools.pairwise(labels)) or length > most


def test_labels_that_repeat_nothing_are_left_out(tokens):
    one, two, h, o = tokens.map_entries_to_indices(["<1>", "<2>", "h", "o"])
    assert text.unpack_replabels([one, h, two, one, o, one, two], tokens, 2) == [h, h, h, o, o]
    assert text.unpack_replabels([two, two], tokens, 2) == []
    assert text.unpack_replabels([h, two], tokens, 1) == [h, two]  # no label of so few


def test_missing_labels_are_named(tokens):
    tokens.set_default_index(1)
    for function in (text.pack_replabels, text.unpack_replabels):
        with pytest.raises(text.TextError, match="max_reps=4 .* <4> is not in the dictionary"):
            function([1, 1], tokens, 4)
        assert function([], tokens, 4) == []
    with pytest.raises(text.TextError, match="'x' is not among"):
        text.tkn2idx("ax", text.Dictionary(["a"]))
