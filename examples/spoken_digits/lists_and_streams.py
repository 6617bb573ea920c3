"""Connected digits heard in chunks, and n-best lists in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tasks import Figure, error_rate

import fl_tensor as ft
from fl_speech import load_audio
from fl_speech.datasets import Utterance
from fl_speech.inference import Decoder, Emissions, Scored, SpeechStream, rescore
from fl_speech.recogniser import Recogniser
from fl_text.decoder import DecoderOptions

#: Strings that are heard in chunks, and the most samples of a chunk (0.4 s).
STRINGS, CHUNK = 100, 3200
#: Hypotheses of a list.
BEST = 10


def streamed(
    recogniser: Recogniser, test: Sequence[Utterance], found: Sequence[Emissions], lm: Any,
    weight: float,
) -> list[Figure]:  # fmt: skip
    """How many of the first strings have the same words in random chunks as at once."""
    decoder = Decoder(
        recogniser, recogniser.lexicon, lm, DecoderOptions(beam_size=100, lm_weight=weight)
    )
    rng = np.random.default_rng(0)
    count = min(STRINGS, len(test))
    whole = decoder([each.scores for each in found[:count]])
    same = 0
    for one, best in zip(test, whole, strict=False):
        samples = ft.mean(
            load_audio(one.path, sample_rate=recogniser.recipe.sample_rate)[0], axis=0
        )
        stream, begin = SpeechStream(recogniser, decoder), 0
        while begin < len(samples):
            end = begin + int(rng.integers(1, CHUNK + 1))
            stream.push(samples[begin:end])
            begin = end
        heard = stream.finish()
        words = "" if heard is None else heard.text
        same += words == (best[0].text if best else "")
    name = f"strings of {count} that random chunks leave as they are"
    return [Figure(name, 100 * same / max(1, count), "%", 100.0, True)]


def rescored(recogniser: Recogniser, dev: Sequence[Emissions], lm: Any) -> list[Figure]:
    """Lists of the search without language model: weight 0 keeps their order, and a language model
    does not raise the error rate on the development strings."""
    decoder = Decoder(recogniser, recogniser.lexicon, None, DecoderOptions(beam_size=100))
    lists = [
        [Scored(decoder.words(h), h.score, h.emitting_score, h.lm_score) for h in hypotheses]
        for hypotheses in decoder([each.scores for each in dev], n_best=BEST)
    ]
    moved = sum(
        [each.words for each in rescore(one, lm, 0.0)] != [each.words for each in one]
        for one in lists
    )
    before, after = (
        error_rate(
            (each.utterance, one[0].words if one else ())
            for each, one in zip(dev, chosen, strict=True)
        )
        for chosen in (lists, [rescore(one, lm, 1.0) for one in lists])
    )
    return [
        Figure("n-best lists in another order after weight 0", moved, "", 0.0),
        Figure("WER on dev before rescoring", before),
        Figure("WER on dev, rescored by the LM", after, bar=before),
    ]
