"""``Targets``: words as the labels that a recogniser learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import fl_tensor as ft
from fl_speech.datasets import TargetGenerator, TargetOptions, collapse
from fl_speech.recipe import Recipe
from fl_text import Dictionary, Lexicon


class Targets:
    """A `TargetGenerator`; with `merges`, equal neighbours of its labels become one: ASG takes them
    for one label that lasts. Labels of `around` stand at both ends, before that."""

    def __init__(self, generate: TargetGenerator, merges: bool, around: Sequence[int] = ()) -> None:
        self.generate, self.merges, self.around = generate, merges, list(around)

    def __call__(self, words: Sequence[str], generator: ft.Generator | None = None) -> list[int]:
        """The labels of words."""
        found = [*self.around, *self.generate(words, generator), *self.around]
        return collapse(found) if self.merges else found


def make_targets(
    recipe: Recipe, dictionary: Dictionary, lexicon: Lexicon | None, options: TargetOptions
) -> Targets:
    """The targets of a recipe."""
    generate = TargetGenerator(dictionary, lexicon, options)
    if recipe.criterion != "asg":
        return Targets(generate, False)
    around: list[int] = []
    if recipe.surround:
        # Behind a separator, it must not become a label of repetition, which nobody says.
        generate = TargetGenerator(dictionary, lexicon, replace(options, surround=""))
        around = [dictionary.get_index(recipe.surround)]
    return Targets(generate, True, around)
