"""``fl-speech features``: features of recordings as arrays and pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import fl_tensor as ft
from fl_nn.extend import given_settings, recipe_options, runtime, runtime_options
from fl_speech.audio import audio_info, load_audio
from fl_speech.frontend import Frontend
from fl_speech.pictures import draw_spectrogram
from fl_speech.recipe import Recipe


def main(arguments: list[str]) -> int:
    """Write the files."""
    parser = argparse.ArgumentParser(
        prog="fl-speech features",
        description="Features of recordings as NAME.npy, float32 (frames, size): those of a "
        "recipe, or of options. The rate is that of the first file unless it is given.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("inputs", type=Path, nargs="+", metavar="FILE", help="audio")
    add("-o", "--output", type=Path, default=Path("."), metavar="FOLDER", help="(%(default)s)")
    add("--recipe", metavar="FILE", help="JSON of settings, or a recipe of the package")
    add("--picture", action="store_true", help="also draw NAME.png")
    recipe_options(parser, Recipe)
    runtime_options(parser)
    given = parser.parse_args(arguments)
    settings = given_settings(given, Recipe)
    if given.recipe is None:
        settings.setdefault("sample_rate", audio_info(given.inputs[0]).sample_rate)
        settings.setdefault("normalise", "none")
    recipe = Recipe.read(given.recipe, **settings) if given.recipe else Recipe(**settings)
    given.output.mkdir(parents=True, exist_ok=True)
    with runtime(given):
        frontend = Frontend(recipe)
        for path in given.inputs:
            audio, _ = load_audio(path, sample_rate=recipe.sample_rate)
            found = np.asarray(frontend(ft.mean(audio, axis=0)), np.float32)
            target = given.output / f"{path.stem}.npy"
            np.save(target, found)
            print(f"{target}: {found.shape[0]} frames of {found.shape[1]} features")
            if given.picture:
                picture = target.with_suffix(".png")
                draw_spectrogram(found, recipe.stride_ms, picture, path.name)
                print(f"wrote {picture}")
    return 0
