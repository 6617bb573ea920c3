"""Generation: prompts, settings, caches."""

from __future__ import annotations

import math
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from bad_values import value
from cases import Target
from fl_text import generation
from fl_text.models import GPT2
from targets.making import target


def network() -> GPT2:
    return GPT2(tokens=6, steps=12, size=4, heads=2, layers=1).eval()


def attended(*arguments: Any) -> ft.Array:
    found: ft.Array = nn.MultiHeadAttention(4, 2)(
        ft.ones((1, 1, 4)), cache=nn.CacheStep(*arguments)
    )
    return found


PROMPTS = [
    *[value(None), value("text"), value(5), value([]), value([[]]), value([[6]]), value([[-1]])],
    *[value([[1.5]]), value(["a"]), value([[1] * 30]), value([None]), value([[True]])],
]
NETWORKS = [value(None), value(3), value("gpt2"), value([])]
FILTERS = {
    "Temperature": 0.5,
    "TopK": 2,
    "TopP": 0.5,
    "MinP": 0.5,
    "RepetitionPenalty": 1.2,
}
NUMBERS = [value(None), value("1"), value(-1), value(math.nan), value([1.0])]
COUNTS = [value(0), value(-1), value(1.5), value("1"), value(None)]
TARGETS: list[Target] = [
    *(
        target(
            f"generation.{name}",
            {
                **{"0": network, "1": [[1, 2]], "max_new_tokens": 2, "seed": 0, "eos": 5},
                **{"top_p": 0.9, "first_row": 3, "with_scores": True},
            },
            call=call,
            _0=NETWORKS,
            _1=PROMPTS,
            max_new_tokens=[*COUNTS, value(10**12)],
            seed=[value(-1), value("1"), value(None), value(1.5)],
            eos=[value(-1), value("a"), value(1.5)],
            top_p=NUMBERS,
            first_row=[value(-1), value("1"), value(None), value(1.5), value(True)],
            with_scores=[value(None), value("yes"), value(1)],
        )
        for name, call in (
            ("generate", generation.generate),
            ("stream", lambda *a, **k: list(generation.stream(*a, **k))),
        )
    ),
    target(
        "generation.beam_search",
        {"0": network, "1": [[1, 2]], "max_new_tokens": 2, "beams": 2, "length_penalty": 1.0},
        _0=NETWORKS,
        _1=PROMPTS,
        max_new_tokens=[*COUNTS, value(10**12)],
        beams=COUNTS,
        length_penalty=[value("1"), value(math.nan), value(math.inf), value(None)],
    ),
    target(
        "generation.CompiledNetwork",
        {"0": network, "1": True},
        _0=NETWORKS,
        _1=[value(None), value("yes"), value(3)],
    ),
    target("nn.FixedKVCache", {"0": 4}, _0=COUNTS),
    target(
        "nn.CacheStep",
        {
            "0": ft.asarray([1]),
            "1": ft.ones((1, 2, 3, 2)),
            "2": ft.ones((1, 2, 3, 2)),
            "3": ft.ones((1, 3), ft.bool),
            "4": ft.ones((1, 1), ft.bool),
        },
        call=attended,
        _0=[value(None), value(1), value("1"), value([1])],
        _1=[value(3), value("keys"), value([[1.0]])],
        _2=[value(3), value("values"), value([[1.0]])],
        _3=[value(3), value("mask"), value([[True]])],
        _4=[value(3), value("mask"), value([[True]])],
    ),
    *(target(f"generation.{name}", {"0": good}, _0=NUMBERS) for name, good in FILTERS.items()),
]
UNTRIED: dict[str, str] = {
    "generation.CausalNetwork": "a protocol",
    "generation.Generation": "a result",
    "generation.Piece": "a result",
}
