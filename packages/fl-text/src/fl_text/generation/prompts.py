"""Prompts and settings of generation, checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import fl_tensor as ft
from fl_text.errors import TextError
from fl_text.generation.network import CausalNetwork, CompiledNetwork

#: Texts, lists of tokens, or one int64 tensor (rows, tokens).
Prompts: TypeAlias = Sequence[str] | Sequence[Sequence[int]] | ft.Array


class TextTokenizer(Protocol):
    """`fl_text.Tokenizer` is one, and so is every `fl_text.TextEncoder`."""

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def __len__(self) -> int: ...


def compiled(network: CausalNetwork | CompiledNetwork) -> CompiledNetwork:
    """The network as it is run."""
    return network if isinstance(network, CompiledNetwork) else CompiledNetwork(network)


def count_of(name: str, value: Any, least: int = 1) -> int:
    """An integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise TextError(f"[generate] {name}={value!r}: expected an integer of at least {least}")
    return value


def rows_of(prompts: Prompts, tokenizer: TextTokenizer | None) -> list[list[int]]:
    """The tokens of each prompt."""
    if isinstance(prompts, str | bytes):
        raise TextError("[generate] prompts is one text: give a list, as [text]")
    given: Any = prompts.tolist() if isinstance(prompts, ft.Array) else prompts
    if not isinstance(given, Iterable):
        raise TextError(f"[generate] prompts is a {type(prompts).__name__}: give a list")
    rows = [_row(number, one, tokenizer) for number, one in enumerate(given)]
    if not rows:
        raise TextError("[generate] there are no prompts: give at least one")
    return rows


def _row(number: int, prompt: Any, tokenizer: TextTokenizer | None) -> list[int]:
    if isinstance(prompt, str):
        if tokenizer is None:
            raise TextError(
                f"[generate] prompt {number} is a text, and there is no tokenizer: give one, or "
                "prompts as lists of tokens"
            )
        row = list(tokenizer.encode(prompt))
    elif isinstance(prompt, Iterable) and not isinstance(prompt, bytes):
        row = list(prompt.tolist() if isinstance(prompt, ft.Array) else prompt)
    else:
        raise TextError(
            f"[generate] prompt {number} is a {type(prompt).__name__}: expected a text, or a list "
            "of tokens"
        )
    for place, token in enumerate(row):
        if isinstance(token, bool) or not isinstance(token, int):
            raise TextError(
                f"[generate] token {place} of prompt {number} is {token!r}: expected an integer"
            )
    if not row:
        raise TextError(
            f"[generate] prompt {number} has no tokens: a network needs one to begin with, such as "
            "the token that separates texts, [tokenizer.bos_id] or [tokenizer.eos_id]"
        )
    return row


def check_tokens(rows: list[list[int]], vocabulary: int | None) -> None:
    """Raises `TextError` for tokens that a network does not have."""
    if vocabulary is None:
        return
    for number, row in enumerate(rows):
        for place, token in enumerate(row):
            if not 0 <= token < vocabulary:
                raise TextError(
                    f"[generate] token {place} of prompt {number} is {token}: the network has 0 to "
                    f"{vocabulary - 1}; is the tokenizer the network's?"
                )


def check_lengths(rows: list[list[int]], more: int, steps: int | None, remedy: str = "") -> None:
    """Raises `TextError` for prompts with which the network would exceed its context."""
    longest = max(range(len(rows)), key=lambda number: len(rows[number]))
    if steps is not None and len(rows[longest]) + more > steps + 1:
        raise TextError(
            f"[generate] prompt {longest} has {len(rows[longest])} tokens, and max_new_tokens is "
            f"{more}: the network takes {steps} tokens. Shorten the prompt, lower max_new_tokens"
            + remedy
        )


def ends_of(eos: int | Sequence[int] | None, tokenizer: TextTokenizer | None) -> frozenset[int]:
    """The tokens that end a text: the tokenizer's `eos_id` unless given."""
    if eos is None:
        found = getattr(tokenizer, "eos_id", None)
        return frozenset(() if found is None else (found,))
    given = [eos] if isinstance(eos, int) else eos
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TextError(f"[generate] eos={eos!r}: expected a token, or a list of tokens")
    return frozenset(count_of("eos", token, 0) for token in given)


def stops_of(stop: str | Sequence[str], tokenizer: TextTokenizer | None) -> list[str]:
    """The strings that end a text."""
    stops = [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, Iterable) or any(not isinstance(one, str) or not one for one in stops):
        raise TextError(f"[generate] stop={stop!r}: expected strings that are not empty")
    if stops and tokenizer is None:
        raise TextError("[generate] stop strings need a tokenizer: give one, or use eos")
    return list(stops)
