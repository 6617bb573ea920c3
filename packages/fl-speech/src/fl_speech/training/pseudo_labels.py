"""Iterative pseudo-labelling: recordings without words get what the recogniser hears in them.

Q. Xu et al., Iterative Pseudo-Labeling for Speech Recognition, Interspeech 2020.
"""

from __future__ import annotations

import contextlib
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

import fl_nn as nn
from fl_data import Dataset, check_index, mix
from fl_dist import Communicator, all_gather_object
from fl_nn.extend import broadcast_buffers
from fl_speech.datasets import Utterance, filter_utterances
from fl_speech.errors import RecipeError, SpeechDataError
from fl_speech.inference import Decoder, transcribe
from fl_speech.recipe import Recipe
from fl_speech.recogniser import Recogniser
from fl_speech.training.data import Source, training_batches
from fl_speech.training.label_files import are_complete, read_labels, write_labels
from fl_text.decoder import DecoderOptions
from fl_text.ngram import NGramModel

#: The folder of labels in that of a run.
LABELS = "generated_pl"
_CHOICE = 3


class Exchangeable(Dataset):
    """Batches that can be exchanged between epochs, for as many others."""

    def __init__(self, batches: Dataset) -> None:
        self._batches = batches

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (self._batches,)

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Any:
        return self._batches[check_index(index, len(self), "Exchangeable")]

    def exchange(self, batches: Dataset) -> None:
        """Give these batches from now on."""
        if len(batches) != len(self):
            raise SpeechDataError(
                f"{len(batches)} batches in place of {len(self)}: learning rates are planned for "
                "the same number of steps in every epoch",
                "give batches of a fixed number of recordings",
            )
        self._batches = batches


class PseudoLabels(nn.Callback):
    """Labels `unlabelled` recordings after the epochs of `recipe.relabellings()`, each time a share
    of them drawn anew; what is trained on then is `labelled` and those. `batches` gives them.

    An epoch has a fixed size, that of `labelled` and of the largest share. Where labels are missing
    or left out, labelled recordings come again in their place. Every rank labels its share of the
    recordings, and writes it into `folder/epoch_N/RANK.lst`; a resumed run reads those. Epochs
    have the figures `pseudo_labels` and `pseudo_labels_left_out`.

    Raises `RecipeError` where the recipe has no epochs of relabelling, or batches by duration.
    """

    def __init__(
        self,
        source: Source,
        labelled: Sequence[Utterance],
        unlabelled: Sequence[Utterance],
        communicator: Communicator,
        *,
        folder: Path | None = None,
        valid: str | None = None,
    ) -> None:
        recipe = source.recogniser.recipe
        self.plan = recipe.relabellings()
        _check(recipe, unlabelled, valid)
        if source.skip_bad:
            labelled = source.dataset(labelled, True).utterances
        self.source = Source(source.recogniser, source.effects)
        self.skip_bad = source.skip_bad
        self.labelled, self.unlabelled = list(labelled), list(unlabelled)
        self.communicator, self.folder, self.valid = communicator, folder, valid
        self.size = len(self.labelled) + max(self._count(share) for share in self.plan.values())
        #: The epoch whose labels are in use, and one of the plan that waits for the word error
        #: rate; 0: none.
        self.labelled_after = self.due = 0
        self.batches = Exchangeable(self._mixed([]))

    def _count(self, share: float) -> int:
        return round(share * len(self.unlabelled))

    def _mixed(self, labels: Iterable[Utterance]) -> Dataset:
        """Batches of an epoch."""
        everything = chain(self.labelled, labels, cycle(self.labelled))
        utterances = list(islice(everything, self.size))
        return training_batches(self.source, utterances, self.communicator, 0)

    # ---- labelling -----------------------------------------------------------------------------

    def on_epoch_end(self, trainer: nn.Trainer, record: dict[str, Any]) -> None:
        epoch, recipe = record["epoch"], self.source.recogniser.recipe
        self.due = epoch if epoch in self.plan else self.due
        if not self.due:
            return
        if recipe.relabel_wer and not record[f"{self.valid}_wer"] <= recipe.relabel_wer:
            return
        chosen = self._chosen(self.due)
        folder = self._folder(epoch)
        found = None
        if recipe.relabel_existing and folder is not None:
            # Nobody writes before everybody has looked.
            if all(all_gather_object(self.communicator, are_complete(folder))):
                found = read_labels(folder, self.unlabelled)
        if found is None:
            broadcast_buffers(self.communicator, self.source.recogniser)
            with trainer.ema.applied() if trainer.ema is not None else contextlib.nullcontext():
                found = self._label(chosen, folder)
        kept = self._use(found)
        self.labelled_after, self.due = epoch, 0
        record["pseudo_labels"] = kept
        record["pseudo_labels_left_out"] = len(chosen) - kept

    def _folder(self, epoch: int) -> Path | None:
        return None if self.folder is None else self.folder / LABELS / f"epoch_{epoch}"

    def _chosen(self, epoch: int) -> list[Utterance]:
        """The share of an epoch of the plan, in the order of the list."""
        seed = mix(self.source.recogniser.recipe.seed, _CHOICE, epoch)
        order = np.random.default_rng(seed).permutation(len(self.unlabelled))
        return [self.unlabelled[i] for i in sorted(order[: self._count(self.plan[epoch])])]

    def _label(self, chosen: list[Utterance], folder: Path | None) -> list[Utterance]:
        """What is heard in recordings, by all ranks."""
        recogniser, ranks = self.source.recogniser, self.communicator
        heard = {
            each.utterance.id: each.words
            for each in transcribe(
                recogniser,
                chosen[ranks.rank :: ranks.world_size],
                labelling_decoder(recogniser),
                on_error=(lambda error: None) if self.skip_bad else None,
            )
        }
        if folder is not None:
            write_labels(folder, _with_words(chosen, heard), ranks.rank, ranks.world_size)
        return _with_words(chosen, ChainMap(*all_gather_object(ranks, heard)))

    def _use(self, labels: list[Utterance]) -> int:
        """Train on labels from now on, but for those that limits leave out; how many."""
        place = {one.id: number for number, one in enumerate(self.unlabelled)}
        ordered = sorted(labels, key=lambda one: place[one.id])
        kept = usable_labels(self.source.recogniser, ordered)
        kept = kept[: self.size - len(self.labelled)]
        self.batches.exchange(self._mixed(kept))
        return len(kept)

    # ---- state ---------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Plain values: the epoch whose labels are in use, and the one that waits."""
        return {"labelled_after": self.labelled_after, "due": self.due}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state: read the labels in use. Raises `fl_nn.StateDictError` for a state of
        another callback, and `SpeechDataError` where labels are missing."""
        epochs = [state.get(name) for name in ("labelled_after", "due")]
        if not all(type(epoch) is int and epoch >= 0 for epoch in epochs):
            raise nn.StateDictError("this is not the state of a PseudoLabels")
        self.labelled_after, self.due = int(state["labelled_after"]), int(state["due"])
        folder = self._folder(self.labelled_after)
        if self.labelled_after and folder is not None:
            self._use(read_labels(folder, self.unlabelled))


def _with_words(
    utterances: Iterable[Utterance], heard: Mapping[str, Sequence[str]]
) -> list[Utterance]:
    """Those that `heard` has, with its words."""
    return [
        replace(one, words=tuple(heard[one.id]) or None) for one in utterances if one.id in heard
    ]


def usable_labels(recogniser: Recogniser, labels: Iterable[Utterance]) -> list[Utterance]:
    """The recordings with words that have a target, inside the limits of the recipe."""
    recipe = recogniser.recipe
    known = []
    for one in labels:
        with contextlib.suppress(SpeechDataError):
            if one.words and recogniser.targets(one.words):
                known.append(one)
    return filter_utterances(
        known,
        recogniser.targets,
        minisz=recipe.relabel_minisz,
        maxisz=recipe.relabel_maxisz or float("inf"),
        mintsz=recipe.relabel_mintsz,
        maxtsz=recipe.relabel_maxtsz or float("inf"),
    ).kept


def labelling_decoder(recogniser: Recogniser) -> Decoder | None:
    """The decoder of the recipe, with the recogniser's weights of now; None for the best path.
    Raises `RecipeError` where a lexicon is missing."""
    recipe = recogniser.recipe
    if recipe.relabel_decoder == "greedy":
        return None
    if recogniser.lexicon is None:
        raise RecipeError("relabel_decoder lexicon needs a lexicon: give --lexicon, or greedy")
    return Decoder(
        recogniser,
        recogniser.lexicon,
        NGramModel.open(recipe.relabel_lm) if recipe.relabel_lm else None,
        DecoderOptions(
            beam_size=recipe.relabel_beam_size,
            lm_weight=recipe.relabel_lm_weight,
            word_score=recipe.relabel_word_score,
        ),
    )


def _check(recipe: Recipe, unlabelled: Sequence[Utterance], valid: str | None) -> None:
    problems = []
    if not recipe.relabellings():
        problems.append("recordings without labels need relabel_epochs: say after which epochs")
    elif not unlabelled:
        problems.append("relabel_epochs need recordings without labels: give --unlabelled LIST")
    if recipe.batching in ("dynamic", "random_dynamic"):
        problems.append(f"relabelling needs batching random or none, not {recipe.batching}")
    if recipe.relabel_wer and valid is None:
        problems.append("relabel_wer is of the first validation list: give --valid")
    if problems:
        raise RecipeError("; ".join(problems))
