"""Networks and heads of language models, and scores of whole sequences."""

from __future__ import annotations

import math
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from bad_values import Bad, value
from cases import Target
from fl_text.heads import (
    AdaptiveSoftMax,
    FullSoftmax,
    NoiseContrastive,
    Proposal,
    SampledSoftmax,
    log_uniform,
    unigram,
)
from fl_text.models import (
    BERT,
    GCNN,
    GPT2,
    GRUClassifier,
    LSTMLanguageModel,
    MaskedLM,
    StateCache,
    TransformerLanguageModel,
)
from fl_text.rescoring import sequence_log_probs
from targets.making import target

SIZES = [value(0), value(-1), value(1.5), value(None), value("1")]
TOKENS = [value(None), value("text"), value(3), value(ft.asarray([0, 1]), "one axis")]
TOKENS += [
    value(ft.zeros((1, 2)), "floats"),
    value(ft.asarray([[9]]), "unknown"),
    value(ft.zeros((1, 0), ft.int64), "no steps"),
]
HIDDEN = [value(None), value("text"), value(ft.zeros((2, 3)), "another size"), value(len)]
TARGETS_OF = [value(None), value([0]), value(ft.zeros((2,)), "floats"), value(ft.asarray([0, 9]))]
WEIGHTS = [value([]), value([0.0]), value([-1.0]), value([math.nan]), value("text"), value(None)]
CUTOFFS = [value([]), value([9]), value([2, 1]), value("text"), value(3)]
BLOCKS = [value([]), value([[(3, 0)]]), value([(3, 2)]), value(None), value("text"), value(3)]


def tokens(rows: int = 1) -> ft.Tensor:
    return ft.zeros((rows, 2), ft.int64)


def call(build: Any) -> Any:
    """A function that builds a network and calls it with tokens."""

    def made(*arguments: Any, inputs: Any = None, **options: Any) -> Any:
        return build(*arguments, **options).eval()(inputs)

    return made


def loss(kind: Any) -> Any:
    """A function that builds a head and calls its loss."""

    def made(*arguments: Any, hidden: Any = None, targets: Any = None, **options: Any) -> Any:
        return kind(*arguments, **options).loss(hidden, targets)

    return made


def pair() -> dict[str, Any]:
    return {"hidden": lambda: ft.zeros((2, 4)), "targets": lambda: ft.asarray([0, 1])}


def select(rows: Any) -> Any:
    cache = StateCache()
    cache.update([ft.zeros((2, 3))], 1)
    cache.select(rows)
    return cache.arrays


def network() -> GPT2:
    return GPT2(tokens=5, steps=4, size=4, heads=1, layers=1).eval()


TARGETS: list[Target] = [
    target(
        "text.heads.FullSoftmax",
        {"0": 4, "1": 5, **pair()},
        call=loss(FullSoftmax),
        _0=SIZES,
        _1=SIZES,
        hidden=HIDDEN,
        targets=TARGETS_OF,
        weight=[value("text"), Bad("another shape", lambda _: nn.Parameter(ft.zeros((3, 3))))],
    ),
    target(
        "text.heads.AdaptiveSoftMax",
        {"0": 4, "1": 5, "2": [2], **pair()},
        call=loss(AdaptiveSoftMax),
        _0=SIZES,
        _1=SIZES,
        _2=CUTOFFS,
        hidden=HIDDEN,
        targets=TARGETS_OF,
    ),
    *(
        target(
            f"text.heads.{kind.__name__}",
            {"0": 4, "1": 5, "2": 3, **pair()},
            call=loss(kind),
            _0=SIZES,
            _1=SIZES,
            _2=SIZES,
            hidden=HIDDEN,
            targets=TARGETS_OF,
            proposal=[value("text"), Bad("of other tokens", lambda _: log_uniform(4))],
        )
        for kind in (SampledSoftmax, NoiseContrastive)
    ),
    target("text.heads.Proposal", {"0": [1.0, 2.0]}, call=Proposal, _0=WEIGHTS),
    target("text.heads.log_uniform", {"0": 3}, call=log_uniform, _0=SIZES),
    target(
        "text.heads.unigram",
        {"0": [1.0, 2.0], "power": 0.5},
        call=unigram,
        _0=WEIGHTS,
        power=[value(-1.0), value(math.nan), value("1")],
    ),
    target(
        "text.models.LSTMLanguageModel",
        {"0": 5, "1": 4, "inputs": tokens},
        call=call(LSTMLanguageModel),
        _0=SIZES,
        _1=SIZES,
        inputs=TOKENS,
    ),
    target(
        "text.models.GCNN",
        {"0": 5, "1": 4, "2": [[(4, 2)]], "inputs": tokens},
        call=call(GCNN),
        _0=SIZES,
        _1=SIZES,
        _2=BLOCKS,
        cutoffs=CUTOFFS,
        inputs=TOKENS,
    ),
    target(
        "text.models.TransformerLanguageModel",
        {"0": 5, "size": 4, "heads": 2, "layers": 1, "hidden": 4, "inputs": tokens},
        call=call(TransformerLanguageModel),
        _0=SIZES,
        size=SIZES[:3],
        heads=SIZES[:3],
        cutoffs=CUTOFFS,
        positions=[value("rotary"), value(3)],
        inputs=TOKENS,
    ),
    target(
        "text.models.GRUClassifier",
        {"0": 5, "1": 2, "hidden": 4, "inputs": tokens},
        call=call(GRUClassifier),
        _0=SIZES,
        _1=SIZES,
        inputs=TOKENS,
    ),
    target(
        "text.models.StateCache",
        {"0": lambda: ft.asarray([1, 0])},
        call=select,
        _0=[value(None), value("text"), value(ft.asarray([5])), value(ft.zeros((1,)), "floats")],
    ),
    target(
        "text.rescoring.sequence_log_probs",
        {"0": network, "1": [[1, 2], [3]], "2": 0, "end": 4},
        call=sequence_log_probs,
        _0=[value(None), value("text"), value(len)],
        _1=[value(None), value([[9]]), value([[1.5]]), value([3]), value([[1] * 9])],
        _2=[value(5), value(-1), value(None), value(1.5), value("1")],
        end=[value(5), value(-1), value(1.5), value("1")],
        batch_tokens=[value(0), value(None), value("1"), value(1.5)],
    ),
]
_PUBLISHED = "made from published settings, with tests/interop"
UNTRIED: dict[str, str] = {
    "text.heads.Head": "a protocol",
    "text.models.Cache": "a protocol",
    "text.models.CausalNetwork": "a protocol",
    "text.models.TokenNetwork": "a protocol",
    **{f"text.models.{kind.__name__}": _PUBLISHED for kind in (BERT, GPT2, MaskedLM)},
}
