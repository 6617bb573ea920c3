"""Log-mel features of audio."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fl_tensor as ft
from fl_speech import spectrum
from fl_speech.filterbank import mel_filterbank
from fl_tensor.annotations import Checked, checked

MAX_FFT = 4096
"""The transform is a matrix product: beyond this length it would be most of the work."""


@dataclass(frozen=True)
class FeatureParams(Checked):
    """Settings of `LogMel`; the defaults suit 16 kHz speech.

    Times are in milliseconds. `scale` is applied to the samples first: `load_audio` gives
    [-1, 1), and `mel_floor` is meant for 16-bit numbers. `power`: filters see |DFT|², else |DFT|.
    Raises `ft.ArgumentError` naming every setting that is wrong.
    """

    sample_rate: int = 16000
    frame_ms: float = 25.0
    stride_ms: float = 10.0
    filters: int = 23
    low_hz: float = 0.0
    high_hz: float | None = None
    window: str = "hamming"
    pre_emphasis: float = 0.97
    mel_floor: float = 1.0
    power: bool = True
    zero_mean: bool = True
    scale: float = 32768.0

    def __post_init__(self) -> None:
        for name in ("frame_ms", "stride_ms", "mel_floor", "scale"):
            value = getattr(self, name)
            if not math.isfinite(value):
                raise ft.ArgumentError(f"[FeatureParams] {name} {value} must be finite")
        nyquist = self.sample_rate / 2
        high = nyquist if self.high_hz is None else self.high_hz
        rules = [
            (self.sample_rate >= 1, f"sample_rate {self.sample_rate} must be at least 1"),
            (self.frame_size >= 2, f"frame_ms {self.frame_ms} must give at least 2 samples"),
            (self.stride >= 1, f"stride_ms {self.stride_ms} must give at least 1 sample"),
            (
                self.n_fft <= MAX_FFT,
                f"frame_ms {self.frame_ms} at {self.sample_rate} Hz needs a transform of "
                f"{self.n_fft}, at most {MAX_FFT} are possible",
            ),
            (
                1 <= self.filters <= self.n_fft // 2 + 1,
                f"filters {self.filters} must be from 1 to {self.n_fft // 2 + 1}, as many as the "
                f"transform has frequencies",
            ),
            (
                0 <= self.low_hz < high <= nyquist,
                f"low_hz {self.low_hz} and high_hz {self.high_hz} must be "
                f"0 <= low < high <= {nyquist}",
            ),
            (
                self.window in spectrum.WINDOWS,
                f"window {self.window!r} must be one of {spectrum.WINDOWS}",
            ),
            (0 <= self.pre_emphasis < 1, f"pre_emphasis {self.pre_emphasis} must be in [0, 1)"),
            (self.mel_floor > 0, f"mel_floor {self.mel_floor} must be positive"),
            (self.scale > 0, f"scale {self.scale} must be positive"),
        ]
        broken = [text for holds, text in rules if not holds]
        if broken:
            raise ft.ArgumentError("[FeatureParams] " + "; ".join(broken))

    @property
    def frame_size(self) -> int:
        """Samples in a frame."""
        return int(self.frame_ms * self.sample_rate / 1000)

    @property
    def stride(self) -> int:
        """Samples from one frame to the next."""
        return int(self.stride_ms * self.sample_rate / 1000)

    @property
    def n_fft(self) -> int:
        """The length of the transform: the next power of two from `frame_size` on."""
        return 1 << max(self.frame_size - 1, 1).bit_length()

    def frames(self, samples: int) -> int:
        """How many frames `samples` samples give."""
        return spectrum.frame_count(samples, self.frame_size, self.stride)


class LogMel(Checked):
    """`LogMel(params)(x)`: samples `(..., samples)` to features `(..., frames, filters)`.

    `x` may be the pair `(samples, rate)` of `load_audio`: its rate has to be that of `params`.

    Each frame: scale, subtract its mean, pre-emphasis, window, power spectrum, mel filters,
    `log(max(mel_floor, .))`. Floating `x` of any dtype and backend; the result has its dtype.
    Differentiable. No frames for less than `frame_size` samples. Raises `ft.DTypeError` for
    integers, `ft.ShapeError` for a 0-d `x` and `ft.ArgumentError` for another rate.
    """

    def __init__(self, params: FeatureParams | None = None) -> None:
        self.params = params or FeatureParams()
        self._constants: dict[Any, tuple[ft.Tensor, ft.Tensor, ft.Tensor]] = {}

    def __call__(self, x: Any) -> Any:
        p = self.params
        x, rate = _samples_and_rate(x)
        if rate not in (None, p.sample_rate):
            raise ft.ArgumentError(
                f"[log_mel] the audio has {rate} Hz, the features are for {p.sample_rate} Hz: give "
                f"FeatureParams(sample_rate={rate}), or convert the audio"
            )
        if not x.dtype.is_floating:
            raise ft.DTypeError(
                f"[log_mel] x {x.shape} of {x.dtype}: samples are floating; divide by their range"
            )
        window, matrix, filters = self._constants_for(x)
        framed = spectrum.frames(x * p.scale, p.frame_size, p.stride)
        if p.zero_mean:
            framed = framed - framed.mean(axis=-1, keepdims=True)
        if p.pre_emphasis:
            framed = spectrum.pre_emphasis(framed, p.pre_emphasis)
        power = spectrum.power_spectrum(framed * window, matrix)
        mel = ft.matmul(power if p.power else power.sqrt(), filters)
        return ft.maximum(mel, p.mel_floor).log()

    def _constants_for(self, x: Any) -> tuple[ft.Tensor, ft.Tensor, ft.Tensor]:
        key = (x.backend, x.device, x.dtype)
        if key not in self._constants:
            p = self.params
            with ft.use(x.backend):
                made = (
                    spectrum.window(p.window, p.frame_size),
                    spectrum.dft_matrix(p.frame_size, p.n_fft),
                    mel_filterbank(p.filters, p.n_fft, p.sample_rate, p.low_hz, p.high_hz),
                )
                window, matrix, filters = (c.astype(x.dtype).to(x.device) for c in made)
            self._constants[key] = (window, matrix, filters)
        return self._constants[key]

    def __repr__(self) -> str:
        return f"LogMel({self.params})"


@checked
def log_mel(x: ft.Array | tuple[ft.Array, int], params: FeatureParams | None = None) -> Any:
    """Log-mel features of `x` (see `LogMel`); constants are kept for the next call.

    Without `params`, `x` is the pair `(samples, rate)` of `load_audio`, and all settings but the
    rate are the defaults. Raises `ft.ArgumentError` where no rate is given, or two.
    """
    if params is None:
        rate = _samples_and_rate(x)[1]
        if rate is None:
            raise ft.ArgumentError(
                "[log_mel] samples without a rate: give the pair (audio, rate) of load_audio, or "
                "FeatureParams(sample_rate=...)"
            )
        params = FeatureParams(sample_rate=rate)
    return _log_mel(params)(x)


def _samples_and_rate(x: Any) -> tuple[Any, int | None]:
    match x:
        case (samples, int(rate)):
            return samples, rate
        case tuple():
            raise ft.ArgumentError(f"[log_mel] {len(x)} values: expected samples, or (audio, rate)")
    return x, None


@lru_cache(maxsize=16)
def _log_mel(params: FeatureParams) -> LogMel:
    return LogMel(params)
