"""``Recogniser``: features, encoder, criterion and tokens, in memory and as a folder."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_speech.criteria import (
    ASG,
    CTC,
    Criterion,
    Seq2Seq,
    SoftPretrainWindow,
    TransformerCriterion,
    make_attention,
    make_window,
)
from fl_speech.datasets import (
    TargetOptions,
    Transcript,
    TranscriptReader,
)
from fl_speech.encoder import ConvResidual
from fl_speech.errors import RecipeError
from fl_speech.frontend import Frontend
from fl_speech.models import AcousticModel, from_python, load_arch
from fl_speech.recipe import Recipe
from fl_speech.spelling import make_targets
from fl_speech.tempo import Tempo
from fl_speech.vocal_tract import VocalTractPerturbation
from fl_tensor import untrusted_json
from fl_tensor.files import open_regular, replacing
from fl_text import Dictionary, Lexicon, load_words

__all__ = ["Recogniser", "load_recogniser", "read_description", "save_recogniser"]

DESCRIPTION, WEIGHTS = "recogniser.json", "weights.safetensors"
TOKENS, LEXICON, CODE = "tokens.txt", "lexicon.txt", "encoder.py"
BLANK, END = "#", "</s>"
_SEQUENCES = ("seq2seq", "transformer")
_FORMAT = 1
_MAX_BYTES = 1 << 26
_MAX_FEATURES = 1 << 16


class Recogniser(nn.Module):
    """A model with all that it needs to hear words: `features` of samples, `encoder`, `criterion`,
    `dictionary` of its classes, and the `lexicon` of its words, where there is one. `targets` makes
    words to labels, `reader` labels to words.

    recipe      how it is built (`fl_speech.recipe.Recipe`)
    tokens      of the targets, in order; the recogniser adds labels of repetitions, the blank of
                CTC or the end of a sequence behind them
    arch        the text of an architecture file, where the recipe names one
    statistics  mean and deviation of each feature, where the recipe normalises with those

    Weights are drawn from the default generator.
    """

    takes_lengths = True

    def __init__(
        self,
        recipe: Recipe,
        tokens: Dictionary,
        lexicon: Lexicon | None = None,
        *,
        arch: str = "",
        statistics: tuple[Sequence[float], Sequence[float]] | None = None,
    ) -> None:
        self.recipe, self.tokens, self.lexicon, self.arch = recipe, tokens, lexicon, arch
        self.features = Frontend(recipe, *(statistics or ()))
        self.dictionary = _classes(recipe, tokens)
        options = TargetOptions(
            recipe.separator,
            recipe.sample_target,
            recipe.unknown,  # type: ignore[arg-type]
            recipe.surround,
            recipe.criterion in _SEQUENCES,
            recipe.replabels,
        )
        self.targets = make_targets(recipe, self.dictionary, lexicon, options)
        self.tempo = Tempo(recipe.tempo) if recipe.tempo else None
        self.vtlp = VocalTractPerturbation.of(recipe) if recipe.vtlp else None
        self.augment = nn.SpecAugment(
            frequency_masks=recipe.frequency_masks,
            frequency_width=recipe.frequency_width,
            time_masks=recipe.time_masks,
            time_width=recipe.time_width,
            time_share=recipe.time_share,
        )
        #: Whether training masks features.
        self.masks = recipe.spec_augment_start == 0
        self.encoder = build_encoder(recipe, self.features.size, len(self.dictionary), arch)
        self.criterion: Any = build_criterion(recipe, len(self.dictionary))
        decoding: Any = self.criterion.decoding
        self.reader = TranscriptReader(self.dictionary, options, decoding)
        self.to(ft.dtype(recipe.dtype))

    def forward(self, features: ft.Array, lengths: Any = None) -> tuple[ft.Array, Any]:
        """Features (B, T, F) and how many frames are each sample's own, int64 (B,), to emissions
        (B, T', N) and their lengths."""
        if self.training:
            features, lengths = self.augmented(features, lengths)
        return self.encoder(features, lengths)

    def augmented(self, features: ft.Array, lengths: Any = None) -> tuple[ft.Array, Any]:
        """Features (B, T, F) in another tempo, of other vocal tracts and masked, as the recipe
        says, and their lengths: what the encoder sees in training."""
        if self.tempo is not None:
            features, lengths = self.tempo(features, lengths)
        if self.vtlp is not None:
            features = self.vtlp(features)
        if self.masks and (self.recipe.frequency_masks or self.recipe.time_masks):
            bands = ft.permute_dims(features, (0, 2, 1))
            features = ft.permute_dims(self.augment(bands, lengths), (0, 2, 1))
        return features, lengths

    # ---- words ---------------------------------------------------------------------------------

    def hear(self, features: ft.Array, lengths: Any = None) -> list[Transcript]:
        """What the best path says of each sample (B, T, F), in evaluation mode."""
        with nn.evaluating(self):
            emissions, counts = self(features, lengths)
            paths = self.criterion.best_path(emissions, counts)
        return [self.reader.prediction(path) for path in paths]

    # ---- description ---------------------------------------------------------------------------

    def description(self) -> dict[str, Any]:
        """Plain values that build it again, but for weights, tokens and lexicon."""
        statistics = None
        if self.features.mean is not None and self.features.deviation is not None:
            statistics = [list(self.features.mean), list(self.features.deviation)]
        return {
            "format": _FORMAT,
            "recipe": self.recipe.values(),
            "arch": self.arch,
            "statistics": statistics,
        }


def build_encoder(recipe: Recipe, features: int, classes: int, arch: str) -> nn.Module:
    """The encoder that a recipe names, of `features` a frame and `classes` scores; `arch` is the
    text of its file."""
    if recipe.criterion in _SEQUENCES:
        classes = recipe.encoder_dim
    if recipe.arch == "residual":
        return ConvResidual(
            features,
            classes,
            recipe.channels,
            recipe.blocks,
            recipe.kernel,
            recipe.subsample,
            recipe.dropout,
            recipe.norm,
            recipe.dilation,
        )
    if recipe.arch.endswith(".py"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / CODE
            path.write_text(arch)
            return from_python(path, features, classes)
    if arch:
        return AcousticModel(nn.build_sequential(arch, features, classes), "image")
    return load_arch(recipe.arch, features, classes)


def build_criterion(recipe: Recipe, classes: int) -> Criterion:
    """The criterion that a recipe names, of so many classes."""
    if recipe.criterion == "ctc":
        return CTC(recipe.scale)
    if recipe.criterion == "asg":
        return ASG(classes, recipe.transition_diagonal, recipe.scale)
    # Kinds of keys and values take one half of the encoder's features for each.
    split = recipe.attention in ("keyvalue", "multikv", "multikvsplit")
    size, end = recipe.encoder_dim // (2 if split else 1), classes - 1
    attentions = [make_attention(recipe.attention, size) for _ in range(recipe.attention_rounds)]
    kind, *numbers = recipe.attention_window.split(":")
    shared: dict[str, Any] = {
        "max_length": recipe.max_output,
        "window": None if kind == "none" else make_window(kind, *map(_number, numbers)),
        "pretrain_window": SoftPretrainWindow() if recipe.pretrain_window else None,
        "teacher_forcing": recipe.teacher_forcing,
        "label_smoothing": recipe.label_smoothing,
        "layers": recipe.decoder_layers,
        "dropout": recipe.decoder_dropout,
        "scale_mode": recipe.scale,
    }
    if recipe.criterion == "transformer":
        return TransformerCriterion(classes, size, end, attention=attentions[0], **shared)
    return Seq2Seq(
        classes,
        size,
        end,
        attentions=attentions,
        input_feeding=recipe.input_feeding,
        **shared,
    )


def _number(text: str) -> float:
    """An int where it is one: windows count frames."""
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        raise RecipeError(
            f"attention_window has {text!r} in place of a number: write it as median:50:50"
        ) from None


def save_recogniser(folder: str | os.PathLike[str], recogniser: Recogniser) -> None:
    """Write a recogniser into a folder: `recogniser.json`, `tokens.txt`, `lexicon.txt` where it has
    one, and `weights.safetensors`, the last of them, each at once."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    recogniser.tokens.save(path / TOKENS)
    if recogniser.lexicon is not None:
        recogniser.lexicon.save(path / LEXICON)
    with replacing(path / DESCRIPTION) as file:
        file.write(json.dumps(recogniser.description(), indent=1).encode() + b"\n")
    nn.save_weights(path / WEIGHTS, recogniser)


def load_recogniser(
    folder: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    *,
    run_code: bool = False,
) -> Recogniser:
    """The recogniser in a folder, in evaluation mode; with other `weights` than the folder's.

    run_code  whether an encoder that is a Python file may be run: for folders that you trust

    Raises `RecipeError` for a description that makes no sense, and `fl_nn.CheckpointError` where
    the weights do not fit it exactly.
    """
    path = Path(folder)
    if not (path / DESCRIPTION).is_file():
        raise RecipeError(
            f"{path} holds no recogniser ({DESCRIPTION}): give the folder of fl-speech train --out"
        )
    found = read_description(path / DESCRIPTION)
    if found["recipe"].arch.endswith(".py") and not run_code:
        raise RecipeError(
            f"{path}: its encoder is Python code, which would be run: give run_code=True "
            "(--run-code) if you trust it"
        )
    lexicon = load_words(path / LEXICON) if (path / LEXICON).is_file() else None
    recogniser = Recogniser(
        found["recipe"],
        Dictionary(path / TOKENS),
        lexicon,
        arch=found["arch"],
        statistics=found["statistics"],
    )
    nn.load_weights(path / WEIGHTS if weights is None else weights, recogniser)
    recogniser.eval()
    return recogniser


def read_description(path: Path) -> dict[str, Any]:
    """What `Recogniser.description` gave, checked; "recipe" is a `Recipe`."""
    with open_regular(path) as file:
        text = file.read(_MAX_BYTES)
    try:
        found = untrusted_json.parse(text)
    except ValueError as error:
        raise RecipeError(f"{path}: no JSON ({error})") from error
    if not isinstance(found, Mapping) or found.get("format") != _FORMAT:
        raise RecipeError(f"{path}: not the description of a recogniser, or of another version")
    arch, statistics = found.get("arch"), found.get("statistics")
    if not isinstance(arch, str) or not (statistics is None or _are_statistics(statistics)):
        raise RecipeError(f"{path}: its arch or its statistics are malformed; train it again")
    try:
        recipe = Recipe.of(found.get("recipe"))
    except RecipeError as error:
        raise RecipeError(f"{path}: {error.problem}") from error
    return {"recipe": recipe, "arch": arch, "statistics": statistics}


def _are_statistics(values: object) -> bool:
    return (
        isinstance(values, list)
        and len(values) == 2
        and all(isinstance(v, list) and 1 <= len(v) <= _MAX_FEATURES for v in values)
        and all(isinstance(x, (int, float)) and abs(x) < 1e9 for v in values for x in v)
        and len(values[0]) == len(values[1])
        and min(values[1]) > 0
    )


def _classes(recipe: Recipe, tokens: Dictionary) -> Dictionary:
    """All classes of the encoder, in order."""
    more: list[str] = []
    if recipe.criterion == "asg":
        more = [f"<{n}>" for n in range(1, recipe.replabels + 1)]
    elif recipe.criterion == "ctc":
        more = [BLANK]
    else:
        more = [END]
    found = Dictionary()
    for number in range(len(tokens)):
        found.add_entry(tokens.get_entry(number), number)
    for token in more:
        if token in found:
            raise RecipeError(
                f"the tokens hold {token!r}, which criterion {recipe.criterion} adds itself: "
                "leave it out of the list"
            )
        found.add_entry(token)
    return found
