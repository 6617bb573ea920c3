"""The recordings that a command is given: a list file, or files of audio."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fl_memory.subcommands import at_least
from fl_speech.audio import audio_info
from fl_speech.datasets import ListFile, Utterance
from fl_speech.errors import AudioError
from fl_speech.inference.speech_detector import SpeechDetector
from fl_speech.inference.voice_activity import speech_in_file
from fl_speech.inference.word_times import Speech
from fl_speech.recogniser import Recogniser, load_recogniser


def input_options(parser: argparse.ArgumentParser, words: bool = False) -> None:
    """The recogniser and the recordings. `words`: transcripts are needed, so lists alone."""
    add = parser.add_argument
    add("recogniser", type=Path, metavar="RUN", help="folder of fl-speech train --out")
    what = "list files" if words else "list files (.lst), and files of audio"
    add("inputs", type=Path, nargs="+", metavar="FILE", help=what)
    add("--data-dir", type=Path, metavar="FOLDER", help="where relative paths of lists begin")
    add("--weights", type=Path, metavar="FILE", help="others than weights.safetensors of RUN")
    add("--run-code", action="store_true", help="run an encoder that is a Python file")
    add("--batch-size", type=at_least(1), default=16, metavar="N", help="(%(default)s)")
    add("--skip-bad", action="store_true", help="leave out what cannot be used, and count it")


def recogniser_of(given: argparse.Namespace) -> Recogniser:
    """The recogniser that options name."""
    return load_recogniser(given.recogniser, given.weights, run_code=given.run_code)


def speech_option(parser: argparse.ArgumentParser) -> None:
    """How starts and ends of words are corrected."""
    parser.add_argument(
        "--speech",
        metavar="HOW",
        help="words begin and end with speech: `level`, or a folder of fl-speech detector",
    )


def speech_of(given: argparse.Namespace) -> Speech | None:
    """What `--speech` names."""
    if given.speech is None:
        return None
    if given.speech == "level":
        return speech_in_file
    return SpeechDetector.load(given.speech).speech_in_file


class Bad:
    """Recordings that were left out; `handler` is None where that was not asked for."""

    def __init__(self, wanted: bool) -> None:
        self.errors: list[Exception] = []
        self.handler: Callable[[Exception], object] | None = self.errors.append if wanted else None

    def report(self) -> None:
        """Name them on standard error."""
        for error in self.errors[:20]:
            print(f"left out: {error}", file=sys.stderr)
        if self.errors:
            print(f"left out {len(self.errors)} recordings or lines", file=sys.stderr)


def utterances_of(given: argparse.Namespace, bad: Bad, words: bool = False) -> list[Any]:
    """The recordings that options name. `words`: with transcripts."""
    found: list[Any] = []
    for path in given.inputs:
        if words or path.suffix == ".lst":
            read = ListFile(
                path,
                root=given.data_dir,
                transcripts="required" if words else "optional",
                on_error="skip" if bad.handler else "raise",
            )
            bad.errors += read.skipped
            found += read
            continue
        try:
            found.append(Utterance(path.stem, str(path), 1000 * audio_info(path).seconds))
        except AudioError as error:
            if bad.handler is None:
                raise
            bad.handler(error)
    return found
