"""Beam search as plainly as it can be said: dictionaries, strings of tokens, no cuts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

ROOT: tuple[int, ...] = ()
#: The score of a word (or token) after others, and of the end: log10.
Model = Callable[[tuple[int, ...], int | None], float]


class Found(NamedTuple):
    score: float
    emitting: float
    lm: float
    words: tuple[int, ...]
    tokens: tuple[int, ...]


def no_model(history: tuple[int, ...], word: int | None) -> float:
    return 0.0


class Reference:
    """Hypotheses are kept by (history of the language model, prefix of a word, token, blank)."""

    def __init__(
        self,
        options,
        model: Model = no_model,
        *,
        silence: int,
        blank: int,
        lexicon: Sequence[tuple[Sequence[int], int, float]] | None = None,
        smearing: str = "max",
        unknown: int = -1,
        transitions: np.ndarray | None = None,
        boost: dict[int, float] | None = None,
        compat: bool = False,
        token_lm: bool = False,
    ) -> None:
        self.o, self.model, self.silence, self.blank = options, model, silence, blank
        self.asg, self.transitions = options.criterion == "asg", transitions
        self.unknown, self.boost, self.compat, self.token_lm = (
            unknown,
            boost or {},
            compat,
            token_lm,
        )
        self.labels: dict[tuple[int, ...], list[tuple[int, float]]] | None = None
        if lexicon is not None:
            self.labels = {}
            for spelling, word, score in lexicon:
                here = self.labels.setdefault(tuple(spelling), [])
                if len(here) < 6:
                    here.append((word, score))
            self.prefixes = {s[:k] for s in self.labels for k in range(len(s) + 1)}
            self.inner = {s[:k] for s in self.labels for k in range(len(s))}
            self.smear = {p: self._smear(p, smearing) for p in self.prefixes}
            self.smear[ROOT] = 0.0

    def _smear(self, prefix: tuple[int, ...], smearing: str) -> float:
        if smearing == "none":
            return 0.0
        assert self.labels is not None
        below = {
            s: np.logaddexp.reduce([score for _, score in found])
            for s, found in self.labels.items()
            if s[: len(prefix)] == prefix
        }
        merge = np.logaddexp.reduce if smearing == "logadd" else np.max
        own = [below.pop(prefix)] if prefix in below else []
        return float(merge(own + list(below.values())))

    def decode(self, emissions: np.ndarray) -> list[Found]:
        beam = {((), ROOT, self.silence, False): (Found(0.0, 0.0, 0.0, (), ()), 0.0)}
        for t, frame in enumerate(emissions.astype(np.float64)):
            best = np.sort(frame)[::-1][: self.o.beam_size_token]
            allowed = [n for n in range(len(frame)) if frame[n] >= best[-1]]
            candidates = []
            for key, (found, _) in beam.items():
                candidates += self._next(key, found, frame, t, allowed)
            kept = self._merge(candidates)
            ranked = sorted(kept.items(), key=lambda item: -item[1][0].score)
            beam = dict(ranked[: self.o.beam_size])
        at_root = any(key[1] == ROOT for key in beam)
        candidates = []
        for (history, prefix, _, _), (found, _) in beam.items():
            if prefix == ROOT or not at_root:
                lm = self.model(history, None)
                ended = found._replace(score=found.score + self.o.lm_weight * lm, lm=found.lm + lm)
                candidates.append(((history, prefix), ended))
        final = [found for found, _ in self._merge(candidates).values()]
        return sorted(final, key=lambda found: -found.score)

    def _merge(self, candidates):
        limit = max((f.score for _, f in candidates), default=0.0) - self.o.beam_threshold
        kept: dict = {}
        for key, found in candidates:
            if found.score < limit or found.score == -math.inf:
                continue
            old, largest = kept.get(key, (None, -math.inf))
            first = old if found.score <= largest else found
            if old is not None and self.o.log_add:
                first = first._replace(score=float(np.logaddexp(old.score, found.score)))
            kept[key] = (first, max(largest, found.score))
        return kept

    def _next(self, key, found, frame, t, allowed):
        history, prefix, last, was_blank = key
        result = []

        def add(token, history, prefix, blank=False, lm=0.0, more=0.0, word=None):
            gain = frame[token]
            score = found.score + gain
            if self.asg and t > 0:
                gain = gain + self.transitions[token, last]
                if not self.compat:
                    score = found.score + gain
            if token == self.silence:
                score += self.o.sil_score
            words = found.words if word is None else (*found.words, word)
            result.append(
                (
                    (history, prefix, token, blank),
                    Found(
                        score + self.o.lm_weight * lm + more,
                        found.emitting + gain,
                        found.lm + lm,
                        words,
                        (*found.tokens, token),
                    ),
                )
            )

        if self.labels is None:
            for token in allowed:
                if not self.asg and token == self.blank:
                    add(token, history, ROOT, blank=True)
                elif token == last and not was_blank:
                    add(token, history, ROOT)
                else:
                    add(token, (*history, token), ROOT, lm=self.model(history, token))
            return result
        if self.asg or not was_blank or prefix == ROOT:
            add(self.silence if prefix == ROOT else last, history, prefix)
        if not self.asg:
            add(self.blank, history, prefix, blank=True)
        for token in allowed:
            longer = (*prefix, token)
            if longer not in self.prefixes:
                continue
            lm, then = 0.0, history
            if self.token_lm:
                lm, then = self.model(history, token), (*history, token)
            smear = self.smear[prefix]
            if (self.asg or was_blank or token != last) and longer in self.inner:
                inside = lm if self.token_lm else self.smear[longer] - smear
                add(token, then, longer, lm=inside)
            labels = self.labels.get(longer, [])
            for word, _ in labels:
                if prefix == ROOT and token == last:
                    continue
                ends = lm if self.token_lm else self.model(history, word) - smear
                after = then if self.token_lm else (*history, word)
                more = self.o.word_score + self.boost.get(word, 0.0)
                add(token, after, ROOT, lm=ends, more=more, word=word)
            if not labels and self.o.unk_score > -math.inf:
                ends = lm if self.token_lm else self.model(history, self.unknown) - smear
                after = then if self.token_lm else (*history, self.unknown)
                add(token, after, ROOT, lm=ends, more=self.o.unk_score, word=self.unknown)
        return result
