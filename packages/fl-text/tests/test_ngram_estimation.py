"""Estimation: modified Kneser-Ney as defined, written as ARPA."""

from __future__ import annotations

import os
import random
from pathlib import Path

import ngram_reference as reference
import numpy as np
import pytest

from fl_text import TextError, TextFiles
from fl_text.ngram import NGramModel, NGrams, Order, estimate, read_arpa, write_arpa

CORPUS = Path(os.environ.get("FL_TEST_DATA", "/nowhere")) / "text" / "tinyshakespeare.txt"


def made(count: int = 600, seed: int = 0) -> list[str]:
    """Sentences in which few words are frequent and many rare, some of them in pairs."""
    draw = random.Random(seed)
    sentences = []
    for _ in range(count):
        words = [min(300, int(draw.paretovariate(0.8))) for _ in range(draw.randrange(9))]
        sentences.append(" ".join(f"w{k} v{k % 7}" if k % 3 else f"w{k}" for k in words))
    return sentences


def shakespeare(lines: int) -> list[str]:
    if not CORPUS.exists():
        pytest.skip("FL_TEST_DATA has no text/tinyshakespeare.txt")
    return [line for line in TextFiles(CORPUS) if line.strip()][:lines]


def as_grams(ngrams: NGrams) -> reference.Grams:
    return {
        tuple(ngrams.vocabulary[k] for k in words): (p, b)
        for order in ngrams.orders
        for words, p, b in zip(
            order.words.tolist(), order.log_prob.tolist(), order.backoff.tolist()
        )
    }


def assert_equal(ours: reference.Grams, expected: reference.Grams) -> None:
    assert ours.keys() == expected.keys()
    for gram, values in expected.items():
        assert ours[gram] == pytest.approx(values, abs=1e-9), gram


@pytest.mark.parametrize("prune", [[0], [0, 0, 1], [0, 1, 2, 2]], ids=str)
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_every_ngram_has_its_defined_probability(order: int, prune: list[int]) -> None:
    limits = [*prune, *[prune[-1]] * 4][:order]
    sentences = made()
    ours = as_grams(estimate(sentences, order, prune=limits))
    assert_equal(ours, reference.kneser_ney(sentences, order, limits))


def test_every_ngram_of_real_text() -> None:
    sentences = shakespeare(int(os.environ.get("FL_NGRAM_LINES", "1500")))
    for order, prune in ((3, [0, 0, 0]), (4, [0, 0, 1, 1])):
        discounts = (0.5, 1.0, 1.5)
        ours = estimate(sentences, order, prune=prune, discount_fallback=discounts)
        expected = reference.kneser_ney(sentences, order, prune, discounts)
        assert_equal(as_grams(ours), expected)


@pytest.mark.parametrize("prune", [(), (0, 0, 1)], ids=["all", "pruned"])
def test_probabilities_sum_to_one(prune: tuple[int, ...]) -> None:
    contexts = int(os.environ.get("FL_NGRAM_CONTEXTS", "100"))
    for sentences in (made(), shakespeare(4000)):
        model = NGramModel.from_ngrams(estimate(sentences, 3, prune=prune))
        draw = np.random.default_rng(0)
        words = np.arange(len(model.vocabulary))
        for state in draw.integers(0, len(model.tables.backoff), contexts):
            log_probs, _ = model.score_words(np.full(len(words), state), words)
            assert (10.0**log_probs).sum() == pytest.approx(1, abs=1e-6)


def test_unknown_words_and_ends_have_probability() -> None:
    model = NGramModel.from_ngrams(estimate(made(), 2))
    vocabulary = len(model.vocabulary)
    assert model.score("never-seen", bos=False, eos=False) > -np.log10(vocabulary) - 3
    assert model.score("<s>", bos=False, eos=False) == -99


def test_an_estimated_model_is_written_and_read(tmp_path: Path) -> None:
    ngrams = estimate(made(), 3)
    write_arpa(tmp_path / "model.arpa", ngrams)
    read = read_arpa(tmp_path / "model.arpa")
    assert read.vocabulary == ngrams.vocabulary
    for ours, again in zip(ngrams.orders, read.orders):
        np.testing.assert_array_equal(again.words, ours.words)
        np.testing.assert_allclose(again.log_prob, ours.log_prob, rtol=1e-6)
        np.testing.assert_allclose(again.backoff, ours.backoff, rtol=1e-6, atol=1e-9)


def test_too_little_text_names_the_way_out() -> None:
    few = ["a b", "b a c"]
    with pytest.raises(TextError, match=r"no 1-gram has the adjusted count .*discount_fallback"):
        estimate(few, 2)
    model = NGramModel.from_ngrams(estimate(few, 2, discount_fallback=(0.5, 1, 1.5)))
    words = np.arange(len(model.vocabulary))
    for state in range(len(model.tables.backoff)):
        log_probs, _ = model.score_words(np.full(len(words), state), words)
        assert (10.0**log_probs).sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": 0}, "order is from 1 to 16"),
        ({"order": 17}, "order is from 1 to 16"),
        ({"prune": (1, 1)}, "the first 0, none below"),
        ({"prune": (0, 2, 1)}, "the first 0, none below"),
        ({"prune": (0, 0, 0, 0)}, "at most 3 numbers"),
        ({"discount_fallback": (0.5, 1)}, "three numbers"),
        ({"discount_fallback": (0.5, 1, 4)}, "from 0 to k"),
    ],
)
def test_settings_are_checked(settings: dict, message: str) -> None:
    with pytest.raises(TextError, match=message):
        estimate(made(), **settings)


def test_sentences_are_checked() -> None:
    with pytest.raises(TextError, match="there are no sentences"):
        estimate([])
    with pytest.raises(TextError, match="sentence 2 has <s>, </s> or <unk> as a word"):
        estimate(["a b", "a <s> b"])
    with pytest.raises(TextError, match="one str where several texts are expected"):
        estimate("a b c")


def test_lists_are_checked(tmp_path: Path) -> None:
    good = estimate(made(), 2)
    one, two = good.orders
    for orders, message in (
        ([], "the words of the unigrams are not"),
        ([one, Order(two.words[:, :1], two.log_prob, two.backoff)], "of order 2 have shapes"),
        (
            [one, Order(two.words + np.int32(500), two.log_prob, two.backoff)],
            "not int32 from 0 to",
        ),
        ([one, Order(two.words, two.log_prob * np.inf, two.backoff)], "order 2 are not finite"),
    ):
        for use in (NGramModel.from_ngrams, lambda g: write_arpa(tmp_path / "x", g)):
            with pytest.raises(TextError, match=message):
                use(NGrams(good.vocabulary, orders))
    with pytest.raises(TextError, match="'a b' is empty or has white space"):
        write_arpa(tmp_path / "x", NGrams(["a b", *good.vocabulary[1:]], good.orders))
