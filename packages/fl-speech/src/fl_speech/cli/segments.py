"""``fl-speech segments``: when recordings of any length have speech, by their level."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from fl_nn.extend import runtime, runtime_options
from fl_speech.audio import audio_info
from fl_speech.errors import AudioError
from fl_speech.inference.speech_detector import SpeechDetector
from fl_speech.inference.voice_activity import smoothed, speech_in_file, speech_segments


def main(arguments: list[str]) -> int:
    """Print a line for each stretch of speech."""
    parser = argparse.ArgumentParser(
        prog="fl-speech segments",
        description="Where recordings have speech, by their level above the noise, or as a "
        "detector tells. No recogniser is needed, and files may last hours. Lines are "
        "`file, start, end` in seconds, separated by tabs.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("files", type=Path, nargs="+", metavar="FILE", help="of audio")
    add("--model", type=Path, metavar="FOLDER", help="detector of fl-speech detector")
    add("--threshold", type=float, metavar="X", help="(0.42; with --model a probability, 0.5)")
    add("--below-db", type=float, default=32.0, metavar="X", help="no speech (%(default)s)")
    add("--pause-ms", type=float, default=300.0, metavar="X", help="in speech (%(default)s)")
    add("--least-ms", type=float, default=50.0, metavar="X", help="of speech (%(default)s)")
    add("--hangover-ms", type=float, default=0.0, metavar="X", help="at ends (%(default)s)")
    add("--skip-bad", action="store_true", help="leave out files that cannot be read")
    runtime_options(parser)
    given = parser.parse_args(arguments)
    with runtime(given):
        detector = None if given.model is None else SpeechDetector.load(given.model)
        for path in given.files:
            try:
                flags = _flags(path, given, detector)
                rate = audio_info(path).sample_rate
            except AudioError as error:
                if not given.skip_bad:
                    raise
                print(f"left out: {error}", file=sys.stderr)
                continue
            for start, end in speech_segments(flags, rate):
                print(f"{path}\t{start:.3f}\t{end:.3f}")
    return 0


def _flags(path: Path, given: argparse.Namespace, detector: SpeechDetector | None) -> np.ndarray:
    """Whether each frame of a file has speech."""
    ends = dict(pause_ms=given.pause_ms, least_ms=given.least_ms, hangover_ms=given.hangover_ms)
    if detector is None:
        threshold = 0.42 if given.threshold is None else given.threshold
        return speech_in_file(path, threshold=threshold, below_db=given.below_db, **ends)
    threshold = 0.5 if given.threshold is None else given.threshold
    return smoothed(detector.speech_in_file(path, threshold), **ends)
