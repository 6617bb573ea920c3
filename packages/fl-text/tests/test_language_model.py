"""The language model protocol: n-gram models behind it, and answers that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fl_text import TextError
from fl_text.language_model import (
    CheckedLM,
    LanguageModel,
    NGramLM,
    PairScores,
    ZeroLM,
    as_language_model,
)
from fl_text.ngram import NGramModel

ARPA = """\\data\\
ngram 1=5
ngram 2=4

\\1-grams:
-1.0\t<unk>
-99\t<s>\t-0.3
-0.9\t</s>
-0.5\ta\t-0.2
-0.7\tb\t-0.4

\\2-grams:
-0.2\t<s> a
-0.4\ta b
-0.6\tb a
-0.1\tb </s>

\\end\\
"""


@pytest.fixture
def ngram(tmp_path: Path) -> NGramModel:
    path = tmp_path / "lm.arpa"
    path.write_text(ARPA)
    return NGramModel.from_arpa(path)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def test_an_n_gram_model_gives_natural_logarithms_of_its_scores(ngram: NGramModel) -> None:
    lm = NGramLM(ngram, ["b", "a"])
    assert isinstance(lm, LanguageModel) and isinstance(lm, PairScores)
    state, total = ints(lm.start()), 0.0
    for token in (1, 0, 1, 0):
        rows = lm.scores(state)
        assert rows.shape == (1, 2) and rows.dtype == np.float32
        assert lm.pair_scores(state, ints(token)) == rows[:, token]
        total += float(rows[0, token])
        state = lm.extend(state, ints(token))
    total += float(lm.finish(state)[0])
    assert total / np.log(10) == pytest.approx(ngram.score("a b a b"), abs=1e-6)


def test_many_states_at_once_are_as_one_by_one(ngram: NGramModel) -> None:
    lm = NGramLM(ngram, ["a", "b"])
    states = lm.extend(np.repeat(lm.start(), 3), ints(0, 1, 0))
    rows = lm.scores(states)
    assert rows.shape == (3, 2)
    assert (rows[0] == rows[2]).all() and (rows[0] != rows[1]).all()
    assert (rows[1] == lm.scores(states[1:2])[0]).all()


def test_a_model_of_other_words_is_refused(ngram: NGramModel) -> None:
    with pytest.raises(TextError, match="knows none of the 2 names, such as 'x'"):
        NGramLM(ngram, ["x", "y"])
    with pytest.raises(TextError, match="token 2: the vocabulary has 0 to 1"):
        NGramLM(ngram, ["a", "b"]).extend(ints(0), ints(2))


def test_no_model_scores_nothing(ngram: NGramModel) -> None:
    lm = as_language_model(None, "abc")
    states = lm.extend(ints(lm.start()), ints(2))
    assert not lm.scores(states).any() and lm.scores(states).shape == (1, 3)
    assert not lm.finish(states).any()
    assert isinstance(as_language_model(ngram, "ab").model, NGramLM)
    with pytest.raises(TextError, match="vocabulary 0"):
        ZeroLM(0)


class Broken(ZeroLM):
    """Gives `answer` from `method`."""

    def __init__(self, method: str, answer: Any) -> None:
        super().__init__(3)
        setattr(self, method, lambda *_: answer)


WRONG = [
    ("start", None, "gave None: a state is an int"),
    ("start", 0.5, "gave 0.5"),
    ("extend", np.zeros(3, np.int64), r"gave shape \(3,\): expected \(2,\)"),
    ("extend", np.zeros(2), "gave float64: states are int64"),
    ("extend", [[0], [1, 2]], "gave no array"),
    ("scores", np.zeros((2, 4), np.float32), "gave 4 scores a state, and the decoder has 3 tokens"),
    ("scores", np.zeros((1, 3)), r"gave shape \(1, 3\): expected \(2, 3\)"),
    ("scores", np.array([[0, 0, 0], [0, np.nan, 0]]), r"gave nan at \(1, 1\).*weights"),
    ("scores", np.full((2, 3), np.inf), r"gave inf at \(0, 0\)"),
    ("scores", np.full((2, 3), "a"), "gave <U1"),
    ("finish", np.zeros((2, 1)), r"gave shape \(2, 1\)"),
    ("finish", np.array([0.0, np.nan]), r"gave nan at \(1,\)"),
]


@pytest.mark.parametrize(("method", "answer", "message"), WRONG)
def test_wrong_answers_name_the_model_and_the_method(
    method: str, answer: Any, message: str
) -> None:
    lm = CheckedLM(Broken(method, answer), 3)
    arguments = {"start": (), "extend": (ints(0, 0), ints(1, 2))}.get(method, (ints(0, 0),))
    with pytest.raises(TextError, match=rf"\[Broken\.{method}\].*{message}"):
        getattr(lm, method)(*arguments)


def test_minus_infinity_is_a_score() -> None:
    rows = np.array([[0, -np.inf, 0]])
    assert (CheckedLM(Broken("scores", rows), 3).scores(ints(0)) == rows).all()


def test_pair_scores_come_from_rows_or_from_the_model() -> None:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert CheckedLM(Broken("scores", rows), 3).pair_scores(ints(0, 0), ints(2, 1)).tolist() == [
        2,
        4,
    ]
    lm = CheckedLM(Broken("pair_scores", np.array([5, 6])), 3)
    assert lm.pair_scores(ints(0, 0), ints(2, 1)).tolist() == [5, 6]


def test_what_is_no_language_model_is_refused() -> None:
    with pytest.raises(TextError, match="no language model: it has no method start, extend"):
        as_language_model("lm.arpa", ["a"])  # type: ignore[arg-type]
    with pytest.raises(TextError, match="ZeroLM.*it is a class: give an object of it"):
        as_language_model(ZeroLM, ["a"])  # type: ignore[arg-type]
    with pytest.raises(TextError, match="vocabulary 0"):
        as_language_model(ZeroLM(1), [])
