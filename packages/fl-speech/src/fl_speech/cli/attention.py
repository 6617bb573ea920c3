"""``fl-speech attention``: where in recordings a sequence-to-sequence recogniser attends."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import fl_nn as nn
import fl_tensor as ft
from fl_memory.subcommands import at_least
from fl_nn.extend import runtime, runtime_options
from fl_speech.cli.inputs import Bad, input_options, recogniser_of, utterances_of
from fl_speech.datasets import Utterance
from fl_speech.errors import RecipeError
from fl_speech.inference.emissions import features_of, padded_batch
from fl_speech.pictures import draw_attention
from fl_speech.recogniser import Recogniser


def main(arguments: list[str]) -> int:
    """Write a picture of each recording."""
    parser = argparse.ArgumentParser(
        prog="fl-speech attention",
        description="Pictures ID.png of the attention of a recogniser of criterion seq2seq or "
        "transformer to the frames of recordings, while it reads their true words: a row for each "
        "token, and for each head of attention a picture.",
        allow_abbrev=False,
    )
    input_options(parser, words=True)
    add = parser.add_argument
    add("-o", "--output", type=Path, default=Path("."), metavar="FOLDER", help="(%(default)s)")
    add("--most", type=at_least(1), default=10, metavar="N", help="pictures (%(default)s)")
    runtime_options(parser)
    given = parser.parse_args(arguments)
    with runtime(given):
        recogniser = recogniser_of(given)
        bad = Bad(given.skip_bad)
        given.output.mkdir(parents=True, exist_ok=True)
        for one in utterances_of(given, bad, words=True)[: given.most]:
            weights, tokens = attention_of(recogniser, one)
            path = given.output / f"{one.id.replace('/', '#')}.png"
            draw_attention(weights, tokens, path, one.id)
            print(f"wrote {path}")
    bad.report()
    return 0


def attention_of(recogniser: Recogniser, one: Utterance) -> tuple[np.ndarray, list[str]]:
    """Weights (heads, tokens, frames) of the last attention, float32, while the decoder sees the
    words of a recording; and the tokens. Raises `RecipeError` for criteria without attention."""
    criterion = recogniser.criterion
    if criterion.decoding != "seq2seq":
        kind = recogniser.recipe.criterion
        raise RecipeError(
            f"criterion {kind} has no attention: use a recogniser of criterion seq2seq or "
            "transformer; `fl-speech align` gives the times of words for ctc and asg"
        )
    numbers = recogniser.targets(one.words or ())
    features = features_of(recogniser, one)
    with nn.evaluating(recogniser), ft.reproducible():
        encoded, lengths = recogniser(*padded_batch(recogniser, [features]))
        found = np.asarray(criterion.attention_weights(encoded, [numbers], lengths), np.float32)
    heads = criterion.attentions[-1].heads
    frames = found.shape[-1] if lengths is None else int(np.asarray(lengths)[0])
    weights = found.reshape(heads, -1, found.shape[-1])[:, :, :frames]
    tokens = [recogniser.dictionary.get_entry(number) for number in numbers]
    tokens += [recogniser.dictionary.get_entry(criterion.eos)] * (weights.shape[1] - len(tokens))
    return weights, tokens
