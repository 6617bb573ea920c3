"""``Utterance``: one recording with what is said in it."""

from __future__ import annotations

from dataclasses import dataclass

from fl_speech.errors import SpeechDataError


@dataclass(frozen=True)
class Utterance:
    """A recording: its name, its file, its duration in milliseconds, and its words; None where
    nobody wrote them down. `speaker` is "" where it is not known. `source` and `line` say in which
    list file it stands, for errors."""

    id: str
    path: str
    duration_ms: float
    words: tuple[str, ...] | None = None
    speaker: str = ""
    source: str = ""
    line: int = 0

    @property
    def text(self) -> str:
        """The words with spaces between them; "" without words."""
        return " ".join(self.words or ())

    def error(self, problem: str, remedy: str) -> SpeechDataError:
        """An error that names the list file, the line and the sample."""
        return SpeechDataError(problem, remedy, path=self.source, line=self.line, id=self.id)
