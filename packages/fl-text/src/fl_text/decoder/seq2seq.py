"""The decoders of sequence-to-sequence models: with a lexicon, and without."""

from __future__ import annotations

import numpy as np

from fl_text.decoder.histories import Histories
from fl_text.decoder.models import AnyModel
from fl_text.decoder.options import DecoderOptions
from fl_text.decoder.outputs import OutputLabels
from fl_text.decoder.seq2seq_search import LOWEST, Beam, Seq2SeqDecoder, Update, weighted
from fl_text.decoder.trie import Trie
from fl_text.dictionary import Dictionary
from fl_text.errors import TextError
from fl_text.language_model import CheckedLM, as_language_model
from fl_text.lexicon import Lexicon


class LexiconFreeSeq2SeqDecoder(Seq2SeqDecoder):
    """Finds the best sequences of tokens; a language model of tokens may score them.

    Parameters
    ----------
    tokens
        The tokens of the model, in the order of its scores.
    update
        The model: see `fl_text.decoder.seq2seq_search`.
    lm
        An `NGramModel` whose words are tokens, another `LanguageModel` with the numbers of the
        tokens, or None.
    options
        See `DecoderOptions`; scores of words and silences are not used, nor is ``log_add``.
    eos
        The token that ends a sequence.
    max_output_length
        No hypothesis has more tokens.

    Raises
    ------
    TextError
        What does not fit the dictionary, or another vocabulary of the language model.
    """

    def __init__(
        self,
        tokens: Dictionary,
        update: Update,
        lm: AnyModel | None = None,
        options: DecoderOptions | None = None,
        *,
        eos: str | int = "</s>",
        max_output_length: int = 200,
    ) -> None:
        super().__init__(tokens, update, options, eos, max_output_length)
        self._model = as_language_model(lm, self._names)
        self._labels = OutputLabels(self._names, self.eos, words=False)

    def _histories(self) -> Histories:
        return Histories(self._model)

    def _candidates(self, beam: Beam, scores: np.ndarray, histories: Histories) -> list[Beam]:
        options = self.options
        tried = self._tried(scores)
        lm = histories.rows(beam.history)
        total = beam.score[:, None] + scores + weighted(options.lm_weight, lm)
        ends = np.zeros(len(beam))
        ending = np.flatnonzero(tried[:, self.eos])
        ends[ending] = histories.ends(beam.history[ending])
        at_end = scores[:, self.eos] + options.eos_score + weighted(options.lm_weight, ends)
        total[:, self.eos] = beam.score + at_end
        # What cannot stay is left out before candidates are made.
        total[~tried] = -np.inf
        limit = max(total.max(initial=LOWEST) - options.beam_threshold, LOWEST)
        count = options.beam_size
        if total.size > count:
            limit = max(limit, np.partition(total, total.size - count, axis=None)[-count])
        row, token = np.nonzero(total >= limit)
        ended = token == self.eos
        found = beam.take(row)
        found.score = total[row, token]
        found.emitting = found.emitting + scores[row, token]
        found.lm = found.lm + np.where(ended, ends[row], lm[row, token])
        found.token = token
        found.word = np.where(ended, -1, token)
        return [found]


class LexiconSeq2SeqDecoder(Seq2SeqDecoder):
    """Finds the best sequences of words of a lexicon.

    Parameters
    ----------
    lexicon
        The spellings of the words; or a `Trie` that was made of them, with ``words``.
    tokens
        The tokens of the model, in the order of its scores.
    update
        The model: see `fl_text.decoder.seq2seq_search`.
    lm
        An `NGramModel`, another `LanguageModel` with the numbers of the words, or None.
    options
        See `DecoderOptions`; ``unk_score`` and ``sil_score`` are not used.
    eos
        The token that ends a sequence; it does so behind a word only.
    max_output_length
        No hypothesis has more tokens.
    token_lm
        Whether the language model scores tokens, not words.
    words
        The words by their numbers, which are the labels of a `Trie`. By default those of the
        lexicon, in order.
    max_reps, smearing
        How a `Trie` is made of the lexicon: see `Trie.from_lexicon`.

    A hypothesis at the limit of length may end within a word, as in the original.

    Raises
    ------
    TextError
        What does not fit the dictionaries, or another vocabulary of the language model.
    """

    def __init__(
        self,
        lexicon: Lexicon | Trie,
        tokens: Dictionary,
        update: Update,
        lm: AnyModel | None = None,
        options: DecoderOptions | None = None,
        *,
        eos: str | int = "</s>",
        max_output_length: int = 200,
        token_lm: bool = False,
        words: Dictionary | None = None,
        max_reps: int = 0,
        smearing: str = "max",
    ) -> None:
        super().__init__(tokens, update, options, eos, max_output_length)
        if words is None:
            if isinstance(lexicon, Trie):
                raise TextError(
                    "[LexiconSeq2SeqDecoder] a Trie has numbers of words: give the dictionary as "
                    "words="
                )
            words = Dictionary(lexicon)
        trie = lexicon
        if not isinstance(trie, Trie):
            scored = None if token_lm else lm
            trie = Trie.from_lexicon(
                trie, tokens, words, scored, max_reps=max_reps, smearing=smearing
            )
        if trie.tokens != self.tokens:
            raise TextError(
                f"[LexiconSeq2SeqDecoder] the trie has {trie.tokens} tokens, the dictionary "
                f"{self.tokens}: make both for the same model"
            )
        if trie.labels > words.index_size() or not words.is_contiguous():
            raise TextError(
                f"[LexiconSeq2SeqDecoder] the trie has words 0 to {trie.labels - 1}, the "
                f"dictionary {words.index_size()}: give the one whose numbers are the labels"
            )
        self.trie, self.token_lm = trie, token_lm
        names = [words.get_entry(k) for k in range(words.index_size())]
        self._model: CheckedLM = as_language_model(lm, self._names if token_lm else names)
        self._labels = OutputLabels(names, self.eos, words=True)
        # The original counts the root as 0, and so does every node here.
        self._smear = np.array(trie.tables.smear, np.float64)
        self._smear[0] = 0.0

    def _histories(self) -> Histories:
        return Histories(self._model)

    def _candidates(self, beam: Beam, scores: np.ndarray, histories: Histories) -> list[Beam]:
        tables, weight = self.trie.tables, self.options.lm_weight
        tried = self._tried(scores)
        ending = np.flatnonzero(tried[:, self.eos] & (beam.node == 0))
        ended = beam.take(ending)
        _add(ended, scores[ending, self.eos], histories.ends(ended.history), weight)
        ended.score = ended.score + self.options.eos_score
        ended.token = np.full(len(ending), self.eos)
        # Along an edge of the trie.
        row, edge = ragged(tables.first, beam.node)
        inside = tried[row, tables.token[edge]] & (tables.token[edge] != self.eos)
        row, edge = row[inside], edge[inside]
        token = tables.token[edge].astype(np.int64)
        further = beam.take(row)
        gain = scores[row, token]
        if self.token_lm:
            lm = histories.scores(further.history, token)
            further.word = token
        else:
            lm = self._smear[edge + 1] - self._smear[further.node]
        before = further.take(np.arange(len(row)))
        _add(further, gain, lm, weight)
        further.token, further.node = token, edge + 1
        # To the end of a word, and back to the root. A token model needs one of its labels.
        which, place = ragged(tables.label_first, edge + 1)
        if self.token_lm:
            which, first = np.unique(which, return_index=True)
            place = place[first]
        completed = before.take(which)
        word = tables.label[place].astype(np.int64)
        if self.token_lm:
            score = lm[which]
        else:
            score = histories.scores(completed.history, word) - self._smear[completed.node]
            completed.word = word
        _add(completed, gain[which], score, weight)
        completed.score = completed.score + self.options.word_score
        completed.token, completed.label = token[which], word
        completed.node = np.zeros(len(which), np.int64)
        return [ended, further, completed]

    def _merge(self, candidates: Beam, histories: Histories) -> Beam:
        before, last = histories.parents(candidates.history)
        added = candidates.word >= 0
        before = np.where(added, candidates.history, before)
        last = np.where(added, candidates.word, last)
        keys = ((candidates.node << 32) + candidates.token, (before << 32) + last)
        order = np.lexsort((-candidates.score, *keys))
        differs = np.zeros(len(order), bool)
        differs[:1] = True
        for key in keys:
            differs[1:] |= key[order[1:]] != key[order[:-1]]
        first = np.flatnonzero(differs)
        merged = candidates.take(order[first])
        if self.options.log_add and len(first):
            merged.score = np.logaddexp.reduceat(candidates.score[order], first)
        return merged


def _add(beam: Beam, gain: np.ndarray, lm: np.ndarray, weight: float) -> None:
    beam.score = beam.score + gain + weighted(weight, lm)
    beam.emitting = beam.emitting + gain
    beam.lm = beam.lm + lm


def ragged(first: np.ndarray, owners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Entries ``first[owner]`` to ``first[owner + 1] - 1`` of each owner, and whose they are."""
    count = (first[owners + 1] - first[owners]).astype(np.int64)
    which = np.repeat(np.arange(len(owners)), count)
    inside = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    return which, first[owners].astype(np.int64)[which] + inside
