"""Language models, and decoders of networks."""

from __future__ import annotations

from typing import Any

import numpy as np

import fl_text as text
from bad_values import Bad, value
from cases import Target
from fl_text.decoder import (
    LexiconFreeSeq2SeqDecoder,
    LexiconSeq2SeqDecoder,
    TransducerDecoder,
    Trie,
    per_hypothesis,
)
from fl_text.language_model import CheckedLM, NGramLM, ZeroLM, as_language_model
from fl_text.models import GPT2
from fl_text.token_model import TokenModel
from targets import ngrams
from targets.making import Ready, target


def tokens() -> text.Dictionary:
    return text.Dictionary(["a", "b", "</s>"])


def words() -> text.Dictionary:
    return text.Dictionary(["ab"])


def trie(size: int = 3) -> Trie:
    return Trie([[0, 1]], [0], tokens=size)


def update(previous: Any, states: Any) -> Any:
    return np.zeros((len(previous), 3)), states


def joint(frame: Any, outputs: Any) -> Any:
    return np.zeros((len(outputs), 3))


def predict(previous: Any, states: Any) -> Any:
    return np.zeros((len(previous), 2)), None


def gpt2(train: bool = False) -> GPT2:
    network = GPT2(tokens=5, steps=4, size=4, heads=1, layers=1)
    return network if train else network.eval()


def answer(*found: Any) -> Bad:
    return value(lambda *_: found if len(found) != 1 else found[0], f"a function to {found!r:.40}")


UPDATES = [
    *[value(None), value("text"), value(3.5), answer(None), answer(1, 2, 3), answer(None, None)],
    *[answer(np.zeros((1, 4)), None), answer(np.full((1, 3), np.nan), None)],
    *[answer(np.zeros((1, 3)), np.zeros(2)), answer(np.zeros((1, 3)), ["a"])],
    answer([[None] * 3], None),
]
LANGUAGE_MODELS = [value("lm.arpa"), value(3), value(ZeroLM(4), "another vocabulary"), value(len)]
LIMITS = [value(0), value(-1), value(1.5), value(None), value("1"), value(True)]
ENDS = [value("<eos>"), value(3), value(-1), value(None), value(1.5)]
FRAMES = [value([[0.0]]), value(None), value("text"), value(np.zeros((0, 2)), "no frames")]


def decode_freely(*arguments: Any, states: Any = None, **options: Any) -> Any:
    decoder = LexiconFreeSeq2SeqDecoder(*arguments, **{"max_output_length": 2} | options)
    return decoder.decode(states)


def decode_words(*arguments: Any, **options: Any) -> Any:
    return LexiconSeq2SeqDecoder(*arguments, **{"max_output_length": 2} | options).decode()


def decode_frames(*arguments: Any, encoded: Any = None, **options: Any) -> Any:
    return TransducerDecoder(*arguments, **{"blank": 0} | options).decode(encoded)


TARGETS: list[Target] = [
    target("text.language_model.ZeroLM", {"0": 3}, call=ZeroLM, _0=LIMITS),
    target(
        "text.language_model.CheckedLM",
        {"0": lambda: ZeroLM(3), "1": 3},
        call=CheckedLM,
        _0=[value(None), value("text"), value(ZeroLM, "a class")],
        _1=LIMITS,
    ),
    target(
        "text.language_model.NGramLM",
        {"0": ngrams.model, "1": ["a"]},
        call=NGramLM,
        _0=[value(None), value("text"), value(ZeroLM(1), "no n-gram model")],
        _1=[value([]), value(["?"]), value([1]), value(3), value(None)],
    ),
    target(
        "text.language_model.as_language_model",
        {"0": ngrams.model, "1": ["a"]},
        call=as_language_model,
        _0=[value("text"), value(3), value(ZeroLM, "a class")],
        _1=[value([]), value(["?"]), value([1]), value(3), value(None)],
    ),
    target(
        "text.token_model.TokenModel",
        {"0": gpt2, "1": 0, "end": 1},
        call=TokenModel,
        _0=[value(None), value("text"), Bad("in training", lambda _: gpt2(train=True))],
        _1=[value(5), value(-1), value(None), value(1.5), value("1")],
        end=[value(5), value(-1), value(1.5), value("1")],
    ),
    target(
        "text.decoder.LexiconFreeSeq2SeqDecoder",
        {"0": tokens, "1": Ready(update), "2": None},
        call=decode_freely,
        _0=[value(None), value(["a"]), Bad("no tokens", lambda _: text.Dictionary())],
        _1=UPDATES,
        _2=LANGUAGE_MODELS,
        eos=ENDS,
        max_output_length=LIMITS,
        states=[value(np.zeros((0, 2)), "no rows"), value("text"), value([3.5])],
    ),
    target(
        "text.decoder.LexiconSeq2SeqDecoder",
        {"0": trie, "1": tokens, "2": Ready(update), "words": words},
        call=decode_words,
        _0=[value(None), value([[0, 1]]), Bad("other tokens", lambda _: trie(4))],
        _2=UPDATES,
        words=[value(None), value(["ab"]), Bad("no words", lambda _: text.Dictionary())],
    ),
    target(
        "text.decoder.per_hypothesis",
        {"0": Ready(len), "1": lambda: np.zeros((2, 3))},
        call=per_hypothesis,
        _1=[value(np.zeros((0, 3)), "no frames"), value(None), value(3.5), value("text")],
    ),
    target(
        "text.decoder.TransducerDecoder",
        {
            "0": tokens,
            "1": Ready(predict),
            "2": Ready(joint),
            "encoded": lambda: np.zeros((2, 2)),
        },
        call=decode_frames,
        _0=[value(None), value(["a"]), Bad("one token", lambda _: text.Dictionary(["a"]))],
        _1=UPDATES[:6],
        _2=[*UPDATES[:4], answer(np.zeros((1, 4))), answer(np.full((1, 3), np.nan))],
        blank=ENDS,
        max_symbols=LIMITS,
        encoded=FRAMES,
    ),
]
UNTRIED: dict[str, str] = {
    "text.language_model.LanguageModel": "a protocol",
    "text.language_model.PairScores": "a protocol",
    "text.token_model.CausalModel": "a protocol",
}
