"""``LabelledTexts``: short texts with classes, read from a folder or a file of two columns."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fl_data import mix
from fl_tensor.annotations import checked
from fl_text.corpus import read_lines
from fl_text.errors import TextError, TextFileError

#: The longest text in characters: a longer line is no name, title or sentence.
MAX_CHARACTERS = 4096
#: The longest name of a class, and the most classes.
_MAX_NAME, _MAX_CLASSES = 200, 10_000


@dataclass(frozen=True)
class LabelledTexts:
    """Short texts with a class each.

    texts    not blank
    labels   the number of the class of each
    classes  the names of the classes

    Raises `TextError` where they do not fit one another.
    """

    texts: Sequence[str]
    labels: Sequence[int]
    classes: Sequence[str]

    def __post_init__(self) -> None:
        for name, kind in (("texts", str), ("labels", int), ("classes", str)):
            values = getattr(self, name)
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise TextError(f"[LabelledTexts] {name} is a {type(values).__name__}: give a list")
            wrong = next((x for x in values if not isinstance(x, kind) or x is True), None)
            if wrong is not None:
                raise TextError(f"[LabelledTexts] {name} has {wrong!r}: give {kind.__name__} alone")
        if len(self.texts) != len(self.labels):
            raise TextError(
                f"[LabelledTexts] {len(self.texts)} texts and {len(self.labels)} labels: give one "
                "for each"
            )
        if not all(0 <= label < len(self.classes) for label in self.labels):
            raise TextError(
                f"[LabelledTexts] labels are numbers below {len(self.classes)}, of the classes"
            )
        blank = next((i for i, text in enumerate(self.texts) if not text.strip()), None)
        if blank is not None:
            raise TextError(f"[LabelledTexts] text {blank} is blank: leave it out")

    def __len__(self) -> int:
        return len(self.texts)

    def counts(self) -> list[int]:
        """How many texts each class has."""
        found = [0] * len(self.classes)
        for label in self.labels:
            found[label] += 1
        return found

    @checked
    def split(self, share: float, seed: int = 0) -> tuple[LabelledTexts, LabelledTexts]:
        """All but a share of the texts of every class, and that share, rounded down. Which texts
        it has depends on the seed alone."""
        if not 0 <= share < 1:
            raise TextError(f"[LabelledTexts.split] share {share}: give at least 0, and below 1")
        held: set[int] = set()
        for number in range(len(self.classes)):
            places = [i for i, label in enumerate(self.labels) if label == number]
            random.Random(mix(seed, number)).shuffle(places)
            held.update(places[: int(share * len(places))])
        return self._only([i for i in range(len(self)) if i not in held]), self._only(sorted(held))

    def _only(self, places: list[int]) -> LabelledTexts:
        texts = [self.texts[i] for i in places]
        return LabelledTexts(texts, [self.labels[i] for i in places], self.classes)


@checked
def read_labelled_texts(
    path: str | os.PathLike[str], classes: Sequence[str] | None = None
) -> LabelledTexts:
    """The texts of a folder with a file `CLASS.txt` for each class, a text a line, or of one file
    with lines `text<TAB>class`. Blank lines are left out.

    classes  the names and numbers of the classes; those found, sorted, unless given

    Raises `TextFileError`, which names file and line, for lines without a class, texts of more than
    4,096 characters, classes other than `classes`, and files that `TextFiles` refuses.
    """
    path = Path(path)
    if path.is_dir():
        found = list(_of_folder(path))
    elif path.is_file():
        found = list(_of_file(path))
    else:
        raise TextFileError(path, "no such file or folder", "check the path")
    if not found:
        raise TextFileError(path, "it has no text", "give a text and its class in each line")
    known = {label for _, label, _ in found}
    names = sorted(known) if classes is None else list(classes)
    numbers = {name: number for number, name in enumerate(names)}
    for where, label, _ in found:
        if label not in numbers:
            raise TextFileError(
                path,
                f"{where} is of class {label!r}, and the model has {_listed(names)}",
                "leave it out, or train with it",
            )
    if len(names) < 2:
        raise TextFileError(path, f"it has one class, {names[0]!r}", "give at least two")
    if len(names) > _MAX_CLASSES:
        raise TextFileError(
            path, f"it has {len(names)} classes", f"{_MAX_CLASSES} are the most; check the columns"
        )
    return LabelledTexts(
        [text for _, _, text in found], [numbers[label] for _, label, _ in found], names
    )


def _of_folder(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Where each text is, its class, and the text."""
    files = sorted(each for each in folder.iterdir() if each.suffix == ".txt")
    if not files:
        raise TextFileError(folder, "it has no .txt file", "give one for each class: Greek.txt")
    for file in files:
        _check_class(file, 0, file.stem)
        empty = True
        for number, line in enumerate(read_lines(os.fspath(file)), 1):
            if text := line.strip():
                empty = False
                _check_text(file, number, text)
                yield f"{file.name}, line {number},", file.stem, text
        if empty:
            raise TextFileError(file, "it has no text", "remove it, or add texts of the class")


def _of_file(file: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(read_lines(os.fspath(file)), 1):
        if not line.strip():
            continue
        text, tab, label = (part.strip() for part in line.rpartition("\t"))
        if not line.count("\t") or not text or not label:
            raise TextFileError(
                file,
                f"line {number} is {line.strip()[:40]!r}",
                "write a text, a tab and its class",
            )
        _check_text(file, number, text)
        _check_class(file, number, label)
        yield f"line {number}", label, text


def _check_text(file: Path, number: int, text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise TextFileError(
            file,
            f"the text in line {number} has {len(text)} characters, {MAX_CHARACTERS} are the most",
            "give short texts, or cut it",
        )


def _check_class(file: Path, number: int, name: str) -> None:
    if len(name) > _MAX_NAME:
        where = f"line {number}" if number else "the name of the file"
        raise TextFileError(
            file, f"{where} has a class of {len(name)} characters", f"{_MAX_NAME} are the most"
        )


def _listed(names: list[str]) -> str:
    more = "" if len(names) <= 5 else f" and {len(names) - 5} more"
    return ", ".join(map(repr, names[:5])) + more
