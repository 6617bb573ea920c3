"""n-best lists of sequence-to-sequence models are those of flashlight-text (`FL_ORACLE_COUNT`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from seq2seq_cases import Seq2SeqCase, differences, random_case

from fl_text.decoder import per_hypothesis

peer = pytest.importorskip("flashlight.lib.text.decoder")

from flashlight.lib.text.decoder.kenlm import KenLM  # noqa: E402
from flashlight.lib.text.dictionary import Dictionary  # noqa: E402

COUNT = int(os.environ.get("FL_ORACLE_COUNT", "40"))
SEED = int(os.environ.get("FL_ORACLE_SEED", "0"))


def theirs(case: Seq2SeqCase) -> Any:
    """flashlight-text's decoder of the case."""
    o = case.options
    names = case.tokens if case.trie is None or case.token_lm else case.words
    dictionary = Dictionary()
    for name in names:
        dictionary.add_entry(name)
    lm = peer.ZeroLM() if case.arpa is None else KenLM(str(case.arpa), dictionary)

    def update(_: Any, n: int, t: int, tokens: Any, rows: Any, states: Any, step: int) -> Any:
        if step == 0:
            before = np.array([-1])
        else:
            before = np.array([peer.get_obj_from_emitting_model_state(s) for s in states])
        new = case.after(before, np.array(tokens))
        return case.table[new].tolist(), [
            peer.create_emitting_model_state(int(state)) for state in new
        ]

    settings = {
        "beam_size": o.beam_size,
        "beam_size_token": o.beam_size_token,
        "beam_threshold": o.beam_threshold,
        "lm_weight": o.lm_weight,
        "eos_score": o.eos_score,
        "log_add": o.log_add,
    }
    if case.trie is None:
        options = peer.LexiconFreeSeq2SeqDecoderOptions(**settings)
        return peer.LexiconFreeSeq2SeqDecoder(options, lm, case.eos, update, case.max_output_length)
    trie = peer.Trie(len(case.tokens), 0)
    for spelling, word, score in case.lexicon:
        trie.insert(spelling, word, score)
    trie.smear(getattr(peer.SmearingMode, case.smearing.upper()))
    options = peer.LexiconSeq2SeqDecoderOptions(**settings, word_score=o.word_score)
    return peer.LexiconSeq2SeqDecoder(
        options, trie, lm, case.eos, update, case.max_output_length, case.token_lm
    )


def outputs(case: Seq2SeqCase, result: Any) -> tuple[int, ...]:
    """The tokens of a result with one end token; -1 is what stands before the first."""
    tokens = [token for token in result.tokens if token >= 0]
    return tuple(tokens[: tokens.index(case.eos) + 1] if case.eos in tokens else tokens)


def test_n_best_lists_agree(tmp_path: Path) -> None:
    """Of the last 300 cases, each with another model and vocabulary, all agreed."""
    wrong = []
    for seed in range(SEED, SEED + COUNT):
        case = random_case(seed, tmp_path, small=False)
        decoder = theirs(case)
        decoder.decode_step(0, 1, len(case.tokens))
        wanted = [
            (r.score, tuple(w for w in r.words if w >= 0), outputs(case, r))
            for r in decoder.get_all_final_hypothesis()
            if outputs(case, r)
        ]
        if differs := differences(case.decoder().decode(), wanted):
            wrong.append(f"case {seed} ({case.options}): {differs}")
    assert not wrong, "\n".join(wrong)


def test_a_function_of_the_original_is_called_alike(tmp_path: Path) -> None:
    case = random_case(2, tmp_path)

    def function(_: Any, n: int, t: int, tokens: Any, rows: Any, states: Any, step: int) -> Any:
        before = np.array([-1 if state is None else state for state in states])
        new = case.after(before, np.array(tokens))
        return case.table[new].tolist(), new.tolist()

    adapted = case.decoder(per_hypothesis(function, np.zeros((1, len(case.tokens)))))
    wanted = [(h.score, h.words, h.tokens) for h in case.decoder().decode()]
    assert not differences(adapted.decode(), wanted)
