"""``fl-speech decode``: transcripts by beam search, n-best lists, times of words."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from fl_memory.subcommands import at_least
from fl_nn.extend import runtime, runtime_options
from fl_speech.cli.decoder_options import decoder_of, decoder_options, language_model
from fl_speech.cli.inputs import (
    Bad,
    input_options,
    recogniser_of,
    speech_of,
    speech_option,
    utterances_of,
)
from fl_speech.inference.long import Word, transcribe_long
from fl_speech.inference.recognition import Clock, Heard, transcribe
from fl_speech.inference.rescoring import Scored
from fl_speech.reports import ErrorReport


def main(arguments: list[str]) -> int:
    """Print a line for each recording, or one for each of its hypotheses."""
    parser = argparse.ArgumentParser(
        prog="fl-speech decode",
        description="Transcripts of recordings by beam search. Lines are `id, words`; with "
        "--n-best `id, rank, score, words`; with --json all that is known. Tabs separate fields. "
        "Scores of language models are base-10 logarithms.",
        allow_abbrev=False,
    )
    input_options(parser)
    add = parser.add_argument
    add("--n-best", type=at_least(1), default=1, metavar="N", help="hypotheses (%(default)s)")
    add("--json", action="store_true", help="a line of JSON each, with times in seconds")
    add("--beam-dump", type=Path, metavar="FILE", help="`id | score | am | lm | wer | words`")
    add("--emission-dir", type=Path, metavar="FOLDER", help="write emissions as ID.npy")
    add(
        "--longest",
        type=at_least(1),
        default=30,
        metavar="SECONDS",
        help="longer recordings are "
        "cut where it is quiet, and decoded piece by piece (%(default)s)",
    )
    speech_option(parser)
    add("--rescore", type=Path, metavar="FILE", help="n-gram model for the order of n-best lists")
    add("--rescore-weight", type=float, default=0.0, metavar="X", help="its weight (%(default)s)")
    decoder_options(parser)
    runtime_options(parser)
    given = parser.parse_args(arguments)
    with runtime(given), ExitStack() as stack:
        recogniser = recogniser_of(given)
        decoder = decoder_of(given, recogniser)
        dump = None
        if given.beam_dump is not None:
            dump = stack.enter_context(open(given.beam_dump, "w", encoding="utf-8"))
        bad, clock, report = Bad(given.skip_bad), Clock(), ErrorReport()
        every = utterances_of(given, bad)
        short = [one for one in every if one.duration_ms <= 1000 * given.longest]
        for one in every:
            if one.duration_ms > 1000 * given.longest:
                words = transcribe_long(recogniser, one.path, decoder, given.longest)
                for line in _long(one.id, words, given.json):
                    print(line, flush=True)
        for heard in transcribe(
            recogniser,
            short,
            decoder,
            n_best=given.n_best,
            lm=language_model(given.rescore),
            lm_weight=given.rescore_weight,
            batch_size=given.batch_size,
            on_error=bad.handler,
            clock=clock,
            emission_dir=given.emission_dir,
            speech=speech_of(given),
        ):
            for line in _lines(heard, given.n_best, given.json):
                print(line)
            if heard.utterance.words is not None:
                report.add(heard.utterance.id, heard.utterance.words, heard.words)
            if dump is not None:
                dump.writelines(f"{line}\n" for line in dumped(heard))
    bad.report()
    if report.lines:
        print(f"# {report.summary()}")
    print(f"# {clock}")
    return 0


def _long(name: str, words: Iterable[Word], as_json: bool) -> Iterator[str]:
    """A line for each word of a long recording, as it is decoded."""
    for each in words:
        if as_json:
            yield json.dumps({"id": name, **each._asdict()})
        else:
            yield f"{name}\t{each.start:.2f}\t{each.end:.2f}\t{each.word}"


def _lines(heard: Heard, n_best: int, as_json: bool) -> list[str]:
    name, text = heard.utterance.id, " ".join(heard.words)
    if as_json:
        return [json.dumps(_described(heard))]
    if n_best == 1:
        return [f"{name}\t{text}"]
    return [
        f"{name}\t{rank}\t{each.best:.4f}\t{' '.join(each.words)}"
        for rank, each in enumerate(heard.n_best, 1)
    ]


def _described(heard: Heard) -> dict[str, Any]:
    return {
        "id": heard.utterance.id,
        "text": " ".join(heard.words),
        "words": [
            {"word": word, "start": round(start, 4), "end": round(end, 4), "confidence": sure}
            for word, start, end, sure in heard.times
        ],
        "n_best": [_scores(each) for each in heard.n_best],
    }


def _scores(each: Scored) -> dict[str, Any]:
    found = {
        "text": " ".join(each.words),
        "score": each.score,
        "emitting_score": each.emitting_score,
        "lm_score": each.lm_score,
    }
    return found if np.isnan(each.rescored) else {**found, "rescored": each.rescored}


def dumped(heard: Heard) -> list[str]:
    """Lines of a beam dump: all hypotheses, with the word error rate where the words are known."""
    found = []
    for each in heard.n_best:
        rate = "-"
        if heard.utterance.words is not None:
            single = ErrorReport()
            single.add(heard.utterance.id, heard.utterance.words, each.words)
            rate = f"{single.wer:.2f}"
        found.append(
            f"{heard.utterance.id} | {each.best:.6f} | {each.emitting_score:.6f} | "
            f"{each.lm_score:.6f} | {rate} | {' '.join(each.words)}"
        )
    return found
