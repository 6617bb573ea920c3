"""``fl-speech detector``: train a network that finds speech, for ``fl-speech segments --model``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fl_memory.subcommands import at_least
from fl_nn.extend import runtime, runtime_options
from fl_speech.audio import load_audio
from fl_speech.cli.inputs import Bad
from fl_speech.cli.options import list_options
from fl_speech.datasets import ListFile, Utterance
from fl_speech.errors import AudioError, SpeechDataError
from fl_speech.training.speech_detector import train_speech_detector
from fl_tensor import untrusted_json
from fl_tensor.files import open_regular

_MAX_BYTES = 1 << 30


def main(arguments: list[str]) -> int:
    """Train a detector on a list and the times of its words."""
    parser = argparse.ArgumentParser(
        prog="fl-speech detector",
        description="Train a small network that tells speech from noise. TIMES is JSON: "
        '{"ID": [["word", start, end], ...]} in milliseconds for each recording of the list, as '
        "fl-speech prepare and ConnectedWords.write give them.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--train", type=Path, required=True, metavar="LIST", help="list file of recordings")
    add("--times", type=Path, required=True, metavar="TIMES", help="when words are said")
    add("-o", "--output", type=Path, required=True, metavar="FOLDER", help="for the detector")
    add("--epochs", type=at_least(1), default=8, metavar="N", help="(%(default)s)")
    add("--seed", type=at_least(0), default=0, metavar="N", help="(%(default)s)")
    list_options(parser)
    runtime_options(parser)
    given = parser.parse_args(arguments)
    bad = Bad(given.skip_bad)
    with runtime(given):
        read = ListFile(
            given.train,
            root=given.data_dir,
            transcripts="optional",
            on_error="skip" if given.skip_bad else "raise",
        )
        bad.errors += read.skipped
        samples, rate = _recordings(read, read_times(given.times), bad)
        detector = train_speech_detector(samples, rate, epochs=given.epochs, seed=given.seed)
        detector.save(given.output)
    bad.report()
    print(f"{given.output}: {len(samples)} recordings, {given.epochs} epochs")
    return 0


def read_times(path: Path) -> dict[str, list[tuple[float, float]]]:
    """Starts and ends in seconds of each recording of a file of times, checked."""
    with open_regular(path) as file:
        text = file.read(_MAX_BYTES)
    try:
        found = untrusted_json.parse(text)
    except ValueError as error:
        raise SpeechDataError(f"{path}: no JSON ({error})", "give times.json of a list") from error
    if not isinstance(found, Mapping):
        raise SpeechDataError(f"{path}: no object of recordings", "give times.json of a list")
    return {name: [_span(path, name, entry) for entry in _list(path, name, entries)]
            for name, entries in found.items()}  # fmt: skip


def _list(path: Path, name: str, entries: Any) -> list[Any]:
    if not isinstance(entries, list):
        raise SpeechDataError(f"{path}: sample {name} has no list", 'write [["word", 0, 250]]')
    return entries


def _span(path: Path, name: str, entry: Any) -> tuple[float, float]:
    try:
        _, start, end = entry
        return float(start) / 1000, float(end) / 1000
    except (TypeError, ValueError):
        raise SpeechDataError(
            f"{path}: sample {name} has {entry!r:.60}", 'write ["word", start, end] in milliseconds'
        ) from None


def _recordings(
    utterances: ListFile, times: Mapping[str, Any], bad: Bad
) -> tuple[list[tuple[np.ndarray, Any]], int]:
    """Samples and speech of each recording, and the rate that all of them have."""
    found: list[tuple[np.ndarray, Any]] = []
    rate = 0
    for one in utterances:
        try:
            if one.id not in times:
                raise one.error(
                    "the file of times has no such sample", "give the times of the list"
                )
            samples, rate = _read(one, rate)
        except (AudioError, SpeechDataError) as error:
            if bad.handler is None:
                raise
            bad.handler(error)
            continue
        found.append((samples, times[one.id]))
    return found, rate


def _read(one: Utterance, rate: int) -> tuple[np.ndarray, int]:
    audio, rate = load_audio(one.path, sample_rate=rate or None)
    return np.asarray(audio).mean(axis=0), rate
