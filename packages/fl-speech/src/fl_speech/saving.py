"""Writing tensors to audio files, in the containers and sample formats of libsndfile."""

from __future__ import annotations

import io
import os
from typing import Any

import fl_tensor as ft
from fl_speech.audio import File, name_of
from fl_speech.errors import AudioError
from fl_speech.samples import host_samples
from fl_tensor.annotations import checked
from fl_tensor.files import replacing

_BLOCK = 1 << 16  # samples that are converted at a time
_MAX_CHANNELS = 1024
_LOSSY = ("VORBIS", "OPUS", "MPEG_LAYER_III")
_LOSSLESS = ("PCM_", "ALAC_")
#: Containers by the suffixes of file names that are not their names.
_SUFFIXES = {
    "aif": "AIFF", "aifc": "AIFF", "snd": "AU", "oga": "OGG", "opus": "OGG", "sph": "NIST",
    "sf": "IRCAM", "mat": "MAT5", "iff": "SVX", "paf": "PAF",
}  # fmt: skip


@checked
def save_audio(
    path: File,
    audio: Any,
    sample_rate: int,
    *,
    format: str | None = None,
    subtype: str | None = None,
    quality: float | None = None,
) -> None:
    """Write `audio`, `(channels, samples)` or `(samples,)`, to a file or a binary file object.

    Floats are in -1 .. 1; what lies outside is clipped where samples are stored as integers. int16
    and int32 are in their full range. `format` is a container of libsndfile (`"WAV"`, `"FLAC"`,
    `"OGG"`, ...); unless given, the suffix of the name tells. `subtype` is a sample format
    (`"PCM_16"`, `"FLOAT"`, `"VORBIS"`, ...); unless given, the usual one of the container. Both in
    any case. `PCM_n` stores the nearest of `2^n` levels, so that samples that came from such a file
    are written as they were. `quality` is 0 to 1 (best) for Vorbis, Opus and MP3.

    The file appears whole or not at all. Raises `AudioError` for NaN and infinity, a rate or
    channels that no file holds, and a container or sample format that is not known or does not fit;
    `DTypeError` for another dtype.
    """
    import soundfile

    name = name_of(path)
    container, kind = _formats(name, format, subtype, soundfile)
    values = _interleaved(name, audio)
    if quality is not None and (kind not in _LOSSY or not 0 <= quality <= 1):
        raise AudioError(
            name, f"quality {quality} of {kind}", f"give 0 to 1, for {', '.join(_LOSSY)} alone"
        )
    if not 1 <= sample_rate <= 0x7FFFFFFF:
        raise AudioError(name, f"a rate of {sample_rate} Hz", "give 1 Hz or more")
    encoded = io.BytesIO()
    try:
        with soundfile.SoundFile(
            *(encoded, "w", sample_rate, values.shape[1], kind),
            format=container,
            compression_level=None if quality is None else 1 - quality,
        ) as file:
            for start in range(0, len(values), _BLOCK):
                file.write(_stored(values[start : start + _BLOCK], kind))
    except (soundfile.SoundFileError, AssertionError) as error:
        raise AudioError(
            name,
            f"{container} with {kind} cannot hold {values.shape[1]} channels at {sample_rate} Hz "
            f"({error})",
            "give another format or subtype, fewer channels, or another rate",
        ) from error
    if isinstance(path, str | os.PathLike):
        with replacing(path, size=len(encoded.getbuffer())) as out:
            out.write(encoded.getbuffer())
    else:
        try:
            path.write(encoded.getbuffer())
        except (AttributeError, TypeError, ValueError) as error:
            raise AudioError(
                name, f"a file object that bytes cannot be written to ({error})", "open it as 'wb'"
            ) from error


def _formats(name: str, format: str | None, subtype: str | None, soundfile: Any) -> tuple[str, str]:
    """Container and sample format, checked."""
    known = set(soundfile.available_formats()) - {"SD2"}  # which has its header in a second file
    suffix = os.path.splitext(name)[1][1:].lower()
    container = (_SUFFIXES.get(suffix, suffix) if format is None else format).upper()
    if container not in known:
        problem = (
            f"format {format!r}" if format is not None else f"no format is named after {suffix!r}"
        )
        raise AudioError(name, problem, f"give format=, one of {', '.join(sorted(known))}")
    kinds = soundfile.available_subtypes(container)
    usual = "OPUS" if suffix == "opus" else soundfile.default_subtype(container)
    kind = (usual or next(iter(kinds)) if subtype is None else subtype).upper()
    if kind not in kinds:
        raise AudioError(
            name,
            f"subtype {subtype!r} of format {container}",
            f"give one of {', '.join(sorted(kinds))}",
        )
    return container, kind


def _interleaved(name: str, audio: Any) -> Any:
    """`(samples, channels)`, a view of the values on the host."""
    import numpy as np

    values = host_samples(audio, "save_audio", ("float32", "float64", "int16", "int32"))
    if values.ndim not in (1, 2):
        raise ft.ShapeError(
            f"[save_audio] audio of shape {values.shape}: expected (channels, samples) or "
            "(samples,)"
        )
    if values.ndim == 1:
        values = values[None]
    if not 1 <= values.shape[0] <= _MAX_CHANNELS:
        raise AudioError(
            name,
            f"{values.shape[0]} channels of {values.shape[1]} samples",
            f"give 1 to {_MAX_CHANNELS} channels; the channels are the first axis",
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise AudioError(name, "it would hold NaN or infinite samples", "look where they come from")
    return values.T


def _stored(values: Any, kind: str) -> Any:
    """A block as the encoder stores it unchanged: integers for integers, floats for floats."""
    import numpy as np

    is_integer = values.dtype.kind == "i"
    if not kind.startswith(_LOSSLESS):
        if is_integer:  # the encoder would not scale them
            values = values / float(1 << (8 * values.dtype.itemsize - 1))
        return values if values.dtype == np.float64 else values.astype(np.float32)
    if is_integer:
        return np.ascontiguousarray(values)
    bits = int("".join(filter(str.isdigit, kind)))
    limit = float(1 << (bits - 1))
    levels = np.rint(values.astype(np.float64) * limit)
    levels = np.clip(levels, -limit, limit - 1).astype(np.int32)
    return levels << (32 - bits)
