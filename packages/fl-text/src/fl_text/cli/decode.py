"""``fl-text decode``: emissions of an acoustic model to words."""

from __future__ import annotations

import argparse
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from fl_memory.subcommands import at_least
from fl_text.decoder import DecoderOptions, Hypothesis, LexiconDecoder, LexiconFreeDecoder
from fl_text.dictionary import Dictionary
from fl_text.errors import TextFileError
from fl_text.lexicon import load_words
from fl_text.ngram import NGramModel


def main(arguments: list[str]) -> int:
    """Print a line for each utterance, or one for each of its hypotheses."""
    parser = _parser()
    given = parser.parse_args(arguments)
    decoder = _decoder(parser, given)
    utterances = [_array(path) for path in given.files]
    for path, utterance in zip(given.files, utterances, strict=True):
        if utterance.ndim != 2:
            raise TextFileError(
                path, f"an array of shape {utterance.shape}", "give (frames, tokens) in each file"
            )
    found = decoder.decode_batch(utterances, n_best=given.n_best, threads=given.threads)
    for path, hypotheses in zip(given.files, found, strict=True):
        for rank, hypothesis in enumerate(hypotheses, 1):
            if given.json:
                print(json.dumps(_described(path, rank, hypothesis)))
            elif given.n_best > 1:
                print(f"{path}\t{rank}\t{hypothesis.score:.4f}\t{hypothesis.text}")
            else:
                print(hypothesis.text)
        if not hypotheses:
            print(json.dumps({"file": str(path)}) if given.json else "")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fl-text decode",
        description="Decode emissions by beam search: of the words of a lexicon, or without one "
        "of any tokens. Scores of the language model are base-10 logarithms.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("files", type=Path, nargs="+", metavar="FILE", help=".npy with scores (frames, tokens)")
    add("--tokens", type=Path, required=True, metavar="FILE", help="a token a line, in order")
    add("--lexicon", type=Path, metavar="FILE", help="lines 'word token token ...'")
    add("--lm", type=Path, metavar="FILE", help=".arpa, or what fl-text ngram convert writes")
    add("--silence", default="|", metavar="TOKEN", help="between words (%(default)s)")
    add("--blank", default="#", metavar="TOKEN", help="of CTC (%(default)s)")
    add("--transitions", type=Path, metavar="FILE", help=".npy of ASG, (tokens, tokens)")
    add("--replabels", type=at_least(0), default=0, metavar="N", help="labels <1> .. <N>")
    add("--hot-word", type=_boost, action="append", default=[], metavar="WORD=BOOST")
    add("--n-best", type=at_least(1), default=1, metavar="N", help="hypotheses (%(default)s)")
    add("--json", action="store_true", help="with times in frames, scores and confidences")
    add("--threads", type=at_least(1), metavar="N", help="default: one for each processor")
    options = parser.add_argument_group("beam search").add_argument
    for field in fields(DecoderOptions):
        name = "--" + field.name.replace("_", "-")
        if field.name == "criterion":
            options(name, default="ctc", choices=("ctc", "asg"))
        elif isinstance(field.default, bool):
            options(name, action="store_true", help="hypotheses that meet add up")
        elif field.name != "eos_score":
            kind = type(field.default)
            options(name, type=kind, default=field.default, metavar="X", help="%(default)s")
    return parser


def _decoder(
    parser: argparse.ArgumentParser, given: argparse.Namespace
) -> LexiconDecoder | LexiconFreeDecoder:
    names = [field.name for field in fields(DecoderOptions) if field.name != "eos_score"]
    options = DecoderOptions(**{name: getattr(given, name) for name in names})
    tokens = Dictionary(given.tokens)
    more: dict[str, Any] = {"silence": given.silence, "blank": given.blank}
    if given.transitions is not None:
        more["transitions"] = _array(given.transitions)
    lm = None
    if given.lm is not None:
        arpa = given.lm.suffix == ".arpa"
        lm = NGramModel.from_arpa(given.lm) if arpa else NGramModel.load(given.lm)
    if given.lexicon is None:
        if given.hot_word:
            parser.error("--hot-word needs --lexicon, whose words it names")
        return LexiconFreeDecoder(tokens, lm, options, **more)
    more |= {"hot_words": dict(given.hot_word), "max_reps": given.replabels}
    return LexiconDecoder(load_words(given.lexicon), tokens, lm, options, **more)


def _array(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise TextFileError(path, f"no .npy file ({error})", "write it by numpy.save") from error


def _boost(text: str) -> tuple[str, float]:
    word, equals, boost = text.rpartition("=")
    if not word or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not WORD=BOOST")
    return word, float(boost)


def _described(path: Path, rank: int, hypothesis: Hypothesis) -> dict[str, Any]:
    return {
        "file": str(path),
        "rank": rank,
        "text": hypothesis.text,
        "score": hypothesis.score,
        "emitting_score": hypothesis.emitting_score,
        "lm_score": hypothesis.lm_score,
        "confidence": hypothesis.confidence,
        "words": [
            {"word": s.text, "start": s.start, "end": s.end, "confidence": s.confidence}
            for s in hypothesis.spans
        ],
    }
