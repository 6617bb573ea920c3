"""Losses of language models on a corpus of 1.1 MB: `results.py char bert`.

Without names all experiments run, twins only where PyTorch is installed. Options: `--data FILE` of
the text, `--out FOLDER` for runs, and after `--` options of every `fl-text train`, such as
`-- --minutes 1`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fl_nn.quantization import quantize_weights
from fl_text import TextFiles
from fl_text.cli import main as fl_text
from fl_text.evaluation import evaluate_masked, evaluate_ngrams, evaluate_text
from fl_text.language_model_folder import LanguageModelFolder, load_language_model
from fl_text.ngram import NGramModel

NATS = "nats a character"


class Figure(NamedTuple):
    """A figure, its unit, and the largest value that counts as reached (least: the smallest)."""

    name: str
    value: float
    unit: str = ""
    bar: float | None = None
    least: bool = False

    @property
    def is_missed(self) -> bool:
        if self.bar is None:
            return False
        return not (self.value >= self.bar if self.least else self.value <= self.bar)

    def __str__(self) -> str:
        text = f"{self.name:44} {self.value:8.4f} {self.unit:16}"
        if self.bar is None:
            return text
        sign = ">=" if self.least else "<="
        return f"{text}  bar {sign} {self.bar:g}{'  MISSED' if self.is_missed else ''}"


class Place(NamedTuple):
    """The text, the folder of the runs, and options of every training."""

    data: Path
    out: Path
    settings: tuple[str, ...] = ()


def split(place: Place) -> tuple[Path, Path]:
    """The text but for its last tenth, and that, both whole lines."""
    found = place.out / "train.txt", place.out / "valid.txt"
    if not all(path.is_file() for path in found):
        lines = place.data.read_text(encoding="utf-8").splitlines(keepends=True)
        cut = len(lines) * 9 // 10
        for path, part in zip(found, (lines[:cut], lines[cut:]), strict=True):
            path.write_text("".join(part), encoding="utf-8")
    return found


def trained(place: Place, recipe: str, *options: str) -> LanguageModelFolder:
    """The model of a recipe. A training that was stopped goes on, a finished one is kept."""
    train, valid = split(place)
    run = place.out / recipe
    if not (run / "done").is_file():
        command = ["train", "--out", str(run)]
        if (run / "checkpoint.safetensors").is_file():
            command += ["--resume"]
        else:
            texts = ["--train", str(train), "--valid", str(valid)]
            command += ["--recipe", recipe, *texts, *options, *place.settings]
        if status := fl_text(command):
            raise SystemExit(status)
        (run / "done").touch()
    return load_language_model(run)


def char(place: Place) -> list[Figure]:
    """A transformer of characters, with weights of 8 bits, and n-grams of characters beside it."""
    model, valid = trained(place, "char-transformer"), TextFiles(split(place)[1])
    plain = evaluate_text(model, valid)
    wide = evaluate_text(model, valid, stride=max(1, (model.context or 2) // 2))
    quantize_weights(model.network)
    more = evaluate_text(model, valid).nats_per_character - plain.nats_per_character
    return [
        Figure("contexts one behind the other", plain.nats_per_character, NATS),
        Figure("more with weights of 8 bits", more, NATS, 0.02),
        Figure("at least half a context before each token", wide.nats_per_character, NATS, 1.65),
        *(Figure(f"{order}-grams", ngrams_of_characters(place, order), NATS) for order in (5, 7)),
    ]


def ngrams_of_characters(place: Place, order: int) -> float:
    """Nats a character of n-grams. A sentence is a passage without blank lines; its end stands for
    the blank line."""
    passages = [
        [" ".join(_NAMES.get(c, c) for c in each) for each in path.read_text("utf-8").split("\n\n")]
        for path in split(place)
    ]
    text = place.out / "characters.txt"
    text.write_text("".join(f"{line}\n" for line in passages[0] if line), encoding="utf-8")
    arpa = place.out / f"characters-{order}.arpa"
    command = ["ngram", "train", str(text), "--order", str(order), "-o", str(arpa)]
    if status := fl_text([*command, "--discount-fallback", "0.5", "1", "1.5"]):
        raise SystemExit(status)
    found = NGramModel.open(arpa).perplexity([line for line in passages[1] if line])
    return -found.log_prob * math.log(10) / len(split(place)[1].read_text("utf-8"))


#: White space as tokens of n-grams.
_NAMES = {" ": "<space>", "\n": "<newline>"}


def bpe(place: Place) -> list[Figure]:
    """A transformer of byte pairs, and the trigrams of words beside it."""
    train, valid = split(place)
    model = trained(place, "bpe-transformer")
    found = evaluate_text(model, TextFiles(valid), stride=max(1, (model.context or 2) // 2))
    arpa = place.out / "words.arpa"
    command = ["ngram", "train", str(train), "--order", "3", "-o", str(arpa)]
    if status := fl_text([*command, "--discount-fallback", "0.5", "1", "1.5"]):
        raise SystemExit(status)
    ngrams = evaluate_ngrams(NGramModel.open(arpa), TextFiles(valid))
    return [
        Figure("byte pairs", found.nats_per_character, NATS),
        Figure("trigrams of words, unknown words free", ngrams.nats_per_character, NATS),
    ]


def bert(place: Place) -> list[Figure]:
    """A masked model."""
    model = trained(place, "bert-small")
    found = evaluate_masked(model, TextFiles(split(place)[1]))
    points = 100 * (found.accuracy - found.commonest)
    return [
        Figure("accuracy, points above the commonest token", points, "%", 15.0, least=True),
        Figure("accuracy on hidden tokens", 100 * found.accuracy, "%"),
        Figure("accuracy of the commonest token", 100 * found.commonest, "%"),
    ]


#: At the recipe's rate of 20 a difference of 1e-7 in the weights becomes one of 5 % in the
#: perplexity, with PyTorch as well.
LSTM = ("ptb-lstm", "--lr", "10")


def lstm(place: Place) -> list[Figure]:
    """An LSTM of words with a state that is carried."""
    model = trained(place, *LSTM)
    found = evaluate_text(model, TextFiles(split(place)[1]))
    return [Figure("perplexity of a word", found.perplexity)]


def twin(place: Place) -> list[Figure]:
    """The transformer of characters in PyTorch: same data, order, sizes and updates."""
    own, other = _beside_torch(place, "char-transformer")
    return [
        Figure("PyTorch", other, NATS),
        Figure("fl-text, above PyTorch", own - other, NATS, 0.01),
    ]


def lstm_twin(place: Place) -> list[Figure]:
    """The LSTM in PyTorch."""
    own, other = map(math.exp, _beside_torch(place, *LSTM))
    return [
        Figure("perplexity of a word, PyTorch", other),
        Figure("perplexity of a word, fl-text", own),
        Figure("fl-text, over PyTorch", own / other, "", 1.02),
    ]


def _beside_torch(place: Place, recipe: str, *options: str) -> tuple[float, float]:
    """Validation losses of fl-text and of PyTorch, in nats a token."""
    from twin import train_twin

    train, valid = split(place)
    own = evaluate_text(trained(place, recipe, *options), TextFiles(valid))
    return math.log(own.perplexity), train_twin(place.out / recipe, train, valid)


EXPERIMENTS: dict[str, Any] = {
    "char": char,
    "bpe": bpe,
    "bert": bert,
    "lstm": lstm,
    "twin": twin,
    "lstm-twin": lstm_twin,
}
#: Those that need PyTorch.
TWINS = ("twin", "lstm-twin")


def measured(name: str, place: Place) -> list[Figure]:
    """The figures of an experiment, printed, and written as `{name}.json`."""
    start = time.perf_counter()
    found: list[Figure] = EXPERIMENTS[name](place)
    took = time.perf_counter() - start
    for each in found:
        print(f"{name:10} {each}", flush=True)
    values = {"seconds": took, "figures": [each._asdict() for each in found]}
    (place.out / f"{name}.json").write_text(json.dumps(values, indent=1) + "\n")
    return found


def main(arguments: Sequence[str]) -> int:
    """Run experiments; 1 where a bar was missed."""
    own = list(arguments)
    settings = own[own.index("--") + 1 :] if "--" in own else []
    own = own[: own.index("--")] if "--" in own else own
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    data = Path(os.environ.get("FL_TEST_DATA", "data")) / "text" / "tinyshakespeare.txt"
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help=f"of {', '.join(EXPERIMENTS)}")
    add("--data", type=Path, default=data, metavar="FILE")
    add("--out", type=Path, default=Path("runs") / "language-models", metavar="FOLDER")
    given = parser.parse_args(own)
    for name in given.names:
        if name not in EXPERIMENTS:
            parser.error(f"{name}: the experiments are {', '.join(EXPERIMENTS)}")
    given.out.mkdir(parents=True, exist_ok=True)
    place = Place(given.data, given.out, tuple(settings))
    names = given.names or [
        name for name in EXPERIMENTS if name not in TWINS or importlib.util.find_spec("torch")
    ]
    figures = [each for name in names for each in measured(name, place)]
    missed = [each for each in figures if each.is_missed]
    print(f"{len(missed)} of {sum(each.bar is not None for each in figures)} bars missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
