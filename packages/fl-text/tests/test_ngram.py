"""n-gram models: scores of ARPA files follow the definition of backing off."""

from __future__ import annotations

import random
from pathlib import Path

import ngram_reference as reference
import numpy as np
import pytest

from fl_text import TextError, TextFileError
from fl_text.ngram import NGramModel, read_arpa


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "model.arpa"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def random_grams(seed: int, highest: int, sparse: bool) -> dict:
    """n-grams with random scores; `sparse`: contexts and suffixes may be missing."""
    draw = random.Random(seed)
    words = ["<unk>", "<s>", "</s>", *(f"w{'x' * draw.randrange(20)}{k}" for k in range(8))]
    grams = {(word,): None for word in words}
    for n in range(2, highest + 1):
        before = [g for g in grams if len(g) == n - 1]
        for _ in range(40):
            context = (
                tuple(draw.choice(words) for _ in range(n - 1)) if sparse else draw.choice(before)
            )
            grams[(*context, draw.choice(words))] = None
    number = lambda low: round(-draw.random() * low, draw.choice([1, 4, 7, 10]))  # noqa: E731
    return {g: (number(5), number(1) if draw.random() < 0.7 else 0.0) for g in grams}


@pytest.mark.parametrize("sparse", [False, True], ids=["whole", "contexts missing"])
@pytest.mark.parametrize("highest", [1, 2, 3, 5])
def test_scores_follow_the_definition(tmp_path: Path, highest: int, sparse: bool) -> None:
    for seed in range(5):
        grams = random_grams(seed, highest, sparse)
        model = NGramModel.from_arpa(written(tmp_path, reference.arpa(grams)))
        draw = random.Random(seed)
        for _ in range(40):
            words = [draw.choice(sorted(grams))[-1] for _ in range(draw.randrange(10))]
            words[1:1] = ["never seen"[: draw.randrange(1, 6)]]
            for bos in (True, False):
                expected = reference.score(grams, words, bos)
                assert model.score(" ".join(words), bos=bos, eos=False) == pytest.approx(
                    expected, abs=1e-5
                )


def test_a_sentence_ends_with_its_end_token(tmp_path: Path) -> None:
    model = NGramModel.from_arpa(written(tmp_path, reference.arpa(reference.TOY)))
    assert model.score("the cat sat") == pytest.approx(-0.375 - 0.1875 - 0.15625 - 0.3125, abs=1e-6)
    assert model.score("") == pytest.approx(-0.25 - 1.25, abs=1e-6)


def test_pairs_are_scored_in_batches(tmp_path: Path) -> None:
    model = NGramModel.from_arpa(written(tmp_path, reference.arpa(reference.TOY)))
    words = model.indices(["the", "the", "new"])
    states = np.array([model.start, 0, model.start])
    log_probs, after = model.score_words(states, words)
    np.testing.assert_allclose(log_probs, [-0.375, -0.75, -0.25 - 2.5], atol=1e-6)
    assert after[0] != after[1] and after[2] == 0  # nothing follows <unk>
    with pytest.raises(TextError, match="words are integers from 0 to 6"):
        model.score_words(states, words + 7)
    with pytest.raises(TextError, match="one length"):
        model.score_words(states, words[:2])


GOOD = reference.arpa(reference.TOY)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\data\\", "\\date\\", r"has no line \\data\\"),
        ("ngram 2=4", "ngram 2=999999999999", r"has 4 n-grams, and the head announced 999999"),
        ("ngram 2=4\n", "", r"line 3: 'ngram 3=2' stands where 'ngram 2=COUNT'"),
        ("ngram 3=2\n", "ngram 3=2\nngram 4=1\n", r"line 26: '\\\\end\\\\' stands where"),
        ("\\2-grams", "\\3-grams", r"line 15: .*stands where '\\\\2-grams:' is expected"),
        ("\\end\\", "", r"ends inside its section \\3-grams:"),
        ("-0.625", "0.625", r"line 17: '0.625' is no log probability.*-99"),
        ("-0.625", "nan", r"line 17: 'nan' is no log probability"),
        ("-0.625", "-inf", r"line 17: '-inf' is no log probability"),
        ("-0.625", "-0.6x5", r"line 17: '-0.6x5' is no log probability"),
        ("\t-0.1875\n", "\tinf\n", r"line 17: 'inf' is no backoff"),
        ("the cat sat", "the cat sat\t-1", r"line 23: '-1' is no backoff of the highest order"),
        ("the cat sat", "the cat", r"line 23: has 3 fields"),
        ("cat sat\t0", "cat sit\t0", r"line 18: the word 'sit' is not among the unigrams"),
        ("\tcat\t-0.125", "\tthe\t-0.125", r"line 11: the word 'the' is a unigram twice"),
        ("cat sat\t0", "the cat\t0", r"the n-gram 'the cat' is there twice: remove one"),
        ("-99\t<s>", "-99\t<t>", r"'<s>' is not among|has no unigram <s>"),
    ],
)
def test_unsound_files_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(TextError, match=message) as raised:
        NGramModel.from_arpa(path)
    assert str(path) in str(raised.value)


def test_words_are_utf8(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD.encode().replace("été".encode(), b"\xe9t\xe9"))
    with pytest.raises(TextFileError, match=r"line 13: a word is not UTF-8 \(byte 0xe9\)"):
        read_arpa(path)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    data = GOOD.encode()
    for size in range(len(data) - len("\\end\\\n")):
        with pytest.raises(TextFileError, match="model.arpa"):
            read_arpa(written(tmp_path, data[:size]))


def test_forms_of_other_writers_are_read(tmp_path: Path) -> None:
    text = GOOD.replace("\n", "\r\n").replace("-0.625\t", "  -6.25E-1 ").replace("<unk>", "<UNK>")
    model = NGramModel.from_arpa(written(tmp_path, "a comment\r\n\r\n" + text))
    assert model.score("the cat") == NGramModel.from_arpa(written(tmp_path, GOOD)).score("the cat")
    assert model.vocabulary[model.unk] == "<unk>"
    without = {g: v for g, v in reference.TOY.items() if "<unk>" not in g}
    model = NGramModel.from_arpa(written(tmp_path, reference.arpa(without)))
    assert model.score("new", bos=False, eos=False) == -100
