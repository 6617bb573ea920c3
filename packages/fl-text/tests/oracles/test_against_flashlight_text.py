"""Dictionaries do what those of flashlight-text do: random ones, from lists, files and entries."""

from __future__ import annotations

import random

import pytest
from flashlight.lib.text import dictionary as peer

import fl_text as text

TOKENS = ["a", "b", "c'", "é", "x\xa0y", "|", "<unk>", "語", "\u3000", "z"]


def outcome(function, *arguments):
    """The result, or that there is an error."""
    try:
        return function(*arguments)
    except (ValueError, RuntimeError, IndexError):
        return "error"


def same(ours, theirs, draw):
    sizes = [(d.entry_size(), d.index_size(), d.is_contiguous()) for d in (ours, theirs)]
    assert sizes[0] == sizes[1]
    for token in TOKENS:
        assert ours.contains(token) == theirs.contains(token)
        assert outcome(ours.get_index, token) == outcome(theirs.get_index, token)
    for number in range(-1, 13):
        assert outcome(ours.get_entry, number) == outcome(theirs.get_entry, number)
    some = draw.choices(TOKENS, k=4)
    mapped = [outcome(d.map_entries_to_indices, some) for d in (ours, theirs)]
    assert mapped[0] == mapped[1]
    if mapped[0] != "error":
        assert ours.map_indices_to_entries(mapped[0]) == theirs.map_indices_to_entries(mapped[0])


@pytest.mark.parametrize("seed", range(50))
def test_dictionaries_made_entry_by_entry(seed):
    draw = random.Random(seed)
    ours, theirs = text.Dictionary(), peer.Dictionary()
    for token in draw.choices(TOKENS, k=8):
        number = [draw.randrange(12)] if draw.random() < 0.3 else []
        made = [outcome(d.add_entry, token, *number) for d in (ours, theirs)]
        assert made[0] == made[1]
        same(ours, theirs, draw)
    if ours.contains("a"):
        for d in (ours, theirs):
            d.set_default_index(ours.get_index("a"))
        same(ours, theirs, draw)


@pytest.mark.parametrize("seed", range(50))
def test_dictionaries_read_from_files(seed, tmp_path):
    draw = random.Random(seed)
    tokens = draw.sample(TOKENS, 7) if seed % 4 else draw.choices(TOKENS, k=7)
    page = "".join(token + draw.choice([" ", "\n", "\n", "\t", "\n\n"]) for token in tokens)
    path = tmp_path / "tokens.txt"
    path.write_text(page, "utf-8", newline="")
    ours, theirs = (outcome(kind.Dictionary, str(path)) for kind in (text, peer))
    assert (ours == "error") == (theirs == "error")
    if ours != "error":
        same(ours, theirs, draw)


@pytest.mark.parametrize("seed", range(50))
def test_lexicons(seed, tmp_path):
    draw = random.Random(seed)
    lines = [draw.choices(TOKENS, k=draw.randrange(2, 5)) for _ in range(10)]
    if seed % 5 == 0:
        lines[draw.randrange(10)] = draw.choices(TOKENS, k=draw.randrange(2))
    path = tmp_path / "lexicon.txt"
    path.write_text("".join(draw.choice([" ", "\t", "  "]).join(x) + "\n" for x in lines), "utf-8")
    if len(set(map(tuple, lines))) < len(lines):
        assert outcome(text.load_words, path) == "error"  # there a spelling may stand twice
        return
    for most in (-1, 0, 1, 3, 100):
        ours = outcome(text.load_words, str(path), most)
        theirs = outcome(peer.load_words, str(path), most)
        assert ours == theirs
        if ours == "error":
            continue
        words = text.create_word_dict(ours), peer.create_word_dict(theirs)
        assert {words[0].index_size(), words[1].index_size()} == {len(ours)}
        for some in words:
            assert some.get_entry(some.get_index("in no lexicon")) == "<unk>"


@pytest.mark.parametrize("seed", range(50))
def test_replabels(seed):
    draw = random.Random(seed)
    entries = draw.sample(["a", "b", "<1>", "<2>", "<3>"], 5)
    ours, theirs = text.Dictionary(entries), peer.Dictionary(entries)
    for most in (-1, 0, 1, 2, 3, 4):
        some = [draw.randrange(draw.randrange(1, 6)) for _ in range(draw.randrange(20))]
        for name in ("pack_replabels", "unpack_replabels"):
            made = outcome(getattr(text, name), some, ours, most)
            assert made == outcome(getattr(peer, name), some, theirs, most)
