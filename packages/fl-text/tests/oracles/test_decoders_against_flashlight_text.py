"""n-best lists are those of flashlight-text: words, tokens, scores (`FL_ORACLE_COUNT` cases)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from decoder_cases import Case, differences, random_case

decoder = pytest.importorskip("flashlight.lib.text.decoder")
pytest.importorskip("fl_jit")

from flashlight.lib.text.decoder.kenlm import KenLM  # noqa: E402
from flashlight.lib.text.dictionary import Dictionary  # noqa: E402

COUNT = int(os.environ.get("FL_ORACLE_COUNT", "40"))
SEED = int(os.environ.get("FL_ORACLE_SEED", "0"))


def theirs(case: Case) -> Any:
    """flashlight-text's decoder of the case."""
    o = case.options
    names = case.tokens if case.is_free or case.token_lm else case.words
    dictionary = Dictionary()
    for name in names:
        dictionary.add_entry(name)
    lm = decoder.ZeroLM() if case.arpa is None else KenLM(str(case.arpa), dictionary)
    asg = o.criterion == "asg"
    settings = {
        "beam_size": o.beam_size,
        "beam_size_token": o.beam_size_token,
        "beam_threshold": o.beam_threshold,
        "lm_weight": o.lm_weight,
        "sil_score": o.sil_score,
        "log_add": o.log_add,
        "criterion_type": decoder.CriterionType.ASG if asg else decoder.CriterionType.CTC,
    }
    n = len(case.tokens)
    blank = -1 if asg else n - 1
    transitions = [] if case.transitions is None else case.transitions.ravel().tolist()
    if case.is_free:
        options = decoder.LexiconFreeDecoderOptions(**settings)
        return decoder.LexiconFreeDecoder(options, lm, 0, blank, transitions)
    options = decoder.LexiconDecoderOptions(
        **settings, word_score=o.word_score, unk_score=o.unk_score
    )
    trie = decoder.Trie(n, 0)
    for spelling, word, score in case.lexicon:
        trie.insert(spelling, word, score)
    trie.smear(getattr(decoder.SmearingMode, case.smearing.upper()))
    unknown = len(case.words) - 1
    return decoder.LexiconDecoder(options, trie, lm, 0, blank, unknown, transitions, case.token_lm)


def test_n_best_lists_agree(tmp_path: Path) -> None:
    """Of the last 1,000 cases, each with another vocabulary, all agreed."""
    wrong = []
    for seed in range(SEED, SEED + COUNT):
        case = random_case(seed, tmp_path, small=False)
        found = case.decoder(compat=True).decode(case.emissions)
        frames, tokens = case.emissions.shape
        results = theirs(case).decode(case.emissions.ctypes.data, frames, tokens)
        wanted = [
            (r.score, tuple(w for w in r.words if w >= 0), tuple(r.tokens[1:-1])) for r in results
        ]
        if differs := differences(found, wanted):
            wrong.append(f"case {seed} ({case.options}): {differs}")
    assert not wrong, "\n".join(wrong)
