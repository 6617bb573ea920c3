"""``fl-speech vad``: where recordings have speech."""

from __future__ import annotations

import argparse
from pathlib import Path

from fl_nn.extend import runtime, runtime_options
from fl_speech.cli.decoder_options import language_model
from fl_speech.cli.inputs import Bad, input_options, recogniser_of, utterances_of
from fl_speech.errors import RecipeError
from fl_speech.inference.emissions import emissions_of
from fl_speech.inference.vad import speech_by_blank


def main(arguments: list[str]) -> int:
    """Write four files for each recording."""
    parser = argparse.ArgumentParser(
        prog="fl-speech vad",
        description="Voice activity by a recogniser of criterion ctc. Of each recording: ID.vad, "
        "the probability of the blank in each frame; ID.sts, the id, the share of frames with "
        "speech, and the perplexity of the transcript; ID.tsc, the transcript; ID.fwt, the token "
        "of each frame.",
        allow_abbrev=False,
    )
    input_options(parser)
    add = parser.add_argument
    add("-o", "--output", type=Path, required=True, metavar="FOLDER", help="for the files")
    add("--threshold", type=float, default=0.99, metavar="P", help="of blanks (%(default)s)")
    add("--lm", type=Path, metavar="FILE", help="n-gram model of words, for the perplexity")
    runtime_options(parser)
    given = parser.parse_args(arguments)
    if not 0 < given.threshold <= 1:
        raise RecipeError(f"--threshold {given.threshold}: give a probability above 0")
    bad, lm = Bad(given.skip_bad), language_model(given.lm)
    with runtime(given):
        recogniser = recogniser_of(given)
        given.output.mkdir(parents=True, exist_ok=True)
        utterances = utterances_of(given, bad)
        size = given.batch_size
        for each in emissions_of(recogniser, utterances, batch_size=size, on_error=bad.handler):
            found = speech_by_blank(recogniser, each, given.threshold)
            path = each.scores.argmax(1)
            text = " ".join(recogniser.reader.prediction(path.tolist()).words)
            perplexity = lm.perplexity([text]).value if lm is not None and text else float("nan")
            name = each.utterance.id.replace("/", "#")
            for suffix, content in (
                ("vad", "".join(f"{p:.6f}\n" for p in found.blank)),
                ("sts", f"{each.utterance.id} {found.share:.6f} {perplexity:.4f}\n"),
                ("tsc", f"{text}\n"),
                ("fwt", "".join(f"{token}\n" for token in found.tokens)),
            ):
                (given.output / f"{name}.{suffix}").write_text(content, "utf-8")
            print(f"{each.utterance.id}\t{found.share:.4f}\t{text}")
    bad.report()
    return 0
