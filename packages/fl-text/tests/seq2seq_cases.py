"""Random sequence-to-sequence problems without ties, and a search that is written down directly."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from decoder_cases import differences as differences
from decoder_cases import write_arpa

from fl_text.decoder import DecoderOptions, LexiconFreeSeq2SeqDecoder, LexiconSeq2SeqDecoder, Trie
from fl_text.decoder.seq2seq_search import Seq2SeqDecoder
from fl_text.dictionary import Dictionary
from fl_text.ngram import NGramModel

STATES = 1009


@dataclass
class Seq2SeqCase:
    """One problem. The last token ends a sequence; a state of the model is a row of `table`."""

    seed: int
    options: DecoderOptions
    table: np.ndarray
    tokens: list[str]
    max_output_length: int
    trie: Trie | None = None
    lexicon: list[tuple[list[int], int, float]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    smearing: str = "max"
    token_lm: bool = False
    arpa: Path | None = None

    @property
    def eos(self) -> int:
        return len(self.tokens) - 1

    def after(self, state: Any, token: Any) -> Any:
        """The model's state after a token; -1 is both, at the beginning."""
        return (state * 7919 + token * 104729 + 12345) % STATES

    def update(self, tokens: Any, states: Any) -> tuple[Any, Any]:
        states = np.array([-1]) if states is None else states
        new = self.after(states, tokens)
        return self.table[new], new

    def model(self) -> NGramModel | None:
        return None if self.arpa is None else NGramModel.from_arpa(self.arpa)

    def decoder(self, update: Any = None, lm: Any = None) -> Seq2SeqDecoder:
        tokens, update = Dictionary(self.tokens), update or self.update
        more: Any = {"eos": self.eos, "max_output_length": self.max_output_length}
        lm = lm or self.model()
        if self.trie is None:
            return LexiconFreeSeq2SeqDecoder(tokens, update, lm, self.options, **more)
        more |= {"words": Dictionary(self.words), "token_lm": self.token_lm}
        return LexiconSeq2SeqDecoder(self.trie, tokens, update, lm, self.options, **more)


def random_case(seed: int, folder: Path, *, small: bool = True) -> Seq2SeqCase:
    """A problem of the given number; `small` ones suit the reference."""
    rng = np.random.default_rng(seed)
    free, with_lm, log_add = bool(rng.integers(2)), bool(rng.integers(3)), bool(rng.integers(2))
    n = int(rng.choice([4, 6] if small else [5, 30, 100, 500]))
    options = DecoderOptions(
        beam_size=int(rng.choice([1, 2, 5, 12] if small else [1, 2, 5, 20, 100, 500])),
        beam_size_token=int(rng.choice([1, 3, 5, 20, 250000])),
        beam_threshold=float(rng.choice([1.0, 5.0, 10.0, 25.0, 1000.0])),
        lm_weight=float(rng.choice([0.5, 1.5, 3.0])) if with_lm else 0.0,
        word_score=float(rng.normal()),
        eos_score=float(rng.normal()),
        log_add=log_add,
    )
    logits = rng.normal(size=(STATES, n)) * rng.choice([1.0, 3.0])
    table = (logits - np.log(np.exp(logits).sum(1, keepdims=True))).astype(np.float32)
    length = int(rng.integers(1, 7 if small else 30))
    case = Seq2SeqCase(seed, options, table, [f"t{k}" for k in range(n)], length)
    if not free:
        _add_words(case, rng, with_lm, 6 if small else 200)
    if with_lm:
        case.arpa = folder / f"{seed}.arpa"
        write_arpa(case.arpa, case.tokens if free or case.token_lm else case.words, rng)
    return case


def _add_words(case: Seq2SeqCase, rng: np.random.Generator, with_lm: bool, count: int) -> None:
    """Spellings. Where one path has several readings of one score, they have a separator."""
    case.token_lm = bool(rng.integers(3) == 0)
    unique = case.token_lm or not with_lm
    letters = case.eos - 1
    spellings = [
        (1 + rng.integers(letters, size=int(rng.integers(1, 4)))).tolist() + [0] * unique
        for _ in range(count)
    ]
    if unique:
        spellings = [list(s) for s in sorted({tuple(s) for s in spellings})]
    case.words = [f"w{k}" for k in range(len(spellings))]
    # With a model of words, some have several spellings: hypotheses merge.
    labels = list(range(len(spellings)))
    if not unique:
        labels = [int(rng.choice([k, k // 3])) for k in labels]
    kept: dict[tuple[int, ...], list[int]] = {}
    for k, spelling in zip(labels, map(tuple, spellings), strict=True):
        words = kept.setdefault(spelling, [])
        if k not in words and len(words) < 6:  # a trie leaves out more, with a warning
            words.append(k)
    scores = (-4 * rng.random(len(spellings))).astype(np.float32).tolist()
    case.lexicon = [(list(s), k, scores[k]) for s, words in kept.items() for k in words]
    case.smearing = str(rng.choice(["none", "max", "logadd"]))
    spelled, labels, values = zip(*case.lexicon, strict=True)
    case.trie = Trie(spelled, labels, values, tokens=len(case.tokens), smearing=case.smearing)


def reference(case: Seq2SeqCase) -> list[tuple[float, tuple[int, ...], tuple[int, ...]]]:
    """(score, words, tokens) of the n-best list, by dictionaries and loops."""
    o, lm = case.options, case.model()

    def score(history: tuple[int, ...], unit: int | None) -> float:
        """log10 p(unit | history) of the language model; None is the end."""
        if lm is None:
            return 0.0
        names = case.tokens if case.trie is None or case.token_lm else case.words
        state, log_prob = np.array([lm.start]), np.zeros(1)
        last = [lm.eos] if unit is None else lm.indices([names[unit]])
        for word in [*lm.indices([names[k] for k in history]), *last]:
            log_prob, state = lm.score_words(state, np.array([word]))
        return float(log_prob[0])

    def smear(spelling: tuple[int, ...]) -> float:
        assert case.trie is not None
        return float(case.trie.tables.smear[case.trie.find(spelling)]) if spelling else 0.0

    def follow(total: float, key: Any, path: Any, state: int) -> list[Any]:
        """Candidates (score, key, path, state of the model); a key is (history, prefix, token)."""
        history, prefix, last = key
        if last == case.eos:
            return [(total, key, path, state)]
        state = case.after(state, last)
        row = case.table[state].astype(float)
        found = []
        for token in sorted(range(len(row)), key=lambda k: -row[k])[: o.beam_size_token]:
            base = total + row[token]
            if token == case.eos:
                if not prefix:
                    end = base + o.eos_score + o.lm_weight * score(history, None)
                    found.append((end, (history, (), token), [*path, (token, -1)], state))
            elif case.trie is None:
                lm_part = o.lm_weight * score(history, token)
                key = ((*history, token), (), token)
                found.append((base + lm_part, key, [*path, (token, -1)], state))
            else:
                longer = (*prefix, token)
                if case.trie.find(longer) < 0:
                    continue
                words = [w for spelling, w, _ in case.lexicon if tuple(spelling) == longer]
                if case.token_lm:
                    lm_part = o.lm_weight * score(history, token)
                    after = [((*history, token), lm_part)] * len(words[:1])
                    within = (*history, token)
                else:
                    before = smear(prefix)
                    lm_part = o.lm_weight * (smear(longer) - before)
                    within = history
                    after = [
                        ((*history, w), o.lm_weight * (score(history, w) - before)) for w in words
                    ]
                found.append((base + lm_part, (within, longer, token), [*path, (token, -1)], state))
                for word, (said, part) in zip(words, after, strict=False):
                    total_after = base + part + o.word_score
                    found.append((total_after, (said, (), token), [*path, (token, word)], state))
        return found

    beam: list[Any] = [(0.0, ((), (), -1), [], -1)]
    for _ in range(case.max_output_length):
        if all(key[2] == case.eos for _, key, _, _ in beam):
            break
        found = [candidate for hypothesis in beam for candidate in follow(*hypothesis)]
        best = max((c[0] for c in found), default=0.0)
        merged: dict[Any, Any] = {}
        for c in sorted(found, key=lambda c: -c[0]):
            if c[0] < best - o.beam_threshold:
                continue
            if c[1] not in merged:
                merged[c[1]] = c
            elif o.log_add:
                first = merged[c[1]]
                merged[c[1]] = (first[0] + math.log1p(math.exp(c[0] - first[0])), *first[1:])
        after = sorted(merged.values(), key=lambda c: -c[0])[: o.beam_size]
        if not after:
            break
        beam = after
    return [
        (c[0], tuple(w for _, w in c[2] if w >= 0), tuple(t for t, _ in c[2])) for c in beam if c[2]
    ]
