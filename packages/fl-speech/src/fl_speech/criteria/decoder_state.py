"""The state of a decoder between two output steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import fl_tensor as ft
from fl_nn import ModuleError
from fl_speech.criteria.attention import Memory
from fl_speech.criteria.batch import Whole, whole


@dataclass(frozen=True)
class DecoderState:
    """What a step of a decoder leaves to the next one. Steps make new states: one state may go on
    in several ways.

    It has a row for each hypothesis: `select(rows)` picks rows, `join` puts states of hypotheses
    one below the other, `split` gives the state of each. The decoders of fl-text take it as it is.
    """

    #: Keys and values of the encoder's output for each attention: rows of the batch, or one row
    #: that all hypotheses share.
    memory: tuple[Memory, ...]
    #: (B or 1, T): which frames count; None for all.
    mask: ft.Array | None
    #: (B or 1,): how many frames count, floating.
    lengths: ft.Array
    #: Of a recurrent decoder the state of each round (B, layers, hidden), of a Transformer the
    #: keys and values of each layer (B, heads, steps, size); empty in the beginning.
    hidden: tuple[ft.Array, ...] = ()
    #: (B, heads, T): the weights of the last attention in the last step.
    weights: ft.Array | None = None
    #: (B, 1, hidden): its summary.
    summary: ft.Array | None = None
    #: How many outputs there are.
    step: int = 0

    @property
    def frames(self) -> int:
        """Of the encoder's output, with padding."""
        return self.memory[0].values.shape[2]

    @property
    def rows(self) -> int:
        """How many hypotheses there are."""
        return int((self.lengths if self.weights is None else self.weights).shape[0])

    def select(self, rows: Whole) -> DecoderState:
        """These rows, in this order; one may come several times. Raises DTypeError for what are
        no integers, IndexingError for rows that there are not."""
        own, numbers = self.lengths, whole("DecoderState", "rows", rows)
        places = ft.asarray(numbers, ft.int64, own.device, own.backend)
        found = self._of_rows(lambda x: ft.gather(x, places, 0))
        if self.lengths.shape[0] == 1:
            return found
        return replace(
            found,
            memory=tuple(Memory(*(ft.gather(x, places, 0) for x in part)) for part in self.memory),
            mask=None if self.mask is None else ft.gather(self.mask, places, 0),
            lengths=ft.gather(self.lengths, places, 0),
        )

    def after(
        self, hidden: Sequence[ft.Array], weights: ft.Array, summary: ft.Array
    ) -> DecoderState:
        """The state after one more step."""
        return replace(
            self, hidden=tuple(hidden), weights=weights, summary=summary, step=self.step + 1
        )

    def split(self) -> list[DecoderState]:
        """The state of each hypothesis."""
        return [self.select([row]) for row in range(self.rows)]

    @staticmethod
    def join(states: Sequence[DecoderState]) -> DecoderState:
        """The rows of states that follow from one beginning and have as many outputs, one below
        the other. Raises ModuleError for others."""
        if not states:
            raise ModuleError("[DecoderState] join of no states: give at least one")
        first = states[0]
        if any(s.step != first.step or s.lengths is not first.lengths for s in states):
            raise ModuleError(
                "[DecoderState] join: the states are of several recordings, or have different "
                "numbers of outputs; join what follows from one start(), of one recording"
            )
        if first.lengths.shape[0] != 1:
            raise ModuleError(
                "[DecoderState] join: the encoder's output is a batch of "
                f"{first.lengths.shape[0]}; give start() one recording"
            )
        rest = [list(s._arrays()) for s in states]
        joined = iter([ft.concatenate(parts, 0) for parts in zip(*rest, strict=True)])
        return first._of_rows(lambda x: next(joined))

    def _arrays(self) -> list[ft.Array]:
        return [*self.hidden, *(x for x in (self.weights, self.summary) if x is not None)]

    def _of_rows(self, function: Callable[[ft.Array], ft.Array]) -> DecoderState:
        """The function of each array that has rows of hypotheses, in the order of `_arrays`."""
        return replace(
            self,
            hidden=tuple(function(x) for x in self.hidden),
            weights=None if self.weights is None else function(self.weights),
            summary=None if self.summary is None else function(self.summary),
        )
