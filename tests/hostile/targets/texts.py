"""Dictionaries, counts and parts of text files."""

from __future__ import annotations

import fl_text as text
from bad_values import KINDS, Bad, value
from cases import Target
from targets.making import At, target


def letters() -> text.Dictionary:
    return text.Dictionary(["a", "<1>"])


WORDS = At("words.txt", b"a b\nc\n")
TARGETS: list[Target] = [
    target(
        "text.Dictionary",
        {"0": WORDS},
        _0=[
            *[value(3.5), value(None), value("\0"), value("missing"), value(["a", "a"])],
            Bad("a token twice", At("words.txt", b"a\nb a\n").make),
            Bad("no UTF-8", At("words.txt", b"a\n\xff\xfe\x00\n").make),
        ],
    ),
    target(
        "text.load_words",
        {"0": At("words.txt", b"hello h e l l o\n")},
        _0=[
            *KINDS["input_path"],
            Bad("no spelling", At("words.txt", b"a b\na\n").make),
            Bad("a spelling twice", At("words.txt", b"a b\na b\n").make),
        ],
    ),
    target("text.Lexicon", {"0": {"a": [["b"]]}}, _0=[value({"a": ["b"]}), value({"a": [[]]})]),
    target("text.create_word_dict", {"0": {"<unk>": []}}, _0=[value({}), value({"a": []})]),
    target("text.split_word", {"0": "word"}, _0=[value(b"\xff"), value("\ud800")]),
    *(
        target(f"text.{name}", {"0": [0, 0, 1], "1": letters, "2": 1}, _2=[value(2), value(10**9)])
        for name in ("pack_replabels", "unpack_replabels")
    ),
    target("text.tkn2idx", {"0": ["a", "a"], "1": letters, "2": 1}, _0=[value(["x"]), value("x")]),
    target("text.WordEncoder", {"0": letters}, _0=[value(None), value(["a"])]),
    target(
        "text.SpellingEncoder",
        {"0": lambda: text.Lexicon({"a": [["a"]]}), "1": letters, "max_reps": 1},
        _0=[value({"a": ["a"]}), Bad("no such token", lambda _: text.Lexicon({"b": [["b"]]}))],
        max_reps=[value(2), value("1")],
    ),
    target(
        "text.TokenCounts",
        {"0": WORDS},
        _0="input_path",
        workers="positive",
        call=text.TokenCounts.from_files,
    ),
    target(
        "text.PartialFile",
        {"0": WORDS, "1": 0, "2": 1},
        _0="input_path",
        _2="positive",
        call=lambda *arguments: list(text.PartialFile(*arguments)),
    ),
]
UNTRIED: dict[str, str] = {"text.TextEncoder": "a protocol"}
