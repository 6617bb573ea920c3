"""The text of tokens that come one by one."""

from __future__ import annotations

from collections.abc import Sequence

from fl_text.generation.prompts import TextTokenizer

#: What decoders write for bytes that are no character, or not yet a whole one.
_UNFINISHED = "\ufffd"


class TextPieces:
    """Decodes tokens one after another, and looks for stop strings.

    Texts are decoded with the tokens of the last piece before them, as the text of a token depends
    on whether it is the first one. A text that ends in an unfinished character waits for the next
    token, and so does one that ends with the beginning of a stop string. The pieces together are
    the text of all tokens, up to a stop string.
    """

    def __init__(self, tokenizer: TextTokenizer, before: Sequence[int], stops: list[str]) -> None:
        self._tokenizer, self._stops = tokenizer, stops
        self._known: list[int] = list(before[-1:])
        if _UNFINISHED in self._decoded(self._known):
            self._known = []
        self._new: list[int] = []
        self._held = ""
        self.stopped = False

    def add(self, token: int) -> str:
        """The text that is certain with this token."""
        self._new.append(token)
        text = self._decoded([*self._known, *self._new])
        if text.endswith(_UNFINISHED):
            return ""
        return self._released(text)

    def end(self) -> str:
        """The rest, after the last token."""
        if self.stopped:
            return ""
        rest = self._decoded([*self._known, *self._new]) if self._new else ""
        certain = self._released(rest) if self._new else ""
        held, self._held = self._held, ""
        return certain if self.stopped else certain + held

    def _released(self, text: str) -> str:
        self._held += text[len(self._decoded(self._known)) :]
        self._known, self._new = self._new, []
        places = [place for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if places:
            found, self._held, self.stopped = self._held[: min(places)], "", True
            return found
        kept = max((_overlap(self._held, stop) for stop in self._stops), default=0)
        cut = len(self._held) - kept
        found, self._held = self._held[:cut], self._held[cut:]
        return found

    def _decoded(self, tokens: Sequence[int]) -> str:
        return self._tokenizer.decode(tokens)


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of `text` are the beginning of `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
