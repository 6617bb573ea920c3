"""``fl-speech stream``: transcripts while recordings arrive."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import fl_tensor as ft
from fl_memory.subcommands import at_least
from fl_nn.extend import runtime, runtime_options
from fl_speech.audio import load_audio
from fl_speech.cli.decoder_options import decoder_of, decoder_options
from fl_speech.inference.streaming import SpeechStream
from fl_speech.recogniser import load_recogniser


def main(arguments: list[str]) -> int:
    """Print partial results, and each transcript."""
    parser = argparse.ArgumentParser(
        prog="fl-speech stream",
        description="Transcripts while audio arrives: of files, in chunks, or with - of 16-bit "
        "little-endian samples on standard input, such as `arecord -t raw -f S16_LE -r 16000`. "
        "A line `seconds, text so far` is printed whenever the text grows.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("recogniser", type=Path, metavar="RUN", help="folder of fl-speech train --out")
    add("inputs", nargs="+", metavar="FILE", help="audio, or -")
    add("--chunk-ms", type=at_least(1), default=200, metavar="N", help="(%(default)s)")
    add("--run-code", action="store_true", help="run an encoder that is a Python file")
    decoder_options(parser)
    runtime_options(parser)
    given = parser.parse_args(arguments)
    with runtime(given):
        recogniser = load_recogniser(given.recogniser, run_code=given.run_code)
        decoder = decoder_of(given, recogniser)
        rate = recogniser.recipe.sample_rate
        size = max(1, given.chunk_ms * rate // 1000)
        for name in given.inputs:
            stream = SpeechStream(recogniser, decoder)
            before, heard = "", 0
            for chunk in _chunks(name, rate, size):
                text = stream.push(chunk)
                heard += len(chunk)
                if text != before:
                    print(f"{heard / rate:.2f}\t{text}", flush=True)
                    before = text
            found = stream.finish()
            print(f"{name}\t{'' if found is None else found.text}", flush=True)
    return 0


def _chunks(name: str, rate: int, size: int):  # type: ignore[no-untyped-def]
    if name != "-":
        audio, _ = load_audio(name, sample_rate=rate)
        samples = ft.mean(audio, axis=0)
        for start in range(0, len(samples), size):
            yield samples[start : start + size]
        return
    while block := sys.stdin.buffer.read(2 * size):
        values = np.frombuffer(block[: len(block) // 2 * 2], "<i2")
        yield ft.asarray(values.astype(np.float32) / 32768)
