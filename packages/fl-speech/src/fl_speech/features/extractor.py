"""Features of audio: magnitudes, log filterbanks, cepstra."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_speech.features import spectrum
from fl_speech.features.cepstrum import dct_matrix, lifter_weights
from fl_speech.features.filterbank import mel_filterbank
from fl_speech.features.params import FeatureParams
from fl_speech.features.sequence import check_lengths, deltas, masked
from fl_speech.features.transform import PowerTransform
from fl_tensor.annotations import Checked, checked

if TYPE_CHECKING:
    from fl_speech.features.host import HostFeatures
    from fl_speech.features.stream import FeatureStream

KINDS = ("mfsc", "mfcc", "power", "raw")
DITHER_SEED = 123456
TINY = 2.0**-126
"""Under a square root: its derivative at 0 is infinite."""


class FeatureExtractor(Checked):
    """`extractor(x)`: samples `(..., samples)` to features `(..., frames, size)`.

    kind  "mfsc": `log(max(mel_floor, filters @ |DFT|²))`, after the energy if there is one;
          "mfcc": discrete cosine transform of it, lifter, the energy in the place of C0;
          "power": |DFT|, `n_fft // 2 + 1` magnitudes, which Flashlight calls power spectrum;
          "raw": the samples as they are, one a frame

    Each frame: scale, dither, minus its mean, pre-emphasis, window, transform. Deltas and
    accelerations follow the features of MFSC and MFCC, `[x, d, dd]`. There are no frames for less
    than `frame_size` samples.

    `x` is floating, of any backend; the result has its dtype, backend and device. Differentiable.
    `x` may be the pair `(samples, rate)` of `load_audio`: its rate has to be that of `params`.
    Transforms are as `transform` says (see `PowerTransform`). Raises `ft.DTypeError` for integers,
    `ft.ShapeError` for a 0-d `x`, `ft.ArgumentError` for another rate and an unknown kind.
    Source: The HTK Book, chapter 5; Davis and Mermelstein, 1980.
    """

    def __init__(
        self, params: FeatureParams | None = None, kind: str = "mfsc", *, transform: str = "auto"
    ) -> None:
        self.params = p = params or FeatureParams()
        self.kind = kind
        if kind not in KINDS:
            raise ft.ArgumentError(f"[FeatureExtractor] kind {kind!r} must be one of {KINDS}")
        if kind == "mfcc" and p.cepstra > p.filters:
            raise ft.ArgumentError(
                f"[FeatureExtractor] {p.cepstra} cepstra of {p.filters} filters: ask for at most "
                f"as many cepstra as filters"
            )
        bins = slice(None) if kind == "power" else _used_bins(self._filters())
        self._transform = PowerTransform(p.window, p.frame_size, p.n_fft, transform, bins)
        self._constants: dict[Any, tuple[ft.Tensor, ...]] = {}
        self._host: dict[ft.DType, HostFeatures] = {}

    @property
    def size(self) -> int:
        """Values of a frame."""
        p = self.params
        if self.kind in ("power", "raw"):
            return p.n_fft // 2 + 1 if self.kind == "power" else 1
        static = p.cepstra if self.kind == "mfcc" else p.filters + (p.energy != "none")
        return static * (1 + (p.delta_window > 0) + (p.acc_window > 0))

    @property
    def context(self) -> int:
        """Frames on each side that a frame depends on."""
        p = self.params
        return p.delta_window + p.acc_window if self.kind in ("mfsc", "mfcc") else 0

    def frame_count(self, samples: int) -> int:
        """How many frames `samples` samples give."""
        return samples if self.kind == "raw" else self.params.frames(samples)

    def __call__(
        self, x: Any, lengths: Any = None, *, generator: ft.Generator | None = None
    ) -> Any:
        """Features, or the pair `(features, frames)` where `lengths` (...,) int64 tells how many
        samples of each sequence count: later frames are 0, and `frames` (...,) int64 tells where
        they begin. `generator` draws the dither of a negative setting, the default one if absent.
        """
        x = self._samples(x)
        if lengths is None:
            return self._derived(self._static(x, self._dither(generator)))
        with ft.use(x.backend):
            lengths = ft.asarray(lengths, device=x.device)
        check_lengths("features", x, lengths, 1)
        counts = self._frame_counts(ft.clip(lengths, 0, x.shape[-1]).astype(ft.int64))
        values = self._derived(self._static(x, self._dither(generator)), counts)
        return (masked(values, counts) if values.size else values), counts

    def stream(self, *, generator: ft.Generator | None = None) -> FeatureStream:
        """Features of samples that come piece by piece (see `FeatureStream`)."""
        from fl_speech.features.stream import FeatureStream

        return FeatureStream(self, generator=generator)

    def _samples(self, x: Any) -> Any:
        x, rate = samples_and_rate(x)
        if rate not in (None, self.params.sample_rate):
            raise ft.ArgumentError(
                f"[features] the audio has {rate} Hz, the features are for "
                f"{self.params.sample_rate} Hz: give FeatureParams(sample_rate={rate}), or convert "
                f"the audio"
            )
        if not isinstance(x, ft.Array):
            raise ft.DTypeError(f"[features] x {type(x).__name__}: expected a Tensor or Variable")
        if not x.dtype.is_floating:
            raise ft.DTypeError(
                f"[features] x {x.shape} of {x.dtype}: samples are floating; divide by their range"
            )
        if x.ndim == 0:
            raise ft.ShapeError("[features] x (): expected samples along the last axis")
        return x

    def _frame_counts(self, lengths: Any) -> Any:
        p = self.params
        if self.kind == "raw":
            return lengths
        return ft.maximum(ft.floor_divide(lengths - p.frame_size, p.stride) + 1, 0)

    def _dither(self, generator: ft.Generator | None) -> ft.Generator | None:
        """Where noise comes from, if there is any."""
        if self.params.dither > 0:
            return ft.Generator(DITHER_SEED)
        if self.params.dither < 0:
            return generator or ft.random.default_generator()
        return None

    def _static(self, x: Any, dither: ft.Generator | None) -> Any:
        """Features of each frame by itself."""
        p = self.params
        if self.kind == "raw":
            return x.reshape(*x.shape, 1)
        if self.frame_count(x.shape[-1]) == 0 or x.size == 0:
            return self._no_frames(x)
        if dither is None and _fits_host(x) and self._transform.takes_halves(x):
            return self._on_host(x)(x)
        framed, energy = self._frames(x * p.scale, dither)
        power = self._transform(framed)
        if self.kind == "power":
            return ft.maximum(power, TINY).sqrt()
        filters, dct, lifter = self._constants_for(x)
        spectra = power if p.power else ft.maximum(power, TINY).sqrt()
        values = ft.maximum(ft.matmul(spectra, filters), p.mel_floor).log()
        if self.kind == "mfcc":
            values = ft.matmul(values, dct) * lifter
            values = values if energy is None else values[..., 1:]
        return values if energy is None else ft.concatenate([energy, values], axis=-1)

    def _frames(self, x: Any, dither: ft.Generator | None) -> tuple[Any, Any]:
        """Frames after pre-emphasis, and their energy or None."""
        p, energy = self.params, None
        if p.energy == "raw":
            energy = self._energy(spectrum.frame_sums(x * x, p.frame_size, p.stride))
        if dither is None and p.energy != "centred":
            framed = spectrum.emphasised_frames(
                x, p.frame_size, p.stride, p.pre_emphasis, p.zero_mean
            )
        else:
            framed = spectrum.frames(x, p.frame_size, p.stride)
            if dither is not None:
                framed = framed + self._noise(framed, dither)
            if p.zero_mean:
                framed = framed - framed.mean(axis=-1, keepdims=True)
            if p.energy == "centred":
                energy = self._energy((framed * framed).sum(axis=-1, keepdims=True))
            framed = spectrum.pre_emphasis(framed, p.pre_emphasis)
        if p.energy == "windowed":
            windowed = self._transform.windowed(framed)
            energy = self._energy((windowed * windowed).sum(axis=-1, keepdims=True))
        return framed, energy

    def _no_frames(self, x: Any) -> Any:
        p = self.params
        size = self.size
        if self.context:
            size //= 1 + (p.delta_window > 0) + (p.acc_window > 0)
        shape = (*x.shape[:-1], self.frame_count(x.shape[-1]), size)
        with ft.use(x.backend):
            return ft.zeros(shape, dtype=x.dtype, device=x.device)

    def _energy(self, total: Any) -> Any:
        return ft.maximum(total, self.params.energy_floor).log()

    def _noise(self, framed: Any, dither: ft.Generator) -> Any:
        """The same noise for each sequence where the seed is fixed."""
        level = abs(self.params.dither)
        shape = framed.shape[-2:] if self.params.dither > 0 else framed.shape
        return dither.uniform(
            shape, -level, level, dtype=framed.dtype, device=framed.device, backend=framed.backend
        )

    def _derived(self, x: Any, lengths: Any = None) -> Any:
        """Features with their derivatives."""
        if not self.context:
            return x
        parts = [x]
        for window in (self.params.delta_window, self.params.acc_window):
            if window:
                parts.append(deltas(parts[-1], window, lengths))
        return ft.concatenate(parts, axis=-1)

    def _constants_for(self, x: Any) -> tuple[ft.Tensor, ...]:
        key = (x.backend, x.device, x.dtype)
        if key not in self._constants:
            p = self.params
            with ft.use(x.backend):
                made = [self._filters()[self._transform.bins]]
                if self.kind == "mfcc":
                    made.append(dct_matrix(p.filters, p.cepstra, p.dct))
                    made.append(lifter_weights(p.cepstra, p.lifter))
                found = [c.astype(x.dtype).to(x.device) for c in made]
            self._constants[key] = (*found, *found[:1] * (3 - len(found)))
        return self._constants[key]

    def _on_host(self, x: Any) -> HostFeatures:
        if x.dtype not in self._host:
            from fl_speech.features.host import HostFeatures

            cosines, sines, window = (table.numpy() for table in self._transform.tables(x))
            filters, dct, lifter = (table.numpy() for table in self._constants_for(x))
            self._host[x.dtype] = HostFeatures(
                self.params,
                cosines,
                sines,
                window,
                None if self.kind == "power" else filters,
                dct * lifter if self.kind == "mfcc" else None,
            )
        return self._host[x.dtype]

    def _filters(self) -> ft.Tensor:
        p = self.params
        return mel_filterbank(
            p.filters, p.n_fft, p.sample_rate, p.low_hz, p.high_hz,
            scale=p.frequency_scale, edges=p.edges,
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        """Constants belong to a backend of this process, and are made anew in another one."""
        return {**vars(self), "_constants": {}, "_host": {}}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.params}, {self.kind!r})"


class LogMel(FeatureExtractor):
    """`LogMel(params)(x)`: `FeatureExtractor(params, "mfsc")`."""

    def __init__(self, params: FeatureParams | None = None) -> None:
        super().__init__(params, "mfsc")

    def __repr__(self) -> str:
        return f"LogMel({self.params})"


@checked
def log_mel(x: ft.Array | tuple[ft.Array, int], params: FeatureParams | None = None) -> Any:
    """Log-mel features of `x` (see `FeatureExtractor`); constants are kept for the next call.

    Without `params`, `x` is the pair `(samples, rate)` of `load_audio`, and all settings but the
    rate are the defaults. Raises `ft.ArgumentError` where no rate is given, or two.
    """
    if params is None:
        rate = samples_and_rate(x)[1]
        if rate is None:
            raise ft.ArgumentError(
                "[log_mel] samples without a rate: give the pair (audio, rate) of load_audio, or "
                "FeatureParams(sample_rate=...)"
            )
        params = FeatureParams(sample_rate=rate)
    return _log_mel(params)(x)


def _fits_host(x: Any) -> bool:
    """Whether `x` is a float32 or float64 tensor in host memory whose operations nobody watches."""
    return (
        isinstance(x, ft.Tensor)
        and x.dtype in (ft.float32, ft.float64)
        and x.device.kind == "cpu"
        and x.backend.name != "null"  # which has no values
        and ft.ops_for(x.backend) is x.backend
    )


def _used_bins(filters: ft.Tensor) -> slice:
    """The frequencies that filters `(bins, filters)` see, and some beside them: a multiple of 16 is
    multiplied faster."""
    used = [k for k, seen in enumerate((filters > 0).any(axis=1).tolist()) if seen] or [0]
    count = min(-(-(used[-1] + 1 - used[0]) // 16) * 16, filters.shape[0])
    start = min(used[0], filters.shape[0] - count)
    return slice(start, start + count)


def samples_and_rate(x: Any) -> tuple[Any, int | None]:
    """What `load_audio` gives, or samples alone."""
    match x:
        case (samples, int(rate)):
            return samples, rate
        case tuple():
            raise ft.ArgumentError(
                f"[features] {len(x)} values: expected samples, or (audio, rate)"
            )
    return x, None


@lru_cache(maxsize=16)
def _log_mel(params: FeatureParams) -> LogMel:
    return LogMel(params)
