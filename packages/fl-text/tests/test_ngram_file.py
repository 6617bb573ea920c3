"""n-gram models in mapped files: equal to what was saved, and safe whatever the bytes are."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import ngram_reference as reference
import numpy as np
import pytest

from fl_text import TextError, TextFileError
from fl_text.ngram import NGramModel


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    (tmp_path / "model.arpa").write_text(reference.arpa(reference.TOY), encoding="utf-8")
    path = tmp_path / "model.ngram"
    NGramModel.from_arpa(tmp_path / "model.arpa").save(path)
    return path


def test_a_saved_model_is_the_same(saved: Path) -> None:
    model = NGramModel.load(saved)
    made = NGramModel.from_arpa(saved.with_suffix(".arpa"))
    for name, array in made.tables._asdict().items():
        np.testing.assert_array_equal(getattr(model.tables, name), array)
    assert (model.bos, model.eos, model.unk) == (made.bos, made.eos, made.unk)
    assert list(model.vocabulary) == list(made.vocabulary)
    assert model.score("the été sat on") == made.score("the été sat on")
    assert not model.tables.key.flags.writeable


def test_a_file_of_another_size_is_refused(saved: Path) -> None:
    data = saved.read_bytes()
    for size in [*range(0, len(data), 7), len(data) - 1]:
        saved.write_bytes(data[:size])
        with pytest.raises(TextFileError, match="model.ngram"):
            NGramModel.load(saved)
    saved.write_bytes(data + b"\n")
    with pytest.raises(TextFileError, match="its head says"):
        NGramModel.load(saved)


#: Numbers that the head begins with, and where the arrays of the toy model lie.
SLOTS, STATES, WORDS, BUCKETS, TEXT = range(5)


def changed(path: Path, name: str, index: int, value: float) -> None:
    """Writes one value of one array into the file."""
    data = bytearray(path.read_bytes())
    head = struct.unpack_from("<8q", data, 8)
    slots, states, words = head[SLOTS], head[STATES], head[WORDS]
    at = 72
    for field, code, count in (
        ("key", "q", slots),
        ("log_prob", "f", slots),
        ("next", "i", slots),
        ("backoff", "f", states),
        ("suffix", "i", states),
        ("log_prob_1", "f", words),
        ("next_1", "i", words),
    ):
        at += -at % 64
        if field == name:
            struct.pack_into(
                "<" + code, data, at + range(count)[index] * struct.calcsize(code), value
            )
        at += count * struct.calcsize(code)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        ("key", -1, 7, "its last slot is not empty"),
        ("next", 3, 1 << 30, "next names a state 1073741824, and there are"),
        ("next", 0, -1, "next names a state 4294967295"),
        ("next_1", 2, 1 << 20, "next_1 names a state"),
        ("suffix", 2, 3, "suffix leads to a state that is not smaller"),
        ("suffix", 0, 1, "suffix leads to a state that is not smaller"),
        ("log_prob", 1, float("nan"), "log_prob has a value out of range"),
        ("log_prob_1", 1, 0.5, "log_prob_1 has a value out of range"),
        ("backoff", 1, float("-inf"), "backoff has a value out of range"),
    ],
)
def test_values_that_lead_outside_are_refused(
    saved: Path, name: str, index: int, value: float, message: str
) -> None:
    changed(saved, name, index, value)
    with pytest.raises(TextFileError, match=message):
        NGramModel.load(saved)


@pytest.mark.parametrize(
    ("field", "value"),
    [(SLOTS, 1 << 60), (SLOTS, 0), (STATES, -1), (WORDS, 1 << 40), (BUCKETS, 1 << 31), (TEXT, 0)],
)
def test_sizes_beyond_the_file_are_refused(saved: Path, field: int, value: int) -> None:
    data = bytearray(saved.read_bytes())
    struct.pack_into("<q", data, 8 + 8 * field, value)
    saved.write_bytes(data)
    with pytest.raises(TextFileError, match="has the head"):
        NGramModel.load(saved)


def test_a_vocabulary_is_checked_when_it_is_used(saved: Path) -> None:
    data = saved.read_bytes()
    for old, new, message in (
        (b"\ncat\n", b"\nthe\n", "different words, expected 7"),
        (b"\ncat\n", b"\nc\xe9t\n", "not UTF-8"),
        (b"</s>\n", b"</t>\n", "its markers of sentences are other words"),
    ):
        saved.write_bytes(data.replace(old, new))
        model = NGramModel.load(saved)
        with pytest.raises(TextFileError, match=message):
            model.score("the cat")


def test_damaged_files_never_lead_outside(saved: Path) -> None:
    data, draw = saved.read_bytes(), random.Random(0)
    loaded = 0
    for _ in range(int(os.environ.get("FL_NGRAM_CASES", "300"))):
        damaged = bytearray(data)
        for _ in range(draw.randrange(1, 4)):
            damaged[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        saved.write_bytes(damaged)
        try:
            model = NGramModel.load(saved)
        except TextFileError:
            continue
        loaded += 1
        states, words = np.mgrid[: len(model.tables.backoff), : len(model.tables.log_prob_1)]
        log_probs, after = model.score_words(states.ravel(), words.ravel())
        assert np.isfinite(log_probs).all()
        assert 0 <= after.min() and after.max() < len(model.tables.backoff)
    assert loaded > 20


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.arpa").write_text(reference.arpa(reference.TOY), encoding="utf-8")
    with pytest.raises(TextFileError, match=r"does not begin with 'flngram1'.*from_arpa"):
        NGramModel.load(tmp_path / "model.arpa")
    with pytest.raises(TextFileError, match="unreadable"):
        NGramModel.load(tmp_path / "missing")
    model = NGramModel.from_arpa(tmp_path / "model.arpa")
    with pytest.raises(TextError, match="6 words for tables of 7"):
        NGramModel(model.tables, model.vocabulary[:-1])
