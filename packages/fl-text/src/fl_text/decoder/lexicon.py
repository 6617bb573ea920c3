"""Beam search over the words of a lexicon."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fl_text.decoder.labels import WordLabels
from fl_text.decoder.lexicon_kernel import lexicon_frames
from fl_text.decoder.models import AnyModel, model_of
from fl_text.decoder.options import DecoderOptions
from fl_text.decoder.search import BeamSearch
from fl_text.decoder.tables import Tables
from fl_text.decoder.trie import Trie
from fl_text.dictionary import Dictionary
from fl_text.errors import TextError
from fl_text.lexicon import Lexicon


class LexiconDecoder(BeamSearch):
    """Finds the best sequences of words of a lexicon.

    Parameters
    ----------
    lexicon
        The spellings of the words; or a `Trie` that was made of them, with ``words``.
    tokens
        The tokens of the acoustic model, in the order of its outputs.
    lm
        An `NGramModel`, another `LanguageModel` with the numbers of the words, or None.
    options
        See `DecoderOptions`.
    silence, blank
        The token of silence, which also begins an utterance, and the blank of CTC.
    unknown
        The word that stands for unknown ones, if ``unk_score`` allows them.
    transitions
        ASG: the score of a token (row) after another one (column), (tokens, tokens).
    hot_words
        A boost for words: it is added to ``word_score`` wherever the word is completed, and
        changes nothing else. A negative one makes a word rarer.
    token_lm
        Whether the language model scores tokens, not words.
    words
        The words by their numbers, which are the labels of a `Trie`. By default those of the
        lexicon, in order.
    max_reps, smearing
        How a `Trie` is made of the lexicon: see `Trie.from_lexicon`.

    Raises
    ------
    TextError
        What does not fit the dictionaries, or another vocabulary of the language model.
    """

    def __init__(
        self,
        lexicon: Lexicon | Trie,
        tokens: Dictionary,
        lm: AnyModel | None = None,
        options: DecoderOptions | None = None,
        *,
        silence: str | int = "|",
        blank: str | int = "#",
        unknown: str = "<unk>",
        transitions: object = None,
        hot_words: Mapping[str, float] | None = None,
        token_lm: bool = False,
        words: Dictionary | None = None,
        max_reps: int = 0,
        smearing: str = "max",
    ) -> None:
        super().__init__(tokens, options, silence, blank, transitions)
        if words is None:
            if isinstance(lexicon, Trie):
                raise TextError("[text] a Trie has numbers of words: give the dictionary as words=")
            words = Dictionary(lexicon)
        trie = lexicon
        if not isinstance(trie, Trie):
            scored = None if token_lm else lm
            trie = Trie.from_lexicon(
                trie, tokens, words, scored, max_reps=max_reps, smearing=smearing
            )
        if trie.tokens != self.tokens:
            raise TextError(
                f"[text] the trie has {trie.tokens} tokens, the dictionary {self.tokens}: make both"
                " for the same acoustic model"
            )
        if trie.labels > words.index_size() or not words.is_contiguous():
            raise TextError(
                f"[text] the trie has words 0 to {trie.labels - 1}, the dictionary"
                f" {words.index_size()} words: give the dictionary whose numbers are the labels"
            )
        self.trie = trie
        names = [words.get_entry(k) for k in range(words.index_size())]
        number = -1
        if self.options.unk_score > -np.inf:
            if unknown not in words:
                raise TextError(
                    f"[text] unk_score is {self.options.unk_score}, but the words have no"
                    f" {unknown!r}: add it, or name the word for unknown ones by unknown="
                )
            number = words.get_index(unknown)
        self._model = model_of(lm, self._names if token_lm else names)
        self._bonus = _bonus(trie, words, self.options.word_score, hot_words or {})
        self._labelling = WordLabels(names, self._silence, self._blank)
        self._settings = self._make_settings(
            unknown=number,
            token_lm=token_lm,
            ceiling=max(self._model.ceiling, float(trie.tables.smear[1:].max())),
            bonus=float(self._bonus.max()),
        )

    def _run(self, tables: Tables, emissions: np.ndarray, start: int, stop: int) -> int:
        return lexicon_frames(
            self._settings,
            self.trie.tables,
            self._bonus,
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
            tables.allowed,
        )


def _bonus(
    trie: Trie, words: Dictionary, word_score: float, hot_words: Mapping[str, float]
) -> np.ndarray:
    """The score of each label of the trie for being completed: float64."""
    boost = np.zeros(words.index_size())
    for word, more in hot_words.items():
        if word not in words:
            raise TextError(f"[text] hot word {word!r} is not in the lexicon: add its spelling")
        if not isinstance(more, (int, float, np.number)) or not np.isfinite(more):
            raise TextError(f"[text] the boost of {word!r} is {more!r}: give a finite number")
        boost[words.get_index(word)] = more
    result: np.ndarray = word_score + boost[trie.tables.label]
    return result
