"""Reading audio files into tensors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import fl_tensor as ft
from fl_speech.container import check_complete
from fl_speech.errors import AudioError

MAX_VALUES = 1 << 28
"""How many values (channels x samples) `load_audio` reads unless told otherwise: 1 GiB."""

_BLOCK = 1 << 18


@dataclass(frozen=True)
class AudioInfo:
    """What the header of an audio file says."""

    path: str
    sample_rate: int
    channels: int
    samples: int
    """Samples per channel."""
    format: str
    subtype: str

    @property
    def seconds(self) -> float:
        return self.samples / self.sample_rate


def audio_info(path: str | os.PathLike[str]) -> AudioInfo:
    """Rate, channels, length and format of an audio file, without reading its samples.

    Raises `AudioError` naming the file if it is missing, truncated or no audio.
    """
    with _open(path) as file:
        return _info(path, file)


def load_audio(
    path: str | os.PathLike[str],
    *,
    start: int = 0,
    samples: int | None = None,
    sample_rate: int | None = None,
    max_values: int = MAX_VALUES,
) -> tuple[ft.Tensor, int]:
    """`(audio, sample_rate)`: audio is float32 `(channels, samples)`, integers scaled to [-1, 1).

    `start` and `samples` (per channel) choose a stretch; without `samples`, all the rest.
    `sample_rate` is the rate that the file must have; nothing is resampled.
    Raises `AudioError` naming the file if it is missing, truncated, no audio, longer than
    `max_values` values, of another rate, shorter than the stretch, or holds NaN or infinity.
    """
    with _open(path) as file:
        info = _info(path, file)
        if sample_rate is not None and info.sample_rate != sample_rate:
            raise AudioError(
                path,
                f"its rate is {info.sample_rate} Hz and {sample_rate} Hz are needed",
                "convert the file, or use features for its own rate",
            )
        count = info.samples - start if samples is None else samples
        if start < 0 or count < 0 or start + count > info.samples:
            raise AudioError(
                path,
                f"samples {start} .. {start + count} were asked for and it has {info.samples}",
                "ask for a stretch inside the file",
            )
        if count * info.channels > max_values:
            raise AudioError(
                path,
                f"{info.channels} x {count} values are more than max_values={max_values}",
                "read a stretch with start= and samples=, or raise max_values",
            )
        values = _read(path, file, start, count)
    audio = ft.frombytes(values, (count, info.channels), ft.float32)
    if info.subtype in ("FLOAT", "DOUBLE") and not ft.all(ft.isfinite(audio)).item():
        raise AudioError(path, "it holds NaN or infinite samples", "write it again")
    return audio.permute(1, 0), info.sample_rate


@contextmanager
def _open(path: str | os.PathLike[str]) -> Iterator[Any]:
    import soundfile  # its library takes a while to load, and not everyone reads files

    name = os.fspath(path)
    if not os.path.exists(name):
        raise AudioError(name, "no such file", "check the path")
    if not os.path.isfile(name):
        raise AudioError(name, "it is not a regular file", "give an audio file")
    try:
        check_complete(name)
        file = soundfile.SoundFile(name)
    except OSError as error:
        raise AudioError(name, f"unreadable ({error})", "check its permissions") from error
    except soundfile.SoundFileError as error:
        raise AudioError(
            name,
            f"not an audio file that can be decoded ({error})",
            "give WAV, FLAC, AIFF, OGG or MP3",
        ) from error
    with file:
        yield file


def _info(path: str | os.PathLike[str], file: Any) -> AudioInfo:
    return AudioInfo(
        os.fspath(path), file.samplerate, file.channels, file.frames, file.format, file.subtype
    )


def _read(path: str | os.PathLike[str], file: Any, start: int, count: int) -> bytearray:
    """`count` interleaved float32 samples. In blocks: memory grows with what is really there,
    not with what a header claims."""
    import soundfile

    values = bytearray()
    width = 4 * file.channels
    try:
        if start:
            file.seek(start)
        while len(values) < count * width:
            block = file.buffer_read(min(_BLOCK, count - len(values) // width), dtype="float32")
            if len(block) == 0:
                break
            values += memoryview(block).cast("B")
    except soundfile.SoundFileError as error:
        raise AudioError(
            path,
            f"broken after {len(values) // width} of {count} samples ({error})",
            "it was cut off or damaged; copy or write it again",
        ) from error
    if len(values) < count * width:
        raise AudioError(
            path,
            f"truncated: {len(values) // width} of {count} samples are there",
            "it was cut off; copy or write it again",
        )
    return values
