"""``fl-speech tune``: the weight of a language model and the score of words that a list prefers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import product

from fl_nn.extend import runtime, runtime_options
from fl_speech.cli.decoder_options import decoder_of, decoder_options, language_model
from fl_speech.cli.inputs import Bad, input_options, recogniser_of, utterances_of
from fl_speech.errors import RecipeError
from fl_speech.inference import Decoder, Emissions, emissions_of
from fl_speech.reports import ErrorReport


def main(arguments: list[str]) -> int:
    """Print the word error rate of each pair, and the options of the best one."""
    parser = argparse.ArgumentParser(
        prog="fl-speech tune",
        description="Word error rates of list files by beam search, for each weight of the "
        "language model with each score of words. The encoder runs once. Of equal rates the first "
        "is the best. Tune on a list that neither trains nor tests.",
        allow_abbrev=False,
    )
    input_options(parser, words=True)
    add = parser.add_argument
    add("--lm-weights", type=numbers, default="0.5,1,2,4", metavar="X,Y", help="(%(default)s)")
    add("--word-scores", type=numbers, default="0", metavar="X,Y", help="(%(default)s)")
    decoder_options(parser)
    runtime_options(parser)
    given = parser.parse_args(arguments)
    with runtime(given):
        recogniser = recogniser_of(given)
        lm = language_model(given.lm)
        if lm is None:
            raise RecipeError("there is no language model to weigh: give --lm FILE")
        bad = Bad(given.skip_bad)
        utterances = utterances_of(given, bad, words=True)
        size = given.batch_size
        found = list(emissions_of(recogniser, utterances, batch_size=size, on_error=bad.handler))
        rates: dict[tuple[float, float], float] = {}
        for weight, score in product(given.lm_weights, given.word_scores):
            given.lm_weight, given.word_score = weight, score
            rate = error_rate(decoder_of(given, recogniser, lm), found)
            rates[weight, score] = rate
            print(f"{rate:7.3f} %  --lm-weight {weight:g} --word-score {score:g}", flush=True)
    bad.report()
    weight, score = min(rates, key=rates.__getitem__)
    print(f"best: --lm-weight {weight:g} --word-score {score:g}")
    return 0


def error_rate(decoder: Decoder, found: Sequence[Emissions]) -> float:
    """Word error rate of the best hypotheses, in percent."""
    report = ErrorReport()
    for each, hypotheses in zip(found, decoder([e.scores for e in found]), strict=True):
        words = decoder.words(hypotheses[0]) if hypotheses else []
        report.add(each.utterance.id, each.utterance.words or (), words)
    return report.wer


def numbers(text: str) -> list[float]:
    """Numbers with commas between them."""
    return [float(each) for each in text.split(",")]
