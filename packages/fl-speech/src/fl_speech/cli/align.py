"""``fl-speech align``: when the words of recordings are said."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

from fl_nn.extend import runtime, runtime_options
from fl_speech.cli.inputs import (
    Bad,
    input_options,
    recogniser_of,
    speech_of,
    speech_option,
    utterances_of,
)
from fl_speech.inference.alignment import align, audacity_labels, ctm_lines


def main(arguments: list[str]) -> int:
    """Write the lines."""
    parser = argparse.ArgumentParser(
        prog="fl-speech align",
        description="Times of the words of list files, by forced alignment with a recogniser of "
        "criterion ctc or asg. Lines are those of CTM files, `id channel start duration word` in "
        "seconds; silence is $.",
        allow_abbrev=False,
    )
    input_options(parser, words=True)
    add = parser.add_argument
    add("-o", "--output", type=Path, metavar="FILE", help="default: standard output")
    add("--audacity", type=Path, metavar="FOLDER", help="also write labels as ID.txt")
    speech_option(parser)
    runtime_options(parser)
    given = parser.parse_args(arguments)
    bad = Bad(given.skip_bad)
    with runtime(given), ExitStack() as stack:
        recogniser = recogniser_of(given)
        out = sys.stdout
        if given.output is not None:
            out = stack.enter_context(open(given.output, "w", encoding="utf-8"))
        if given.audacity is not None:
            given.audacity.mkdir(parents=True, exist_ok=True)
        utterances = utterances_of(given, bad, words=True)
        for found in align(
            recogniser,
            utterances,
            batch_size=given.batch_size,
            on_error=bad.handler,
            speech=speech_of(given),
        ):
            out.writelines(f"{line}\n" for line in ctm_lines(found))
            if given.audacity is not None:
                name = found.utterance.id.replace("/", "#")
                (given.audacity / f"{name}.txt").write_text(audacity_labels(found), "utf-8")
    bad.report()
    return 0
