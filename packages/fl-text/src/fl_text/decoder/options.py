"""Options of beam search, with the names and defaults of the original's programs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fl_tensor.annotations import Checked
from fl_text.errors import TextError

CRITERIA = ("ctc", "asg")


@dataclass(frozen=True)
class DecoderOptions(Checked):
    """Settings of the beam-search decoders.

    Scores of hypotheses are natural logarithms (or whatever the emissions are). Scores of language
    models are base-10 logarithms, as in ARPA files, for every kind of model; ``lm_weight`` scales
    them.

    Raises
    ------
    TextError
        A size below 1, a negative threshold, NaN, an unknown criterion.
    """

    #: Hypotheses kept after each frame.
    beam_size: int = 2500
    #: Tokens tried in each frame: those with the highest emissions.
    beam_size_token: int = 250000
    #: Hypotheses whose score is lower than the best one's by more than this are dropped.
    beam_threshold: float = 25.0
    #: Weight of the language model's score.
    lm_weight: float = 0.0
    #: Added for each word that is completed.
    word_score: float = 0.0
    #: Added for each unknown word; with ``-inf`` there are none.
    unk_score: float = -math.inf
    #: Added for each frame of silence.
    sil_score: float = 0.0
    #: Added for the end of the sequence, by sequence-to-sequence decoders.
    eos_score: float = 0.0
    #: Whether hypotheses that meet add their probabilities; the larger one stays otherwise.
    log_add: bool = False
    #: How tokens align with frames: ``"ctc"`` or ``"asg"``.
    criterion: str = "ctc"

    def __post_init__(self) -> None:
        for name in ("beam_size", "beam_size_token"):
            value = getattr(self, name)
            if not 1 <= value < 2**31:
                raise TextError(
                    f"[text] DecoderOptions: {name} is {value!r}: give an int from 1 to 2**31 - 1"
                )
        for name in ("beam_threshold", "lm_weight", "word_score", "sil_score", "eos_score"):
            value = getattr(self, name)
            if not math.isfinite(value):
                raise TextError(f"[text] DecoderOptions: {name} is {value!r}: give a finite number")
        if not self.unk_score < math.inf:
            raise TextError(
                f"[text] DecoderOptions: unk_score is {self.unk_score!r}: give a number, or -inf"
            )
        if self.beam_threshold < 0:
            raise TextError(
                f"[text] DecoderOptions: beam_threshold is {self.beam_threshold}: it is a distance"
                " from the best score, at least 0"
            )
        if self.criterion not in CRITERIA:
            raise TextError(
                f"[text] DecoderOptions: criterion is {self.criterion!r}: use one of {CRITERIA}"
            )
