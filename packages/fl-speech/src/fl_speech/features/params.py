"""Settings of features, with the defaults of Flashlight and Kaldi as presets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import fl_tensor as ft
from fl_speech.features import spectrum
from fl_speech.features.filterbank import EDGES, SCALES
from fl_tensor.annotations import Checked

MAX_FFT = 1 << 16
"""The longest transform: a frame of four seconds at 16 kHz."""
ENERGIES = ("none", "raw", "centred", "windowed")
DCTS = ("htk", "orthonormal")


@dataclass(frozen=True)
class FeatureParams(Checked):
    """Settings of `FeatureExtractor` and `LogMel`; the defaults suit 16 kHz speech.

    sample_rate       samples a second
    frame_ms          length of a frame, milliseconds
    stride_ms         from one frame to the next, milliseconds
    filters           triangles of the filterbank
    low_hz, high_hz   where the first begins and the last ends; None: half the rate
    window            "hamming", "hann", "povey" (hann to the power of 0.85), "blackman", "none"
    pre_emphasis      c of `x[i] - c x[i - 1]` in each frame
    mel_floor         the least output of a filter, before the logarithm
    power             filters see |DFT|², else |DFT|
    zero_mean         subtract the mean of each frame
    scale             a factor of the samples: `load_audio` gives [-1, 1), and the floors are meant
                      for 16-bit numbers
    cepstra           coefficients of an MFCC, the zeroth included
    lifter            L of the weights `1 + L/2 sin(pi i / L)` of cepstra; 0: none
    energy            log of a frame's sum of squares: "none"; "raw", of the samples; "centred",
                      after dither and mean; "windowed", after pre-emphasis and window. It comes
                      before the filters of MFSC, and in the place of the zeroth cepstrum
    energy_floor      the least sum of squares
    delta_window      frames on each side for the regression of the deltas; 0: none
    acc_window        the same for deltas of the deltas
    dither            amplitude of uniform noise, in scaled units. Above 0 it is the same noise in
                      each call (seed 123456), below 0 it comes from the caller's generator
    frequency_scale   "mel", "linear" or "log10": where the corners of the triangles are equidistant
    edges             "hz" or "scale": where the edges of the triangles are straight lines
    dct               "htk" (sqrt(2/M) for each coefficient) or "orthonormal" (sqrt(1/M) for C0)

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
    cepstra: int = 13
    lifter: float = 22.0
    energy: str = "none"
    energy_floor: float = 1.0
    delta_window: int = 0
    acc_window: int = 0
    dither: float = 0.0
    frequency_scale: str = "mel"
    edges: str = "hz"
    dct: str = "htk"

    @classmethod
    def flashlight(cls, **settings: Any) -> FeatureParams:
        """The defaults of Flashlight's `FeatureParams`: raw energies, deltas and accelerations over
        2 frames on each side. `settings` replace some."""
        return cls(**{"energy": "raw", "delta_window": 2, "acc_window": 2, **settings})

    @classmethod
    def kaldi(cls, **settings: Any) -> FeatureParams:
        """The defaults of Kaldi's `compute-fbank-feats` and `compute-mfcc-feats`, without dither
        and energy, as `torchaudio.compliance.kaldi` has them. `settings` replace some;
        `energy="centred"` is `use_energy`, "windowed" is that with `raw_energy=False`."""
        given = {"low_hz": 20.0, "window": "povey", "edges": "scale", "dct": "orthonormal"}
        return cls(**{**given, "mel_floor": 2.0**-23, **settings})

    def __post_init__(self) -> None:
        for name in ("frame_ms", "stride_ms", "mel_floor", "scale", "lifter", "dither"):
            value = getattr(self, name)
            if not math.isfinite(value):
                raise ft.ArgumentError(f"[FeatureParams] {name} {value} must be finite")
        broken = [text for holds, text in self._rules() if not holds]
        if broken:
            raise ft.ArgumentError("[FeatureParams] " + "; ".join(broken))

    def _rules(self) -> list[tuple[bool, str]]:
        nyquist = self.sample_rate / 2
        high = nyquist if self.high_hz is None else self.high_hz
        bins = self.n_fft // 2 + 1
        return [
            (self.sample_rate >= 1, f"sample_rate {self.sample_rate} must be at least 1"),
            (self.frame_size >= 2, f"frame_ms {self.frame_ms} must give at least 2 samples"),
            (self.stride >= 1, f"stride_ms {self.stride_ms} must give at least 1 sample"),
            (
                self.n_fft <= MAX_FFT,
                f"frame_ms {self.frame_ms} at {self.sample_rate} Hz needs a transform of "
                f"{self.n_fft}, at most {MAX_FFT} are possible",
            ),
            (
                1 <= self.filters <= bins,
                f"filters {self.filters} must be from 1 to {bins}, as many as the transform has "
                f"frequencies",
            ),
            (
                0 <= self.low_hz < high <= nyquist,
                f"low_hz {self.low_hz} and high_hz {self.high_hz} must be "
                f"0 <= low < high <= {nyquist}",
            ),
            (
                self.frequency_scale != "log10" or self.low_hz > 0,
                f"low_hz {self.low_hz} must be above 0 where frequency_scale is 'log10'",
            ),
            *(
                (getattr(self, name) in known, f"{name} {getattr(self, name)!r} must be in {known}")
                for name, known in (
                    ("window", spectrum.WINDOWS),
                    ("energy", ENERGIES),
                    ("frequency_scale", SCALES),
                    ("edges", EDGES),
                    ("dct", DCTS),
                )
            ),
            (0 <= self.pre_emphasis < 1, f"pre_emphasis {self.pre_emphasis} must be in [0, 1)"),
            *(
                (getattr(self, name) > 0, f"{name} {getattr(self, name)} must be positive")
                for name in ("mel_floor", "energy_floor", "scale")
            ),
            (
                self.cepstra >= 1,
                f"cepstra {self.cepstra} must be at least 1",
            ),
            *(
                (getattr(self, name) >= 0, f"{name} {getattr(self, name)} may not be negative")
                for name in ("lifter", "delta_window", "acc_window")
            ),
            (
                self.delta_window > 0 or self.acc_window <= 0,
                f"acc_window {self.acc_window} needs a delta_window",
            ),
        ]

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
