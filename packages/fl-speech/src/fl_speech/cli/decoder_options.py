"""Options of beam search, and the decoder that they describe."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from fl_memory.subcommands import at_least
from fl_speech.errors import RecipeError
from fl_speech.inference import Decoder
from fl_speech.recogniser import Recogniser
from fl_text import load_words
from fl_text.decoder import DecoderOptions
from fl_text.ngram import NGramModel

#: Beam search of the original's programs keeps 2500 hypotheses; of these sizes all are real time.
BEAM_SIZE = 500


def decoder_options(parser: argparse.ArgumentParser) -> None:
    """Where words and language model come from, and the options of the search."""
    add = parser.add_argument_group("words").add_argument
    add("--lexicon", type=Path, metavar="FILE", help="default: that of the recogniser")
    add("--no-lexicon", action="store_true", help="any sequence of tokens")
    add("--lm", type=Path, metavar="FILE", help="n-gram model: .arpa, or of fl-text ngram convert")
    add("--smearing", choices=("max", "logadd", "none"), default="max", help="(%(default)s)")
    add("--threads", type=at_least(1), metavar="N", help="default: one for each processor")
    options = parser.add_argument_group("beam search").add_argument
    for field in fields(DecoderOptions):
        name = "--" + field.name.replace("_", "-")
        if field.name == "criterion":
            continue
        if isinstance(field.default, bool):
            options(name, action="store_true", help="hypotheses that meet add up")
        else:
            kind, default = type(field.default), field.default
            default = BEAM_SIZE if field.name == "beam_size" else default
            options(name, type=kind, default=default, metavar="X", help="%(default)s")


def decoder_of(given: argparse.Namespace, recogniser: Recogniser, lm: Any = None) -> Decoder:
    """The decoder that options describe; `lm` is the model of `--lm` if it is read already."""
    names = [field.name for field in fields(DecoderOptions) if field.name != "criterion"]
    options = DecoderOptions(**{name: getattr(given, name) for name in names})
    lexicon = recogniser.lexicon if given.lexicon is None else load_words(given.lexicon)
    if given.no_lexicon:
        if given.lexicon is not None:
            raise RecipeError("--lexicon and --no-lexicon contradict each other: give one")
        lexicon = None
    return Decoder(
        recogniser,
        lexicon,
        language_model(given.lm) if lm is None else lm,
        options,
        threads=given.threads,
        smearing=given.smearing,
    )


def language_model(path: Path | None) -> Any:
    """The n-gram model in a file, or None."""
    return None if path is None else NGramModel.open(path)
