"""Kernels read, link and score as the array operations do."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import ngram_reference as reference
import numpy as np
import pytest
from test_ngram import random_grams, written

from fl_text import TextError
from fl_text.ngram import NGramModel, arpa, kernels, linking, read_arpa
from fl_text.ngram.tables import walk


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are used, in the interpreter, where every index is checked."""
    for module, name in (
        (arpa, "read_lines"),
        (linking, "link_order"),
        (kernels, "score_texts"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name).interpret)
    monkeypatch.setattr(kernels, "compiled", lambda: True)


def random_files(tmp_path: Path) -> Iterator[Path]:
    for seed in range(6):
        draw = random.Random(seed)
        grams = random_grams(seed, draw.choice([2, 3, 4]), sparse=seed % 3 == 2)
        text = reference.arpa(grams)
        if seed % 2:  # lines that are not ordinary, in between
            lines = text.split("\n")
            for k in range(8, len(lines), 5):
                lines[k] = lines[k].replace(" ", "  ").replace("\t", " \t ")
            text = "\n".join(lines)
        yield written(tmp_path, text)


@pytest.mark.usefixtures("interpreted")
def test_kernels_read_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in random_files(tmp_path):
        ngrams, model = read_arpa(path), NGramModel.from_arpa(path)
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "compiled", lambda: False)
            expected, plain = read_arpa(path), NGramModel.from_arpa(path)
        assert ngrams.vocabulary == expected.vocabulary
        for ours, theirs in zip(ngrams.orders, expected.orders):
            np.testing.assert_array_equal(ours.words, theirs.words)
            np.testing.assert_allclose(ours.log_prob, theirs.log_prob, rtol=1e-7)
            np.testing.assert_allclose(ours.backoff, theirs.backoff, rtol=1e-7)
        states, words = np.mgrid[: len(plain.tables.backoff), : len(plain.vocabulary)]
        for found, wanted in zip(
            walk(model.tables, states.ravel(), words.ravel()),
            walk(plain.tables, states.ravel(), words.ravel()),
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.usefixtures("interpreted")
def test_kernels_score_texts(tmp_path: Path) -> None:
    path = written(tmp_path, reference.arpa(reference.TOY))
    model = NGramModel.from_arpa(path)
    sentences = ["the cat sat", "", "été the", "new the cat"]
    expected = [reference.score(reference.TOY, [*s.split(), "</s>"]) for s in sentences]
    np.testing.assert_allclose(model.score_sentences(sentences), expected, atol=1e-5)
    for state in range(len(model.tables.backoff)):
        for word in range(len(model.vocabulary)):
            log_probs, after = walk(model.tables, np.array([state]), np.array([word]))
            assert kernels.log_prob.interpret(model.tables, state, word) == log_probs[0]
            assert kernels.next_state.interpret(model.tables, state, word) == after[0]


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("-0.625", "0.625", "line 17: '0.625' is no log probability"),
        ("-0.625", "-", "line 17: '-' is no log probability"),
        ("\t-0.1875\n", "\t1e40\n", "line 17: '1e40' is no backoff"),
        ("the cat sat", "the cat sat\t-1", "line 23: '-1' is no backoff of the highest order"),
        ("the cat sat", "the cat", "line 23: has 3 fields"),
        ("cat sat\t0", "cat sit\t0", "line 18: the word 'sit' is not among the unigrams"),
        ("cat sat\t0", "the cat\t0", "the n-gram 'the cat' is there twice"),
    ],
)
def test_kernels_leave_errors_to_others(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = written(tmp_path, reference.arpa(reference.TOY).replace(old, new, 1))
    with pytest.raises(TextError, match=message):
        NGramModel.from_arpa(path)
