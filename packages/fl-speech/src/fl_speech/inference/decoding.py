"""``Decoder``: the beam search of fl-text that fits the criterion of a recogniser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_speech.errors import RecipeError
from fl_speech.recogniser import BLANK, Recogniser
from fl_text import Lexicon
from fl_text.decoder import (
    DecoderOptions,
    Hypothesis,
    LexiconDecoder,
    LexiconFreeDecoder,
    LexiconFreeSeq2SeqDecoder,
    LexiconSeq2SeqDecoder,
)


class Decoder:
    """Finds words in emissions of `recogniser`: `decoder(emissions)` gives n-best lists.

    lexicon   words that may be said; None: any sequence of tokens
    lm        an `NGramModel` or another language model of fl-text, of words; of tokens without a
              lexicon
    options   `DecoderOptions`; its criterion is that of the recogniser
    threads   that decode at once; None: one for each processor

    Raises `RecipeError` where the recogniser has no token for the silence between words.
    """

    def __init__(
        self,
        recogniser: Recogniser,
        lexicon: Lexicon | None = None,
        lm: Any = None,
        options: DecoderOptions | None = None,
        *,
        threads: int | None = None,
        smearing: str = "max",
    ) -> None:
        self.recogniser, self.lexicon, self.threads = recogniser, lexicon, threads
        self.decoding = recogniser.criterion.decoding
        options = options or DecoderOptions()
        recipe, tokens = recogniser.recipe, recogniser.dictionary
        if self.decoding == "seq2seq":
            self._model = update = recogniser.criterion.emitting_model()
            most = recipe.max_output
            if lexicon is None:
                self.search: Any = LexiconFreeSeq2SeqDecoder(
                    tokens,
                    update,
                    lm,
                    options,
                    eos=recogniser.criterion.eos,
                    max_output_length=most,
                )
            else:
                self.search = LexiconSeq2SeqDecoder(
                    lexicon,
                    tokens,
                    update,
                    lm,
                    options,
                    eos=recogniser.criterion.eos,
                    max_output_length=most,
                )
            return
        more: dict[str, Any] = {"silence": self._silence(), "blank": BLANK}
        if self.decoding == "asg":
            more = {"silence": self._silence(), "blank": self._silence()}
            more["transitions"] = np.asarray(recogniser.criterion.transitions.tensor, np.float32)
        options = replace(options, criterion=self.decoding)
        if lexicon is None:
            self.search = LexiconFreeDecoder(tokens, lm, options, **more)
        else:
            more |= {"max_reps": recipe.replabels, "smearing": smearing}
            self.search = LexiconDecoder(lexicon, tokens, lm, options, **more)

    def _silence(self) -> str:
        recipe, tokens = self.recogniser.recipe, self.recogniser.dictionary
        for token in (recipe.surround, recipe.separator):
            if token and token in tokens:
                return token
        raise RecipeError(
            "the recogniser has neither a separator nor a surround token, which beam search needs "
            "as the silence in which recordings begin: train with --separator '|'"
        )

    def __call__(
        self, emissions: Sequence[np.ndarray], n_best: int | None = 1
    ) -> list[list[Hypothesis]]:
        """For each array (T', N) its best hypotheses, at most `n_best`, best first."""
        if self.decoding == "seq2seq":
            return [self.search.decode(self._states(each), n_best=n_best) for each in emissions]
        found: list[list[Hypothesis]] = self.search.decode_batch(
            list(emissions), n_best=n_best, threads=self.threads
        )
        return found

    def _states(self, encoded: np.ndarray) -> Any:
        return self._model.start(ft.asarray(encoded, ft.dtype(self.recogniser.recipe.dtype)))

    def words(self, hypothesis: Hypothesis) -> list[str]:
        """The words of a hypothesis."""
        if self.lexicon is not None:
            return hypothesis.text.split()
        return self.recogniser.reader.prediction(list(hypothesis.tokens)).words
