"""Dictionaries, counts and parts of text files."""

from __future__ import annotations

import fl_text as text
from bad_values import Bad, value
from cases import Target
from targets.making import At, target

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
UNTRIED: dict[str, str] = {}
