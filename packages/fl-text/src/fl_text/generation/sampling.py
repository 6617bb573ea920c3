"""Greedy and sampled generation, as a whole or token by token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import fl_tensor as ft
from fl_data import mix
from fl_tensor.arguments import seed_of
from fl_text.errors import TextError
from fl_text.generation import processors as logits
from fl_text.generation.growing import GrowingState
from fl_text.generation.network import CausalNetwork, CompiledNetwork, DecodingState
from fl_text.generation.pieces import TextPieces
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
    stops_of,
)
from fl_text.generation.results import Finish, Generation, Piece


def generate(
    network: CausalNetwork | CompiledNetwork,
    prompts: Prompts,
    tokenizer: TextTokenizer | None = None,
    *,
    max_new_tokens: int = 128,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    processors: Sequence[LogitsProcessor] = (),
    eos: int | Sequence[int] | None = None,
    stop: str | Sequence[str] = (),
    seed: int = 0,
    first_row: int = 0,
    sliding: bool = False,
    with_scores: bool = False,
) -> list[Generation]:
    """A continuation of each prompt.

    prompts      texts, lists of tokens, or int64 (rows, tokens); of any lengths
    temperature  0 takes the likeliest token (greedy); above 0 draws one, from scores / temperature
    top_k, top_p, min_p, repetition_penalty   0, 1, 0 and 1 change nothing; see `TopK`, `TopP`,
                 `MinP` and `RepetitionPenalty`
    processors   called with the scores before these
    eos          tokens that end a row; `tokenizer.eos_id` unless given
    stop         strings that end a row, and are no part of its text
    seed         the draw of a token depends on the seed, the row and the step alone
    first_row    number of the first row in the draws: calls for parts of a list give what one call
                 for all of it gives
    sliding      where a row reaches the network's `steps`, go on with the later half of its tokens;
                 otherwise prompts that are too long for `max_new_tokens` are an error

    with_scores  `score` of a result is the sum of the log probabilities of its tokens, as the
                 network has them before processors

    Scores beyond the tokens of the tokenizer are left out. Raises `TextError` for prompts and
    settings that do not fit, and for scores that are NaN or forbid every token.
    """
    pieces = stream(
        network, prompts, tokenizer, max_new_tokens=max_new_tokens, temperature=temperature,
        top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty,
        processors=processors, eos=eos, stop=stop, seed=seed, first_row=first_row, sliding=sliding,
        with_scores=with_scores,
    )  # fmt: skip
    by_row: dict[int, list[Piece]] = {}
    for piece in pieces:
        by_row.setdefault(piece.row, []).append(piece)
    results = []
    for _, row in sorted(by_row.items()):
        tokens, text = [piece.token for piece in row], "".join(piece.text for piece in row)
        known = [piece.score for piece in row if piece.score is not None]
        score = math.fsum(known) if with_scores else None
        results.append(Generation(tokens, text, row[-1].finish or "length", score))
    return results


def stream(
    network: CausalNetwork | CompiledNetwork,
    prompts: Prompts,
    tokenizer: TextTokenizer | None = None,
    *,
    max_new_tokens: int = 128,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    processors: Sequence[LogitsProcessor] = (),
    eos: int | Sequence[int] | None = None,
    stop: str | Sequence[str] = (),
    seed: int = 0,
    first_row: int = 0,
    sliding: bool = False,
    with_scores: bool = False,
) -> Iterator[Piece]:
    """The tokens of `generate` as they are made: one of each row, row by row, then the next ones.
    Arguments are those of `generate`, and are checked when it is called."""
    run, rows = compiled(network), rows_of(prompts, tokenizer)
    check_tokens(rows, run.vocabulary)
    count_of("max_new_tokens", max_new_tokens)
    for name, value in (("sliding", sliding), ("with_scores", with_scores)):
        if not isinstance(value, bool):
            raise TextError(f"[generate] {name}={value!r}: expected True or False")
    count_of("first_row", first_row, 0)
    if not sliding:
        check_lengths(rows, max_new_tokens, run.steps, ", or set sliding=True")
    chain = [*processors]
    if not all(map(callable, chain)):
        raise TextError("[generate] processors: expected callables of scores and tokens")
    chain += logits.built_in(temperature, top_k, top_p, min_p, repetition_penalty)
    choose = Chooser(temperature > 0.0, seed_of("generate", seed), first_row, chain)
    ends, stops = ends_of(eos, tokenizer), stops_of(stop, tokenizer)
    window = Window(run, rows, max_new_tokens)
    return _pieces(window, choose, rows, tokenizer, ends, stops, max_new_tokens, with_scores)


def _pieces(
    window: Window,
    choose: Chooser,
    prompts: list[list[int]],
    tokenizer: TextTokenizer | None,
    ends: frozenset[int],
    stops: list[str],
    most: int,
    with_scores: bool,
) -> Iterator[Piece]:
    rows = [list(prompt) for prompt in prompts]
    texts = [None if tokenizer is None else TextPieces(tokenizer, row, stops) for row in rows]
    running = set(range(len(rows)))
    size = None if tokenizer is None else len(tokenizer)
    for step in range(most):
        scores = window.scores(rows)
        if step == 0:
            check_tokens(rows, scores.shape[1])
        scores = scores[:, :size]
        tokens = choose(scores, rows, step, running)
        log_probs = _log_probs(scores, tokens) if with_scores else [None] * len(rows)
        for row, token in enumerate(tokens):
            rows[row].append(token)
            if row not in running:
                continue
            text, parts = "", texts[row]
            finish: Finish | None = "eos" if token in ends else None
            if parts is not None:
                text = "" if finish else parts.add(token)
                finish = "stop" if parts.stopped else finish
            if finish is None and step == most - 1:
                finish = "length"
            if finish is not None:
                running.discard(row)
                text += "" if parts is None else parts.end()
            yield Piece(row, token, text, finish, log_probs[row])
        if not running:
            return


class Window:
    """The part of each row that the network sees: all of it, or where it would be longer than the
    network's `steps`, its later half."""

    def __init__(self, run: CompiledNetwork, prompts: list[list[int]], more: int) -> None:
        self._run, self._steps = run, run.steps
        self._first = [self._cut(0, len(prompt)) for prompt in prompts]
        whole = max(map(len, prompts)) + more
        self._capacity = whole if self._steps is None else min(whole, self._steps)
        self._state: DecodingState | GrowingState | None = None

    def scores(self, rows: list[list[int]]) -> ft.Array:
        """Scores of the next token of each row."""
        first = [self._cut(at, len(row)) for at, row in zip(self._first, rows, strict=True)]
        if self._state is None or first != self._first:
            self._first = first
            seen = [row[at:] for at, row in zip(first, rows, strict=True)]
            self._state = self._run.start(seen, self._capacity)
        return self._state.step([row[-1] for row in rows])

    def _cut(self, first: int, length: int) -> int:
        if self._steps is None or length - first <= self._steps:
            return first
        return length - max(self._steps // 2, 1)


class Chooser:
    """Chooses the next token of each row."""

    def __init__(
        self, draws: bool, seed: int, first_row: int, chain: list[LogitsProcessor]
    ) -> None:
        self._draws, self._seed, self._first, self._chain = draws, seed, first_row, chain

    def __call__(
        self, scores: ft.Array, rows: list[list[int]], step: int, running: set[int]
    ) -> list[int]:
        scores = logits.apply(self._chain, scores, rows)
        best = ft.max(scores, -1)
        chosen = self._drawn(scores, step) if self._draws else ft.argmax(scores, -1)
        highest, tokens = best.tolist(), chosen.tolist()
        for row in running:
            if not math.isfinite(highest[row]):
                what = "forbid every token" if highest[row] == -math.inf else f"are {highest[row]}"
                raise TextError(
                    f"[generate] the scores of row {row} {what} at new token {step}: look at the "
                    "processors, and at the weights"
                )
        return [int(token) for token in tokens]

    def _drawn(self, scores: ft.Array, step: int) -> ft.Array:
        """The first token at which the sum of probabilities exceeds a uniform number."""
        wide = scores.astype(ft.float64) if ft.float64 in scores.backend.dtypes else scores
        sums = ft.cumulative_sum(ft.softmax(wide, -1), -1)
        rows = range(self._first, self._first + scores.shape[0])
        drawn = [[_uniform(self._seed, row, step)] for row in rows]
        uniform = ft.asarray(drawn, sums.dtype, scores.device, scores.backend)
        return ft.argmax(sums > uniform * sums[:, -1:], -1)


def _log_probs(scores: ft.Array, tokens: list[int]) -> list[float]:
    """The log probability of the chosen token of each row."""
    chosen = ft.asarray([[token] for token in tokens], ft.int64, scores.device, scores.backend)
    picked = ft.take_along_axis(ft.log_softmax(scores, -1), chosen, -1)
    found: list[float] = picked[:, 0].tolist()
    return found


def _uniform(seed: int, row: int, step: int) -> float:
    """A number in [0, 1 - 2^-20], of the seed, the row and the step alone."""
    word = mix(seed, row, step) >> 10  # mix gives 63 bits
    return word / 2.0**53 * (1.0 - 2.0**-20)
