"""``fl-speech test``: error rates on lists, and a report of the errors."""

from __future__ import annotations

import argparse
from pathlib import Path

from fl_speech.cli.decoder_options import decoder_of, decoder_options
from fl_speech.cli.inputs import Bad, input_options, recogniser_of, utterances_of
from fl_speech.cli.options import runtime, runtime_options
from fl_speech.inference.recognition import Clock, transcribe
from fl_speech.inference.score import Score


def main(arguments: list[str]) -> int:
    """Print the error rates; with --report also write the errors."""
    parser = argparse.ArgumentParser(
        prog="fl-speech test",
        description="Word and letter error rates of a recogniser on list files: by the best path, "
        "which knows no words, or with --beam by beam search.",
        allow_abbrev=False,
    )
    input_options(parser, words=True)
    add = parser.add_argument
    add("--beam", action="store_true", help="beam search, with the lexicon of the recogniser")
    add("--report", type=Path, metavar="FOLDER", help="write report.txt and report.html")
    add("--show", action="store_true", help="print reference and transcript of each recording")
    decoder_options(parser)
    runtime_options(parser)
    given = parser.parse_args(arguments)
    if (given.lexicon or given.lm or given.no_lexicon) and not given.beam:
        given.beam = True
    with runtime(given):
        recogniser = recogniser_of(given)
        decoder = decoder_of(given, recogniser) if given.beam else None
        bad, clock, score = Bad(given.skip_bad), Clock(), Score()
        for heard in transcribe(
            recogniser,
            utterances_of(given, bad, words=True),
            decoder,
            batch_size=given.batch_size,
            on_error=bad.handler,
            clock=clock,
        ):
            line = score.add(heard.utterance, heard.words)
            if given.show:
                print(f"|T|: {heard.utterance.text}\n|P|: {' '.join(heard.words)}\n[{line}]")
    bad.report()
    print(clock)
    if given.report is not None:
        for path in score.write(given.report):
            print(f"wrote {path}")
    print(f"{', '.join(map(str, given.inputs))}: {score}")
    return 0
