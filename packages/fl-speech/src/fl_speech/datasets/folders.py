"""Readers of folders: LibriSpeech's layout, and `{label}_{speaker}_{index}.wav`."""

from __future__ import annotations

import os
from typing import Literal

from fl_speech.audio import audio_info
from fl_speech.datasets.utterance import Utterance
from fl_speech.errors import AudioError, SpeechDataError
from fl_speech.folder import SUFFIXES, AudioFolder
from fl_tensor.annotations import checked
from fl_text import TextFiles
from fl_text.extend import split_words

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
"""The words of the labels 0 .. 9."""

TEST_TAKES = 5
"""Of every speaker and digit, recordings with a smaller number are the test set."""

Split = Literal["train", "test", "all"]


@checked
def read_librispeech(root: str | os.PathLike[str], *, lower: bool = True) -> list[Utterance]:
    """The recordings below `root` with the words of the `*.trans.txt` files beside them.

    A line of such a file is `id WORD WORD ...`; the recording is `id` with a suffix of audio in the
    same folder. The speaker is what stands before the first `-` of the id. Sorted by id. `lower`:
    words in lower case.

    Raises `SpeechDataError` naming file, line and sample for a line without recording, a second
    line for an id, and a folder without such files; `AudioError` for a damaged recording.
    """
    if "\0" in os.fspath(root):
        raise SpeechDataError("it is no path", "leave the zero out", path=root)
    found: dict[str, Utterance] = {}
    for folder, folders, names in os.walk(root):
        folders.sort()
        sounds = {
            stem: name
            for name in sorted(names, reverse=True)
            for stem, suffix in [os.path.splitext(name)]
            if suffix.lower() in SUFFIXES
        }
        for name in sorted(names):
            if name.endswith(".trans.txt"):
                path = os.path.join(folder, name)
                for number, line in enumerate(TextFiles(path), 1):
                    if fields := split_words(line.lower() if lower else line):
                        id = split_words(line)[0]
                        one = _spoken(path, number, id, fields[1:], folder, sounds, found)
                        found[id] = one
    if not found:
        raise SpeechDataError(
            "no lines in files *.trans.txt below it", "check the folder", path=root
        )
    return [found[id] for id in sorted(found)]


def _spoken(
    path: str,
    line: int,
    id: str,
    words: list[str],
    folder: str,
    sounds: dict[str, str],
    found: dict[str, Utterance],
) -> Utterance:
    if id in found or id not in sounds:
        problem = (
            f"line {found[id].line} of {found[id].source} has this id already"
            if id in found
            else f"no recording of that name in {folder}"
        )
        raise SpeechDataError(problem, "remove the line", path=path, line=line, id=id)
    sound = os.path.join(folder, sounds[id])
    return Utterance(
        id,
        sound,
        1000 * audio_info(sound).seconds,
        tuple(words) or None,
        speaker=id.partition("-")[0],
        source=path,
        line=line,
    )


@checked
def read_digits(
    root: str | os.PathLike[str],
    split: Split = "all",
    *,
    words: dict[str, str] | None = None,
    pattern: str = "{label}_{speaker}_{index}",
) -> list[Utterance]:
    """The recordings of a folder of `{label}_{speaker}_{index}.wav`, as the Free Spoken Digit
    Dataset has them, sorted by file name.

    `split`: of each speaker and label the takes 0-4 are `"test"` and those from 5 on `"train"`, as
    that dataset defines it. `words` has the word of each label, by default those of the digits.

    Raises `SpeechDataError` naming the file for a label without a word, a take that is no number,
    and a split without recordings; `AudioError` as `AudioFolder` does.
    """
    word_of = {str(i): word for i, word in enumerate(DIGITS)} if words is None else words
    folder = AudioFolder(root, pattern)
    found = []
    for path, parts in zip(folder.paths, folder.fields, strict=True):
        label, take = parts["label"], parts.get("index", "")
        if label not in word_of:
            raise SpeechDataError(
                f"no word for the label {label!r}", "give it in words=", path=path
            )
        if split != "all":
            if not (take.isascii() and take.isdigit()):
                raise AudioError(path, f"its take {take!r} is no number", "use split='all'")
            if (int(take) < TEST_TAKES) != (split == "test"):
                continue
        id = os.path.splitext(os.path.basename(path))[0]
        duration = 1000 * audio_info(path).seconds
        found.append(
            Utterance(id, path, duration, (word_of[label],), parts.get("speaker", ""), source=path)
        )
    if not found:
        raise SpeechDataError(f"no recordings of the split {split!r}", "check it", path=root)
    return found
