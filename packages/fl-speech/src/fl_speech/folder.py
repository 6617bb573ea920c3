"""``AudioFolder``: a dataset of recordings with labels in their file names."""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Sequence
from typing import Any

import fl_tensor as ft
from fl_data import DataError, Dataset, Sample, check_index, check_indices, decoded_file_name
from fl_speech.audio import MAX_VALUES, audio_info, load_audio, load_batch
from fl_speech.errors import AudioError
from fl_tensor.annotations import checked

SUFFIXES = (
    ".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".aifc", ".au", ".snd",
    ".caf", ".w64",
)  # fmt: skip
"""The usual names of files that `load_audio` reads."""


class AudioFolder(Dataset):
    """Sample `i` is `(audio, label)`: float32 `(channels, samples)` and a 0-d int64 class number.

    File names follow `pattern`, for example `"{label}_{speaker}_{index}"` for `7_anna_3.wav`; it
    must name `{label}`. `fields[i]` keeps all named parts, to split by speaker or number:
    `Subset(ds, [i for i, f in enumerate(ds.fields) if f["speaker"] == "anna"])`.
    Classes are the labels in sorted order; samples are sorted by file name. Files are those with
    one of `suffixes` (by default all that can be read) that are not hidden.

    All files must have one rate: `sample_rate`, or that of the first file. With `length`, every
    recording is cut or zero-padded at its end to that many samples, so that batches stack; only
    what is kept is decoded, to where the batch has it.
    Raises `AudioError` for a folder without recordings and for a name that does not fit `pattern`;
    files are read when their sample is asked for.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        pattern: str = "{label}_{speaker}_{index}",
        *,
        suffixes: Sequence[str] = SUFFIXES,
        sample_rate: int | None = None,
        length: int | None = None,
        max_values: int = MAX_VALUES,
    ) -> None:
        self.root = os.fspath(root)
        if "\0" in self.root:
            raise AudioError(self.root, "it is no path", "leave the zero out")
        self.length = length
        self._max_values = max_values
        if length is not None and length < 1:
            raise DataError(f"[AudioFolder] length must be at least 1, got {length}")
        names = _names(self.root, tuple(suffixes))
        self.fields = _fields(self.root, names, pattern)
        self.paths = [os.path.join(self.root, name) for name in names]
        self.classes = sorted({parts["label"] for parts in self.fields})
        number = {label: i for i, label in enumerate(self.classes)}
        self.labels = [number[parts["label"]] for parts in self.fields]
        self.sample_rate = sample_rate or audio_info(self.paths[0]).sample_rate

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        i = check_index(index, len(self), "AudioFolder")
        label = ft.asarray(self.labels[i], dtype=ft.int64)
        if self.length is not None:
            return self._batch([i])[0], label
        audio, _ = load_audio(
            self.paths[i], sample_rate=self.sample_rate, max_values=self._max_values
        )
        return audio, label

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        if self.length is None or len(indices) == 0:
            return super().__getitems__(indices)
        rows = check_indices(indices, len(self), "AudioFolder")
        labels = array("q", [self.labels[row] for row in rows])
        return self._batch(rows), ft.asarray(labels, dtype=ft.int64)

    def _batch(self, rows: Sequence[int]) -> ft.Tensor:
        assert self.length is not None
        return load_batch(
            [self.paths[row] for row in rows],
            self.length,
            sample_rate=self.sample_rate,
            max_values=self._max_values,
        )

    def __repr__(self) -> str:
        return f"AudioFolder({self.root!r}, {len(self)} files, {len(self.classes)} classes)"


@checked
def fit_length(x: ft.Array, length: int) -> Any:
    """`x` cut, or padded with zeros at the end, to `length` along its last axis."""
    if length < 0:
        raise DataError(f"[fit_length] length {length}: may not be negative")
    missing = length - x.shape[-1]
    if missing <= 0:
        return x[..., :length]
    return ft.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)])


def _names(root: str, suffixes: tuple[str, ...]) -> list[str]:
    try:
        names = sorted(
            name
            for name in os.listdir(root)
            if name.lower().endswith(suffixes) and not name.startswith(".")
        )
    except OSError as error:
        raise AudioError(root, f"unreadable folder ({error.strerror})", "check the path") from error
    if not names:
        raise AudioError(root, f"no files named *{' or *'.join(suffixes)}", "check the folder")
    return names


def _fields(root: str, names: list[str], pattern: str) -> list[dict[str, str]]:
    """What `pattern` finds in each name."""
    pieces = re.split(r"\{(\w+)\}", pattern)
    parts = pieces[1::2]
    if "label" not in parts or len(set(parts)) != len(parts):
        raise DataError(
            f"[AudioFolder] pattern {pattern!r} must name {{label}}, and each part once: "
            "for example '{label}_{speaker}_{index}'"
        )
    expression = "".join(
        re.escape(piece) if i % 2 == 0 else f"(?P<{piece}>.+?)" for i, piece in enumerate(pieces)
    )
    found = []
    for name in names:
        match = re.fullmatch(expression, os.path.splitext(decoded_file_name(name))[0])
        if match is None:
            raise AudioError(
                os.path.join(root, name),
                f"its name does not follow {pattern!r}",
                "rename it, move it away, or give another pattern",
            )
        found.append(match.groupdict())
    return found
