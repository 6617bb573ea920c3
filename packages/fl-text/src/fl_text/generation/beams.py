"""Beam search over a causal network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import fl_tensor as ft
from fl_text.errors import TextError
from fl_text.generation import processors as logits
from fl_text.generation.network import CausalNetwork, CompiledNetwork
from fl_text.generation.processors import LogitsProcessor
from fl_text.generation.prompts import (
    Prompts,
    TextTokenizer,
    check_lengths,
    check_tokens,
    compiled,
    count_of,
    ends_of,
    rows_of,
)
from fl_text.generation.results import Generation

#: Of beams that are copies of another one: they are never among the best.
_NEVER = -1e9


def beam_search(
    network: CausalNetwork | CompiledNetwork,
    prompts: Prompts,
    tokenizer: TextTokenizer | None = None,
    *,
    beams: int = 4,
    best: int = 1,
    max_new_tokens: int = 128,
    length_penalty: float = 1.0,
    early_stopping: bool | Literal["never"] = False,
    repetition_penalty: float = 1.0,
    processors: Sequence[LogitsProcessor] = (),
    eos: int | Sequence[int] | None = None,
) -> list[list[Generation]]:
    """The `best` continuations of each prompt that a search with so many `beams` finds, best first.

    length_penalty  scores are sums of log probabilities over count ** length_penalty, where count
                    is the number of new tokens: above 0 longer texts are preferred
    early_stopping  True: a prompt is done with `beams` ended texts. False: also when the best beam,
                    ended now, would be worse than all of them. "never": when no longer text of it
                    can be better
    processors      called with log probabilities; sums are of what they return

    Other arguments, and errors, are those of `generate`. Definitions are those of transformers.
    """
    run, rows = compiled(network), rows_of(prompts, tokenizer)
    check_tokens(rows, run.vocabulary)
    count_of("max_new_tokens", max_new_tokens)
    if count_of("best", best) > count_of("beams", beams):
        raise TextError(f"[beam_search] best={best} of beams={beams}: at most as many as beams")
    if not (early_stopping is True or early_stopping is False or early_stopping == "never"):
        raise TextError(
            f'[beam_search] early_stopping={early_stopping!r}: expected True, False or "never"'
        )
    if isinstance(length_penalty, bool) or not isinstance(length_penalty, int | float):
        raise TextError(f"[beam_search] length_penalty={length_penalty!r}: expected a number")
    if not math.isfinite(length_penalty):
        raise TextError(f"[beam_search] length_penalty={length_penalty}: expected a finite number")
    check_lengths(rows, max_new_tokens, run.steps)
    chain = [*processors, *logits.built_in(1.0, 0, 1.0, 0.0, repetition_penalty)]
    ends = ends_of(eos, tokenizer)
    searches = [_Search(row, beams, max_new_tokens, length_penalty, early_stopping) for row in rows]
    _run(run, searches, chain, ends, None if tokenizer is None else len(tokenizer))
    return [search.best(best, ends, tokenizer) for search in searches]


def _run(
    run: CompiledNetwork,
    searches: list[_Search],
    chain: list[LogitsProcessor],
    ends: frozenset[int],
    size: int | None,
) -> None:
    beams = searches[0].beams
    most = searches[0].most
    prompts = [search.prompt for search in searches]
    state = run.start(prompts, max(map(len, prompts)) + most)
    state.select([n for n in range(len(prompts)) for _ in range(beams)])
    for step in range(most):
        rows = [beam.tokens for search in searches for beam in search.running]
        scores = state.step([row[-1] for row in rows])[:, :size]
        if step == 0:
            check_tokens(prompts, scores.shape[1])
        vocabulary = scores.shape[1]
        scores = logits.apply(chain, ft.log_softmax(scores, -1), rows)
        sums = [[beam.score] for search in searches for beam in search.running]
        totals = scores + ft.asarray(sums, scores.dtype, scores.device, scores.backend)
        # As many as end at most, and the beams that go on.
        count = min(max(2, 1 + len(ends)) * beams, beams * vocabulary)
        values, places = ft.topk(totals.reshape(len(searches), -1), count, -1)
        found = zip(searches, values.tolist(), places.tolist(), strict=True)
        parents: list[int] = []
        for number, (search, best, at) in enumerate(found):
            if best[0] != best[0]:
                raise TextError(
                    f"[beam_search] the scores of prompt {number} are NaN at new token {step}: "
                    "look at the processors, and at the weights"
                )
            pairs = [divmod(place, vocabulary) for place in at]
            chosen = search.advance(list(zip(best, pairs, strict=True)), ends)
            parents += [number * beams + parent for parent in chosen]
        if all(search.done for search in searches):
            return
        state.select(parents)


@dataclass
class _Beam:
    tokens: list[int]
    score: float


@dataclass
class _Search:
    """The search of one prompt."""

    prompt: list[int]
    beams: int
    most: int
    length_penalty: float
    early_stopping: bool | str
    running: list[_Beam] = field(default_factory=list)
    ended: list[_Beam] = field(default_factory=list)
    done: bool = False

    def __post_init__(self) -> None:
        copies = [_NEVER] * (self.beams - 1)
        self.running = [_Beam(list(self.prompt), score) for score in (0.0, *copies)]

    def advance(
        self, candidates: list[tuple[float, tuple[int, int]]], ends: frozenset[int]
    ) -> list[int]:
        """Take the best continuations, as (sum, (beam, token)); gives the beam that each of the
        next ones continues."""
        if self.done:
            return list(range(self.beams))
        length = len(self.running[0].tokens) + 1 - len(self.prompt)
        is_last = length == self.most
        running: list[_Beam] = []
        parents: list[int] = []
        for rank, (score, (parent, token)) in enumerate(candidates):
            tokens = [*self.running[parent].tokens, token]
            if token in ends or is_last:
                # The others are there to go on where these end.
                if rank < self.beams and score > _NEVER / 2:
                    self.ended.append(_Beam(tokens, score / length**self.length_penalty))
            elif len(running) < self.beams:
                running.append(_Beam(tokens, score))
                parents.append(parent)
        self.ended.sort(key=lambda beam: -beam.score)
        del self.ended[self.beams :]
        while len(running) < self.beams:  # a vocabulary of few tokens
            source = running[0] if running else self.running[0]
            running.append(_Beam(list(source.tokens), _NEVER))
            parents.append(parents[0] if parents else 0)
        self.running = running
        self.done = is_last or self._cannot_improve(length)
        return parents

    def _cannot_improve(self, length: int) -> bool:
        if len(self.ended) < self.beams:
            return False
        if self.early_stopping is True:
            return True
        never = self.early_stopping == "never" and self.length_penalty > 0.0
        longest = self.most if never else length
        possible = self.running[0].score / longest**self.length_penalty
        return possible <= self.ended[-1].score

    def best(
        self, count: int, ends: frozenset[int], tokenizer: TextTokenizer | None
    ) -> list[Generation]:
        found = []
        for beam in self.ended[:count]:
            tokens = beam.tokens[len(self.prompt) :]
            has_end = tokens[-1] in ends
            shown = tokens[:-1] if has_end else tokens
            text = "" if tokenizer is None else tokenizer.decode(shown)
            finish: Literal["eos", "length"] = "eos" if has_end else "length"
            found.append(Generation(tokens, text, finish, beam.score))
        return found
