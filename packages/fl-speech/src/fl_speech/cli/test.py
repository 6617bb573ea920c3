"""``fl-speech test``: error rates on lists, and a report of the errors."""

from __future__ import annotations

import argparse
from pathlib import Path

from fl_nn.extend import runtime, runtime_options
from fl_speech.cli.decoder_options import decoder_of, decoder_options
from fl_speech.cli.inputs import Bad, input_options, recogniser_of, utterances_of
from fl_speech.inference.recognition import Clock, Heard, transcribe
from fl_speech.reports import ErrorReport


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
        bad, clock = Bad(given.skip_bad), Clock()
        report = ErrorReport(f"{given.recogniser}: {', '.join(map(str, given.inputs))}")
        for heard in transcribe(
            recogniser,
            utterances_of(given, bad, words=True),
            decoder,
            batch_size=given.batch_size,
            on_error=bad.handler,
            clock=clock,
        ):
            report.add(heard.utterance.id, heard.utterance.words, heard.words)
            if given.show:
                print(shown(heard))
    bad.report()
    print(clock)
    if given.report is not None:
        given.report.mkdir(parents=True, exist_ok=True)
        for name in ("report.txt", "report.html"):
            report.save(given.report / name)
            print(f"wrote {given.report / name}")
    print(report.summary())
    return 0


def shown(heard: Heard) -> str:
    """Reference, transcript and error rates of a recording."""
    one = heard.utterance
    own = ErrorReport()
    own.add(one.id, one.words, heard.words)
    return (
        f"|T|: {one.text}\n|P|: {' '.join(heard.words)}\n"
        f"[sample: {one.id}, WER: {own.wer:.2f}%, LER: {own.ler:.2f}%]"
    )
