"""Reading audio files into tensors."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, TypeAlias

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

File: TypeAlias = "str | os.PathLike[str] | BinaryIO"

#: Codes of samples in a buffer, and their sizes.
_CODES: dict[str, Literal["f", "d", "h", "i"]] = {
    "float32": "f",
    "float64": "d",
    "int16": "h",
    "int32": "i",
}
_SIZES = {"float32": 4, "float64": 8, "int16": 2, "int32": 4}
#: Subtypes whose samples are integers in the file.
_INTEGERS = ("PCM_", "ALAC_", "DWVW_", "DPCM_", "ULAW", "ALAW", "IMA_", "MS_", "GSM", "G72", "NMS_")


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
def audio_info(path: File) -> AudioInfo:
    """Rate, channels, length and format of an audio file, without reading its samples.

    `path` may be a binary file object that can seek; it is read from its beginning.
    Raises `AudioError` naming the file if it is missing, truncated or no audio.
    """
    with _open(path) as file:
        return _info(name_of(path), file)


@checked
def load_audio(
    path: File,
    *,
    start: int = 0,
    samples: int | None = None,
    sample_rate: int | None = None,
    max_values: int = MAX_VALUES,
    dtype: ft.DType | str = "float32",
) -> tuple[ft.Tensor, int]:
    """`(audio, sample_rate)`: audio is `(channels, samples)`, in float32 or float64 scaled to
    [-1, 1), in int16 or int32 scaled to the full range of that dtype.

    `path` may be a binary file object that can seek; it is read from its beginning.
    `start` and `samples` (per channel) choose a stretch; without `samples`, all the rest.
    `sample_rate` is the rate that the file must have; nothing is resampled.
    Raises `AudioError` naming the file if it is missing, truncated, no audio, longer than
    `max_values` values, of another rate, shorter than the stretch, or holds NaN or infinity, and
    for another dtype.
    """
    kind = _sample_dtype(dtype)
    with _open(path) as file:
        path = name_of(path)
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
        decoded = kind
        if kind.startswith("int") and not file.subtype.startswith(_INTEGERS):
            decoded = "float64"  # the decoder would not scale it
        values = _read(path, file, start, count, decoded)
        # The values of one channel are in the order that is wanted.
        audio = _tensor(values, (1, count) if channels == 1 else (count, channels), decoded)
        _check_finite(path, file, audio)
        if decoded != kind:
            audio = _full_range(audio, kind)
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


def name_of(file: File) -> str:
    """The path, or what a file object says of itself."""
    if isinstance(file, str | os.PathLike):
        return os.fspath(file)
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else f"<{type(file).__name__}>"


def _sample_dtype(dtype: ft.DType | str) -> str:
    name = str(dtype)
    if name not in _CODES:
        raise ft.DTypeError(f"[load_audio] dtype {name}: give one of {', '.join(_CODES)}")
    return name


def _full_range(audio: ft.Tensor, kind: str) -> ft.Tensor:
    """Floats in -1 .. 1 as integers: rounded, and limited to the range of the dtype."""
    scale = 1 << (8 * _SIZES[kind] - 1)
    return ft.clip(ft.round(audio * float(scale)), float(-scale), float(scale - 1)).astype(kind)


@contextmanager
def _open(path: File) -> Iterator[Any]:
    if isinstance(path, str | os.PathLike):
        with _open_path(os.fspath(path)) as file:
            yield file
        return
    import soundfile

    name = name_of(path)
    try:
        path.seek(0, os.SEEK_END)
        size = path.tell()
        path.seek(0)
        first = path.read(1)
    except (AttributeError, TypeError, ValueError, OSError) as error:
        raise AudioError(
            name, f"a file object that cannot be read ({error})", "give io.BytesIO(content)"
        ) from error
    if not isinstance(first, bytes):
        raise AudioError(name, "it gives text, not bytes", "open it in mode 'rb'")
    path.seek(0)
    check_complete(name, path, size)
    path.seek(0)
    with _decoder_errors(name), soundfile.SoundFile(path) as file:
        yield file


@contextmanager
def _open_path(name: str) -> Iterator[Any]:
    import soundfile  # its library takes a while to load, and not everyone reads files

    try:
        with open_regular(name, buffering=0) as raw:
            check_complete(name, raw, os.fstat(raw.fileno()).st_size)
            raw.seek(0)
            with _decoder_errors(name), soundfile.SoundFile(raw.fileno(), closefd=False) as file:
                yield file
    except FileNotFoundError:
        raise AudioError(name, "no such file", "check the path") from None
    except ft.FileError as error:
        raise AudioError(name, str(error.strerror), "give an audio file") from None
    except OSError as error:
        raise AudioError(name, f"unreadable ({error})", "check its permissions") from error


@contextmanager
def _decoder_errors(name: str) -> Iterator[None]:
    import soundfile

    try:
        yield
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
            "convert it with fl_speech.resample, or use features for its own rate",
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


def _read(path: str | os.PathLike[str], file: Any, start: int, count: int, kind: str) -> memoryview:
    """`count` interleaved samples. In blocks: memory grows with what is really there,
    not with what a header claims. Most files are one, decoded to where the tensor will have it."""
    width = _SIZES[kind] * file.channels
    blocks: list[memoryview] = []
    found = 0
    if start:
        file.seek(start)
    while found < count:
        block = fl_memory.current().alloc(width * min(_BLOCK, count - found), tag=SCRATCH).view()
        read = _decode(path, file, block, found, count, kind)
        if read == 0:
            raise _truncated(path, found, count)
        blocks.append(block[: read * width])
        found += read
    return blocks[0] if len(blocks) == 1 else memoryview(b"".join(blocks))


def _decode(
    path: str | os.PathLike[str],
    file: Any,
    into: memoryview,
    found: int,
    count: int,
    kind: str = "float32",
) -> int:
    """The next samples, as many as there is room for; how many there were."""
    import soundfile

    try:
        return file.buffer_read_into(into, dtype=kind)
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


def _tensor(values: memoryview, shape: tuple[int, ...], kind: str = "float32") -> ft.Tensor:
    """The tensor of `values`, which nobody else has: without a copy where the backend
    can."""
    if values.nbytes:
        with suppress(ft.ArgumentError):
            return ft.asarray(values.cast(_CODES[kind], shape), copy=False)
    return ft.frombytes(values, shape, kind)
