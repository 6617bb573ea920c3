"""What the experiments share: where things are, trainings, and error rates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fl_speech.cli import main as fl_speech
from fl_speech.datasets import Utterance
from fl_speech.inference import Decoder, Emissions, emissions_of, transcribe
from fl_speech.recogniser import Recogniser, load_recogniser
from fl_speech.reports import ErrorReport
from fl_text.decoder import DecoderOptions


class Figure(NamedTuple):
    """A figure, its unit, and the largest value that counts as reached (least: the smallest)."""

    name: str
    value: float
    unit: str = "%"
    bar: float | None = None
    least: bool = False

    @property
    def is_missed(self) -> bool:
        if self.bar is None:
            return False
        return not (self.value >= self.bar if self.least else self.value <= self.bar)

    def __str__(self) -> str:
        text = f"{self.name:44} {self.value:8.3f} {self.unit:2}"
        if self.bar is None:
            return text
        sign = ">=" if self.least else "<="
        return f"{text}  bar {sign} {self.bar:g}{'  MISSED' if self.is_missed else ''}"


class Place(NamedTuple):
    """The folder of the recordings, that of the runs, options of every training, the number of
    strings of connected digits, and of seeds."""

    data: Path
    out: Path
    settings: tuple[str, ...] = ()
    strings: int = 1500
    seeds: int = 3


def prepared(place: Place, *options: str) -> Path:
    """The folder with lists, tokens and lexicon of the single digits."""
    folder = place.out / "-".join(["lists", *(o.lstrip("-") for o in options)])
    if not (folder / "lexicon.txt").is_file():
        done(["prepare", "digits", str(place.data), "-o", str(folder), *options])
    return folder


def trained(
    place: Place, recipe: str, lists: Path, name: str, *options: str, last: Sequence[str] = ()
) -> Recogniser:
    """The recogniser of a recipe after its last epoch: no list chooses weights. A training that was
    stopped goes on, and one that is finished is read. Options of `last` go before all others."""
    out = place.out / name
    if (out / "finished").is_file():
        return load_recogniser(out)
    command = ["train", "--out", str(out), "--quiet"]
    if (out / "checkpoint.safetensors").is_file():
        done([*command, "--resume"])
    else:
        command += ["--recipe", recipe, "--train", str(lists / "train.lst")]
        for file in ("tokens", "lexicon"):
            command += [f"--{file}", str(lists / f"{file}.txt")]
        done([*command, "--data-dir", "/", *options, *place.settings, *last])
    (out / "finished").touch()
    return load_recogniser(out)


def done(command: Sequence[str]) -> None:
    """Run a command of fl-speech."""
    print("fl-speech", *command, flush=True)
    if fl_speech(list(command)):
        raise RuntimeError(f"fl-speech {' '.join(command)} failed")


def error_rate(pairs: Iterable[tuple[Utterance, Sequence[str]]]) -> float:
    """Word error rate of transcripts, in percent."""
    report = ErrorReport()
    for one, words in pairs:
        report.add(one.id, one.words or (), list(words))
    return report.wer


def greedy(recogniser: Recogniser, utterances: Sequence[Utterance]) -> float:
    """Word error rate of the best path, which knows no words."""
    return error_rate((each.utterance, each.words) for each in transcribe(recogniser, utterances))


def emissions(recogniser: Recogniser, utterances: Sequence[Utterance]) -> list[Emissions]:
    """What the encoder says of recordings."""
    return list(emissions_of(recogniser, utterances))


def searched(
    recogniser: Recogniser, found: Sequence[Emissions], lm: Any = None, **options: Any
) -> list[Any]:
    """The best hypothesis of each recording, of the words of the recogniser's lexicon; or None."""
    settings = DecoderOptions(**{"beam_size": 100, **options})
    decoder = Decoder(recogniser, recogniser.lexicon, lm, settings)
    lists = decoder([each.scores for each in found])
    return [each[0] if each else None for each in lists]


def lexicon_rate(
    recogniser: Recogniser, found: Sequence[Emissions], lm: Any = None, **options: Any
) -> float:
    """Word error rate by beam search with the lexicon."""
    best = searched(recogniser, found, lm, **options)
    pairs = zip(found, best, strict=True)
    return error_rate((e.utterance, h.text.split() if h is not None else ()) for e, h in pairs)
