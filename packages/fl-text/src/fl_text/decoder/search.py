"""The common part of decoders of emissions: borders, tables that are used again, threads."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fl_tensor.annotations import Checked, explained
from fl_text.decoder.hypothesis import Hypothesis, Labelling
from fl_text.decoder.models import Model
from fl_text.decoder.options import DecoderOptions
from fl_text.decoder.records import Settings
from fl_text.decoder.stream import Stream
from fl_text.decoder.tables import Tables
from fl_text.dictionary import Dictionary
from fl_text.errors import TextError


class BeamSearch(Checked):
    """Decodes emissions; a subclass says how hypotheses go on. Threads may share a decoder."""

    _labelling: Labelling
    _model: Model
    _settings: Settings

    def __init__(
        self,
        tokens: Dictionary,
        options: DecoderOptions | None,
        silence: str | int,
        blank: str | int,
        transitions: object,
    ) -> None:
        self.options = options or DecoderOptions()
        self.tokens = tokens.index_size()
        if not tokens.is_contiguous() or not 0 < self.tokens < 2**30:
            raise TextError(
                f"[text] a dictionary of {self.tokens} tokens, perhaps with gaps: a decoder needs"
                " tokens 0, 1, ... without gaps, at least one"
            )
        self._names = [tokens.get_entry(k) for k in range(self.tokens)]
        self._silence = self._number(tokens, silence, "silence")
        asg = self.options.criterion == "asg"
        self._blank = -1 if asg else self._number(tokens, blank, "blank")
        self._transitions = _transitions(transitions, self.tokens, asg)
        self._free: deque[Tables] = deque()

    @explained
    def decode(self, emissions: object, n_best: int | None = None) -> list[Hypothesis]:
        """The hypotheses of an utterance, the best first; `n_best` of them at most.

        ``emissions`` are log-probabilities or scores, (frames, tokens), in an array or a Tensor of
        the host. Without frames the result is the empty hypothesis. Where no hypothesis is possible
        (all have an emission of ``-inf``) there is none.

        Raises
        ------
        TextError
            Another shape, NaN, ``+inf``, or scores of the language model that do not fit.
        """
        with self.begin() as stream:
            stream.step(emissions)
            return stream.end(n_best)

    @explained
    def decode_batch(
        self,
        emissions: Sequence[object] | np.ndarray,
        lengths: Sequence[int] | None = None,
        n_best: int | None = None,
        threads: int | None = None,
    ) -> list[list[Hypothesis]]:
        """`decode` of each utterance, in threads (by default one for each processor).

        ``emissions`` are a sequence of (frames, tokens), or (utterances, frames, tokens) with the
        ``lengths`` of the utterances in frames.
        """
        utterances = list(emissions)
        if lengths is not None:
            utterances = _cut(utterances, lengths)
        if threads is not None and (threads < 1 or threads != int(threads)):
            raise TextError(f"[text] decode_batch: threads is {threads}: give 1 or more")
        workers = min(threads or os.cpu_count() or 1, len(utterances))
        if workers < 2:
            return [self.decode(frames, n_best) for frames in utterances]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(lambda frames: self.decode(frames, n_best), utterances))

    def begin(self) -> Stream:
        """An utterance whose frames come in pieces: see `Stream`."""
        return Stream(self)

    @property
    def _stops_each_frame(self) -> bool:
        return self._model.stops_each_frame

    def _run(self, tables: Tables, emissions: np.ndarray, start: int, stop: int) -> int:
        """Lets the kernel decode frames; the frame that comes next."""
        raise NotImplementedError

    def _borrow(self) -> Tables:
        try:
            return self._free.pop()
        except IndexError:
            return Tables(self._model.source(), self.tokens)

    def _give_back(self, tables: Tables) -> None:
        self._free.append(tables)

    def _number(self, tokens: Dictionary, token: str | int, role: str) -> int:
        if isinstance(token, str):
            if token not in tokens:
                raise TextError(
                    f"[text] the dictionary has no {token!r}: give {role}= the token, or its"
                    f" number, that stands for {role}"
                )
            return tokens.get_index(token)
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < self.tokens:
            raise TextError(
                f"[text] {role} is {token!r}: give a token, or a number from 0 to {self.tokens - 1}"
            )
        return token

    def _make_settings(
        self,
        *,
        unknown: int = -1,
        token_lm: bool = False,
        compat: bool = False,
        ceiling: float = 0.0,
        bonus: float = 0.0,
    ) -> Settings:
        """``ceiling`` is the largest score of the language model, ``bonus`` that of a word."""
        o = self.options
        headroom = math.inf
        if o.lm_weight >= 0 and ceiling < math.inf:
            headroom = o.lm_weight * max(0.0, ceiling) + max(0.0, bonus, o.unk_score)
        return Settings(
            o.beam_size,
            o.beam_size_token,
            float(o.beam_threshold),
            float(o.lm_weight),
            float(o.unk_score),
            float(o.sil_score),
            o.log_add,
            o.criterion == "asg",
            self._silence,
            self._blank,
            unknown,
            token_lm,
            compat,
            headroom,
            float(self._transitions.max()),
        )


def _transitions(transitions: object, tokens: int, asg: bool) -> np.ndarray:
    if not asg:
        if transitions is not None:
            raise TextError("[text] transitions belong to criterion='asg': leave them out for CTC")
        return np.zeros(1, np.float32)
    if transitions is None:
        return np.zeros(tokens * tokens, np.float32)
    found = np.array(transitions, np.float32)
    if found.shape != (tokens, tokens):
        raise TextError(
            f"[text] transitions have shape {found.shape}: give ({tokens}, {tokens}), the score of"
            " the new token (first) after the old one"
        )
    if not np.isfinite(found).all():
        raise TextError("[text] transitions have values that are not finite")
    return found.reshape(-1)


def _cut(utterances: list[object], lengths: Sequence[int]) -> list[object]:
    counts = [int(n) for n in lengths]
    if len(counts) != len(utterances):
        raise TextError(
            f"[text] decode_batch: {len(utterances)} utterances, but {len(counts)} lengths"
        )
    cut = []
    for k, (frames, count) in enumerate(zip(utterances, counts, strict=True)):
        if not 0 <= count <= len(frames):  # type: ignore[arg-type]
            raise TextError(
                f"[text] decode_batch: length {k} is {count}, but the utterance has"
                f" {len(frames)} frames"  # type: ignore[arg-type]
            )
        cut.append(frames[:count])  # type: ignore[index]
    return cut
