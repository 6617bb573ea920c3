"""Voice activity by the blanks of CTC."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fl_speech.errors import RecipeError
from fl_speech.inference.emissions import Emissions
from fl_speech.recogniser import Recogniser


class Activity(NamedTuple):
    """Voice activity of one recording by CTC: the probability of the blank in each frame, the share
    of frames with speech, and the most likely token of each frame."""

    blank: np.ndarray
    share: float
    tokens: list[str]


def speech_by_blank(
    recogniser: Recogniser, emissions: Emissions, threshold: float = 0.99
) -> Activity:
    """Frames whose blank or separator has a probability below `threshold` have speech. Raises
    `RecipeError` for recognisers of other criteria than CTC."""
    if recogniser.criterion.decoding != "ctc":
        raise RecipeError(
            f"voice activity looks at the blanks of CTC, and the criterion is "
            f"{recogniser.recipe.criterion}: use a recogniser of criterion ctc"
        )
    tokens = recogniser.dictionary
    probability = np.exp(emissions.scores.astype(np.float64))
    blank = probability[:, -1]
    separator = recogniser.recipe.separator
    if separator and separator in tokens:
        blank = blank + probability[:, tokens.get_index(separator)]
    blank = np.minimum(blank, 1.0)
    best = tokens.map_indices_to_entries(emissions.scores.argmax(1).tolist())
    share = float((blank < threshold).mean()) if len(blank) else 0.0
    return Activity(blank, share, best)
