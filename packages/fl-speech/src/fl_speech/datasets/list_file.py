"""List files: a line `id path duration_ms word word ...` for each recording."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal, overload

from fl_speech.datasets.utterance import Utterance
from fl_speech.errors import SpeechDataError
from fl_tensor.annotations import Checked, checked
from fl_text import TextFiles
from fl_text.extend import is_word, split_words, write_text

Transcripts = Literal["required", "optional"]
OnError = Literal["raise", "skip"]


class ListFile(Checked, Sequence[Utterance]):
    """The recordings of list files, one file after another: a sequence of `Utterance`.

    A line is `id path duration_ms word word ...`; white space separates, blank lines are skipped.
    Relative paths begin at `root`, or else at the folder of the list file. Recordings without words
    are an error unless `transcripts="optional"`. `on_error="skip"` leaves lines out that are wrong;
    `skipped` has their errors.

    Raises `SpeechDataError` naming file, line, sample and remedy for a line with too few fields, a
    duration that is no finite number of at least 0, and an id that another line has. Raises
    `fl_text.TextFileError` for a file that is missing or no UTF-8.
    """

    def __init__(
        self,
        *paths: str | os.PathLike[str],
        root: str | os.PathLike[str] | None = None,
        transcripts: Transcripts = "required",
        on_error: OnError = "raise",
    ) -> None:
        self.paths = [os.fspath(path) for path in paths]
        self.skipped: list[SpeechDataError] = []
        self._utterances: list[Utterance] = []
        lines_of: dict[str, tuple[str, int]] = {}
        TextFiles(*paths)  # the errors of paths
        for path in self.paths:
            folder = os.path.dirname(path) if root is None else os.fspath(root)
            for number, line in enumerate(TextFiles(path), 1):
                if not (fields := split_words(line)):
                    continue
                try:
                    found = _utterance(path, number, fields, folder, transcripts == "required")
                    if found.id in lines_of:
                        file, other = lines_of[found.id]
                        raise found.error(
                            f"line {other} of {file} has this id already", "give every line its own"
                        )
                except SpeechDataError as error:
                    if on_error == "raise":
                        raise
                    self.skipped.append(error)
                    continue
                lines_of[found.id] = (path, number)
                self._utterances.append(found)

    def __len__(self) -> int:
        return len(self._utterances)

    @overload
    def __getitem__(self, index: int) -> Utterance: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Utterance]: ...

    def __getitem__(self, index: Any) -> Any:
        return self._utterances[index]

    def __repr__(self) -> str:
        return f"ListFile({', '.join(map(repr, self.paths))}, {len(self)} recordings)"


@checked
def write_list_file(path: str | os.PathLike[str], utterances: Iterable[Utterance]) -> None:
    """Write a list file with the ids, paths, durations and words of `utterances`, replacing one of
    that name once it is complete. Paths are written absolute.

    Raises `SpeechDataError` for ids, paths and words with white space, which separates fields, and
    for an id that comes twice; `fl_text.TextFileError` for a file that cannot be written.
    """
    lines: list[str] = []
    seen: set[str] = set()
    for one in utterances:
        if not isinstance(one, Utterance):
            raise SpeechDataError(f"{one!r} is no Utterance", "give a sequence of utterances")
        where = os.path.abspath(one.path)
        for name, text in (
            ("id", one.id),
            ("path", where),
            *(("word", w) for w in one.words or ()),
        ):
            if not is_word(text):
                raise one.error(
                    f"the {name} {text!r} is empty or has white space, which separates fields",
                    "rename it",
                )
        if one.id in seen:
            raise one.error("another utterance has this id already", "give every one its own")
        seen.add(one.id)
        lines.append(
            " ".join((one.id, where, f"{one.duration_ms:.10g}", *(one.words or ()))) + "\n"
        )
    write_text(path, "".join(lines))


@checked
def named_lists(text: str) -> dict[str, str]:
    """The list files of `"clean:dev.lst,other:x.lst"` by name; a path without a name has its own
    file name, without suffix. Raises `SpeechDataError` for an empty path and a name given twice."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, colon, path = part.strip().partition(":")
        if not colon:
            name, path = os.path.splitext(os.path.basename(name))[0], name
        if not name or not path or name in found:
            problem = (
                f"{part!r} has a name that was given already"
                if name in found
                else (f"{part!r} is no name:path")
            )
            raise SpeechDataError(problem, "write name:path,name:path")
        found[name] = path
    return found


def _utterance(path: str, line: int, fields: list[str], folder: str, needed: bool) -> Utterance:
    def error(problem: str, remedy: str) -> SpeechDataError:
        return SpeechDataError(problem, remedy, path=path, line=line, id=fields[0])

    if len(fields) < 3:
        raise error(f"{len(fields)} of at least 3 fields", "write: id path duration_ms word ...")
    id, sound, duration, *words = fields
    try:
        milliseconds = float(duration)
    except ValueError:
        milliseconds = math.nan
    if not 0 <= milliseconds < math.inf:
        raise error(
            f"the duration {duration!r} is no number of milliseconds", "write one of at least 0"
        )
    if needed and not words:
        raise error("it has no words", "write them, or read with transcripts='optional'")
    where = os.path.join(folder, sound)
    return Utterance(id, where, milliseconds, tuple(words) or None, source=path, line=line)
