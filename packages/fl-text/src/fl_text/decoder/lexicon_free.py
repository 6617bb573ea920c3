"""Beam search over tokens without a lexicon."""

from __future__ import annotations

import numpy as np

from fl_text.decoder.labels import TokenLabels
from fl_text.decoder.lexicon_free_kernel import lexicon_free_frames
from fl_text.decoder.models import AnyModel, model_of
from fl_text.decoder.options import DecoderOptions
from fl_text.decoder.search import BeamSearch
from fl_text.decoder.tables import Tables
from fl_text.dictionary import Dictionary


class LexiconFreeDecoder(BeamSearch):
    """Finds the best sequences of tokens; a language model of tokens may score them.

    Parameters
    ----------
    tokens
        The tokens of the acoustic model, in the order of its outputs.
    lm
        An `NGramModel` whose words are tokens, another `LanguageModel` with the numbers of the
        tokens, or None.
    options
        See `DecoderOptions`; scores of words are not used.
    silence, blank
        The token of silence, which also begins an utterance, and the blank of CTC.
    transitions
        ASG: the score of a token (row) after another one (column), (tokens, tokens).
    compat
        ASG: leave transitions out of ``score``, as flashlight-text does. They are in
        ``emitting_score`` in any case.

    Raises
    ------
    TextError
        What does not fit the dictionary, or another vocabulary of the language model.
    """

    def __init__(
        self,
        tokens: Dictionary,
        lm: AnyModel | None = None,
        options: DecoderOptions | None = None,
        *,
        silence: str | int = "|",
        blank: str | int = "#",
        transitions: object = None,
        compat: bool = False,
    ) -> None:
        super().__init__(tokens, options, silence, blank, transitions)
        self._model = model_of(lm, self._names)
        self._labelling = TokenLabels(self._names, self._silence, self._blank)
        self._settings = self._make_settings(compat=compat, ceiling=self._model.ceiling)

    def _run(self, tables: Tables, emissions: np.ndarray, start: int, stop: int) -> int:
        return lexicon_free_frames(
            self._settings,
            tables.source.scores,
            tables.source.ngram,
            tables.history,
            tables.beam,
            tables.candidates,
            tables.trace,
            emissions,
            self._transitions,
            self.tokens,
            start,
            stop,
            tables.chosen,
        )
