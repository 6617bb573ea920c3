"""Reading audio files into tensors."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import fl_memory
import fl_tensor as ft
from fl_memory.tags import BATCH, SCRATCH
from fl_speech.container import check_complete
from fl_speech.errors import AudioError
from fl_tensor.annotations import checked
from fl_tensor.files import open_regular

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


@checked
def audio_info(path: str | os.PathLike[str]) -> AudioInfo:
    """Rate, channels, length and format of an audio file, without reading its samples.

    Raises `AudioError` naming the file if it is missing, truncated or no audio.
    """
    with _open(path) as file:
        return _info(path, file)


@checked
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
        rate, channels, total = file.samplerate, file.channels, file.frames
        _check_rate(path, rate, sample_rate)
        count = total - start if samples is None else samples
        if start < 0 or count < 0 or start + count > total:
            raise AudioError(
                path,
                f"samples {start} .. {start + count} were asked for and it has {total}",
                "ask for a stretch inside the file",
            )
        _check_size(path, channels, count, max_values)
        values = _read(path, file, start, count)
        # The values of one channel are in the order that is wanted.
        audio = _tensor(values, (1, count) if channels == 1 else (count, channels))
        _check_finite(path, file, audio)
    return audio if channels == 1 else audio.permute(1, 0), rate


def load_batch(
    paths: Sequence[str | os.PathLike[str]],
    length: int,
    *,
    sample_rate: int | None = None,
    max_values: int = MAX_VALUES,
) -> ft.Tensor:
    """The first `length` samples of each file, float32 `(files, channels, length)`; shorter files
    end in zeros. They are decoded to where the batch has them.

    Raises `AudioError` as `load_audio` does, and for a file with other channels than the first.
    """
    batch, row, channels = memoryview(b""), 0, 1
    for number, path in enumerate(paths):
        with _open(path) as file:
            _check_rate(path, file.samplerate, sample_rate)
            count = min(file.frames, length)
            _check_size(path, file.channels, count, max_values)
            if not batch.nbytes:
                channels = file.channels
                row = 4 * channels * length
                batch = fl_memory.current().alloc(row * len(paths), tag=BATCH).view()
            if file.channels != channels:
                raise AudioError(
                    path,
                    f"it has {file.channels} channels, and {os.fspath(paths[0])} has {channels}",
                    "make batches of recordings with as many channels",
                )
            whole = batch[number * row : (number + 1) * row]
            found, rest = whole[: 4 * channels * count], whole[4 * channels * count :]
            if count and _decode(path, file, found, 0, count) < count:
                raise _truncated(path, 0, count)
            if count:
                _check_finite(path, file, found)
            rest[:] = bytes(len(rest))
    if channels == 1:
        return _tensor(batch, (len(paths), 1, length))
    return _tensor(batch, (len(paths), length, channels)).permute(0, 2, 1)


@contextmanager
def _open(path: str | os.PathLike[str]) -> Iterator[Any]:
    import soundfile  # its library takes a while to load, and not everyone reads files

    name = os.fspath(path)
    try:
        with open_regular(name, buffering=0) as raw:
            check_complete(name, raw, os.fstat(raw.fileno()).st_size)
            raw.seek(0)
            with soundfile.SoundFile(raw.fileno(), closefd=False) as file:
                yield file
    except FileNotFoundError:
        raise AudioError(name, "no such file", "check the path") from None
    except ft.FileError as error:
        raise AudioError(name, str(error.strerror), "give an audio file") from None
    except OSError as error:
        raise AudioError(name, f"unreadable ({error})", "check its permissions") from error
    except soundfile.LibsndfileError as error:
        raise AudioError(
            name,
            f"not an audio file that can be decoded ({error.error_string})",
            "give WAV, FLAC, AIFF, OGG or MP3",
        ) from error


def _info(path: str | os.PathLike[str], file: Any) -> AudioInfo:
    return AudioInfo(
        os.fspath(path), file.samplerate, file.channels, file.frames, file.format, file.subtype
    )


def _check_rate(path: str | os.PathLike[str], rate: int, wanted: int | None) -> None:
    if wanted is not None and rate != wanted:
        raise AudioError(
            path,
            f"its rate is {rate} Hz and {wanted} Hz are needed",
            "convert the file, or use features for its own rate",
        )


def _check_size(path: str | os.PathLike[str], channels: int, count: int, max_values: int) -> None:
    if count * channels > max_values:
        raise AudioError(
            path,
            f"{channels} x {count} values are more than max_values={max_values}",
            "read a stretch with start= and samples=, or raise max_values",
        )


def _check_finite(path: str | os.PathLike[str], file: Any, values: Any) -> None:
    """Only files of floating-point samples can hold anything else."""
    if file.subtype in ("FLOAT", "DOUBLE"):
        x = values if isinstance(values, ft.Array) else ft.asarray(values.cast("f"))
        if not ft.all(ft.isfinite(x)).item():
            raise AudioError(path, "it holds NaN or infinite samples", "write it again")


def _read(path: str | os.PathLike[str], file: Any, start: int, count: int) -> memoryview:
    """`count` interleaved float32 samples. In blocks: memory grows with what is really there,
    not with what a header claims. Most files are one, decoded to where the tensor will have it."""
    width = 4 * file.channels
    blocks: list[memoryview] = []
    found = 0
    if start:
        file.seek(start)
    while found < count:
        block = fl_memory.current().alloc(width * min(_BLOCK, count - found), tag=SCRATCH).view()
        read = _decode(path, file, block, found, count)
        if read == 0:
            raise _truncated(path, found, count)
        blocks.append(block[: read * width])
        found += read
    return blocks[0] if len(blocks) == 1 else memoryview(b"".join(blocks))


def _decode(
    path: str | os.PathLike[str], file: Any, into: memoryview, found: int, count: int
) -> int:
    """The next samples, as many as there is room for; how many there were."""
    import soundfile

    try:
        return file.buffer_read_into(into, dtype="float32")
    except soundfile.SoundFileError as error:
        raise AudioError(
            path,
            f"broken after {found} of {count} samples ({error})",
            "it was cut off or damaged; copy or write it again",
        ) from error


def _truncated(path: str | os.PathLike[str], found: int, count: int) -> AudioError:
    return AudioError(
        path,
        f"truncated: {found} of {count} samples are there",
        "it was cut off; copy or write it again",
    )


def _tensor(values: memoryview, shape: tuple[int, ...]) -> ft.Tensor:
    """The float32 tensor of `values`, which nobody else has: without a copy where the backend
    can."""
    if values.nbytes:
        with suppress(ft.ArgumentError):
            return ft.asarray(values.cast("f", shape), copy=False)
    return ft.frombytes(values, shape, ft.float32)
