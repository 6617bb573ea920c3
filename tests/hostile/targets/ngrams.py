"""n-gram models: ARPA and binary files, estimation, pruning."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from bad_values import KINDS, Bad, value
from cases import Target
from fl_text import ngram
from targets.making import At, target

ARPA = b"""\\data\\
ngram 1=4
ngram 2=1

\\1-grams:
-1\t<unk>
-99\t<s>\t-0.5
-0.5\t</s>
-0.5\ta\t-0.25

\\2-grams:
-0.25\t<s> a

\\end\\
"""
FILE = At("model.arpa", ARPA)


def model() -> ngram.NGramModel:
    with tempfile.TemporaryDirectory() as folder:
        return ngram.NGramModel.from_arpa(FILE.make(Path(folder)))


def grams() -> ngram.NGrams:
    return ngram.estimate(["a b", "b a"], 2, discount_fallback=(0.5, 1, 1.5))


def binary(folder: Path) -> Path:
    model().save(folder / "model.ngram")
    return folder / "model.ngram"


def changed(label: str, old: bytes, new: bytes) -> Bad:
    assert old in ARPA
    return Bad(label, At("model.arpa", ARPA.replace(old, new)).make)


FILES = [
    *KINDS["input_path"],
    Bad("cut off", At("model.arpa", ARPA[:-20]).make),
    changed("a huge count", b"2=1", b"2=99999999999999"),
    changed("sections in another order", b"\\2-grams", b"\\1-grams"),
    changed("a word that is no UTF-8", b"\ta\t", b"\t\xff\t"),
    changed("a word twice", b"\ta\t", b"\t</s>\t"),
    changed("NaN", b"-0.25\t<s> a", b"nan\t<s> a"),
    changed("a positive score", b"-0.25\t<s> a", b"0.5\t<s> a"),
]
LISTS = [value(None), value([1]), value(ngram.NGrams([], [])), value(ngram.NGrams(["a"], []))]
TARGETS: list[Target] = [
    target("ngram.read_arpa", {"0": FILE, "1": 10**6}, _0=FILES, _1="positive"),
    target("ngram.write_arpa", {"0": At("x.arpa"), "1": grams}, _0="output_path", _1=LISTS),
    target(
        "ngram.estimate",
        {"0": ["a b"], "1": 2, "prune": [0], "discount_fallback": [0.5, 1, 1.5]},
        _0=[*map(value, ([], "a b", [1], ["<s>"], [None]))],
        _1="positive",
        prune=[*map(value, ([1], [0, 2, 1], ["a"], [math.nan]))],
        discount_fallback=[*map(value, ([1], [1, 2, 9], ["a", "b", "c"], [math.nan] * 3))],
    ),
    target(
        "ngram.prune",
        {"0": grams, "1": 1e-8},
        _0=LISTS,
        _1=[*map(value, (-1.0, math.nan, math.inf, "a", None))],
    ),
    target("ngram.NGramModel", {"0": FILE}, _0=FILES, call=ngram.NGramModel.from_arpa),
    target(
        "ngram.NGramModel mapped",
        {"0": "a good one"},
        _0=[*KINDS["input_path"], Bad("cut off", lambda f: _cut(binary(f)))],
        call=lambda path: path == "a good one" or ngram.NGramModel.load(path),
    ),
    target(
        "ngram.NGramModel scores",
        {"0": lambda: [0, 1], "1": lambda: [0, 1]},
        _0=[*map(value, ([-1, 0], [9, 9], [0], [0.5, 1.0], "ab", None, [[0], [1]]))],
        _1=[*map(value, ([-1, 0], [9, 9], [0], [0.5, 1.0], "ab", None))],
        call=lambda states, words: model().score_words(states, words),
    ),
    target(
        "ngram.NGramModel perplexity",
        {"0": ["a"]},
        _0=[*map(value, ([], "a b", [1], None))],
        call=lambda sentences: model().perplexity(sentences),
    ),
]
UNTRIED: dict[str, str] = {
    "ngram.NGramTables": "a record",
    "ngram.NGrams": "a record",
    "ngram.Order": "a record",
    "ngram.Perplexity": "a record",
}


def _cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-1])
    return path
