"""The search against one without cuts, and what follows from its definition."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from decoder_cases import Case, differences, random_case
from decoder_reference import Reference

from fl_text.dictionary import Dictionary
from fl_text.ngram import NGramModel

# Without a compiler kernels run in the interpreter, which says so.
pytestmark = pytest.mark.filterwarnings("ignore:kernels run in the interpreter")

CASES = int(os.environ.get("FL_DECODER_CASES", "60"))
LETTERS = Dictionary(["|", "a", "b", "#"])


def reference(case: Case, **more: object) -> Reference:
    model = {}
    if case.arpa is not None:
        lm = NGramModel.from_arpa(case.arpa)
        names = case.tokens if case.is_free or case.token_lm else case.words
        model = {"model": lambda history, word: _score(lm, names, history, word)}
    return Reference(
        case.options,
        silence=0,
        blank=len(case.tokens) - 1,
        lexicon=None if case.is_free else case.lexicon,
        smearing=case.smearing,
        unknown=len(case.words) - 1,
        transitions=case.transitions,
        token_lm=case.token_lm,
        **model,
        **more,
    )


def _score(lm: NGramModel, names: list[str], history: tuple[int, ...], word: int | None) -> float:
    said = lm.indices([names[k] for k in history])
    state = np.array([lm.start], np.int32)
    for k in range(len(said)):
        _, state = lm.score_words(state, said[k : k + 1])
    last = lm.indices(["</s>" if word is None else names[word]])
    return float(lm.score_words(state, last)[0][0])


@pytest.mark.parametrize("seed", range(CASES))
def test_the_n_best_list_is_that_of_a_search_without_cuts(seed: int, tmp_path: Path) -> None:
    case = random_case(seed, tmp_path, small=True)
    found = case.decoder().decode(case.emissions)
    wanted = reference(case).decode(case.emissions)
    assert differences(found, [(f.score, f.words, f.tokens) for f in wanted]) == ""
    if found:
        assert found[0].emitting_score == pytest.approx(wanted[0].emitting, abs=1e-4)
        assert found[0].lm_score == pytest.approx(wanted[0].lm, abs=1e-4)
