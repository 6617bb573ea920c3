"""Words of dictionaries, lexicons and corpora: what stands between ASCII white space."""

from __future__ import annotations

import re

split_words = re.compile(r"[^ \t\n\v\f\r]+").findall
"""The words of a text. Space, tab, line feed, vertical tab, form feed and carriage return separate
them, as in C; other white space of Unicode is part of a word."""


def is_word(text: str) -> bool:
    """Whether a text is one word: not empty, and without white space."""
    found: list[str] = split_words(text)
    return found == [text]
