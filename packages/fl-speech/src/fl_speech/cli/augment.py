"""``fl-speech augment``: sound effects on files."""

from __future__ import annotations

import argparse
from pathlib import Path

import fl_tensor as ft
from fl_memory.subcommands import at_least
from fl_nn.extend import runtime, runtime_options
from fl_speech.audio import load_audio
from fl_speech.effects import read_effects
from fl_speech.saving import save_audio


def main(arguments: list[str]) -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(
        prog="fl-speech augment",
        description="Apply the sound effects of a JSON file to a recording.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("input", type=Path, metavar="FILE", help="audio")
    add("-o", "--output", type=Path, default=Path("augmented.flac"), metavar="FILE")
    add("--config", type=Path, required=True, metavar="FILE", help="JSON of effects")
    add("--seed", type=at_least(0), default=0, metavar="N", help="of the effects (%(default)s)")
    runtime_options(parser)
    given = parser.parse_args(arguments)
    with runtime(given):
        effects = read_effects(given.config)
        audio, rate = load_audio(given.input)
        found = effects(audio, ft.Generator(given.seed))
        save_audio(given.output, found, rate)
        print(f"wrote {given.output}: {found.shape[-1] / rate:.2f} s at {rate} Hz")
    return 0
