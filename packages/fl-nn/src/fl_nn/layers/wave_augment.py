"""RawWavSpecAugment: SpecAugment for waveforms."""

from __future__ import annotations

import math

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.layers.augment import check, draw_spans, filled, spans, valid_lengths, valid_mask
from fl_nn.module import Module
from fl_nn.padding import Lengths
from fl_nn.settings import COUNT


class RawWavSpecAugment(Module):
    """In training, takes bands of frequencies out of each sample of x (N, T) or (N, C, T), T values
    of a waveform, and masks stretches of time, each sample a way of its own; channels share it. In
    evaluation, passes its input on. SpecAugment (Park et al., 2019) without a spectrum.

    frequency_masks  how many bands are taken out, each of 0 to `frequency_width` of the `bands`
                     that part the range from `low` to `high` Hz equally on the mel scale
    time_masks       how many stretches are masked, each of 0 to `time_width` values, and at most
                     the share `time_share` of all
    fill             what stands there: "zero", or "mean", the sample's own
    rate             values per second
    max_kernel       how many values a filter may weigh: filters of narrow bands need many, those
                     that would need more are less steep

    A band is taken out by the difference of two low-pass filters, sincs under Blackman's window,
    which fall off within the narrower of the mel bands beside their cut-off: further inside the
    band less than 1/1000 is left, further outside less than 1/1000 is changed.
    """

    takes_lengths = True

    def __init__(
        self,
        frequency_width: int = 27,
        frequency_masks: int = 2,
        time_width: int = 16000,
        time_share: float = 1.0,
        time_masks: int = 2,
        fill: str = "zero",
        bands: int = 80,
        low: float = 0.0,
        high: float = 8000.0,
        rate: float = 16000.0,
        max_kernel: int = 20000,
        *,
        generator: ft.Generator | None = None,
    ) -> None:
        check("RawWavSpecAugment", time_share, fill, frequency_width=frequency_width,
              frequency_masks=frequency_masks, time_width=time_width,
              time_masks=time_masks)  # fmt: skip
        if not COUNT.fits(bands) or not 0.0 <= low < high <= rate / 2 < math.inf:
            raise ModuleError(
                f"[RawWavSpecAugment] {bands} bands from low={low} to high={high} Hz: at least 1, "
                f"and 0 <= low < high <= rate / 2 = {rate / 2}"
            )
        if not COUNT.fits(max_kernel) or max_kernel < 3:
            raise ModuleError(f"[RawWavSpecAugment] max_kernel={max_kernel!r}: at least 3 values")
        self.frequency_width, self.frequency_masks = frequency_width, frequency_masks
        self.time_width, self.time_share, self.time_masks = time_width, time_share, time_masks
        self.fill, self.bands, self.rate = fill, bands, rate
        #: The cut-offs: `bands` + 1 frequencies in Hz.
        self.edges = tuple(_hertz(_mel(low) + (_mel(high) - _mel(low)) * i / bands)
                           for i in range(bands + 1))  # fmt: skip
        filters = _low_passes(self.edges, rate, max_kernel)
        self.filters: ft.Tensor
        self.register_buffer("filters", ft.asarray(filters), persistent=False)
        self.generator = generator or ft.default_generator().split(1)[0]

    def forward(self, x: ft.Array, lengths: Lengths | None = None) -> ft.Array:
        """`lengths` as in Sequential: masks keep to the values of each sample, shares and means are
        of these, and padding stays what it is."""
        if x.ndim not in (2, 3):
            raise ft.ShapeError(f"[RawWavSpecAugment] x {x.shape}: expected (N, T) or (N, C, T)")
        if not self.training or not x.size:
            return x
        own, longest = valid_lengths(
            "RawWavSpecAugment", x, lengths, self.time_width, self.time_share
        )
        width = min(self.frequency_width, self.bands)
        first, behind = draw_spans(self.generator, x, self.frequency_masks, width, self.bands)
        waves = [ft.reshape(x[i], (-1, x.shape[-1])) for i in range(x.shape[0])]
        for mask in range(self.frequency_masks):
            low, high = (ft.gather(self.filters, edge[:, mask], 0) for edge in (first, behind))
            passes = (high - low).astype(x.dtype)
            waves = [wave - filtered(wave, passes[i]) for i, wave in enumerate(waves)]
        y = ft.reshape(ft.stack(waves), x.shape)
        stretches = spans(self.generator, x, -1, self.time_masks, longest, own)
        y = filled(y, stretches, self.fill, own)
        return y if lengths is None else ft.where(valid_mask(x, own), y, x)

    def extra_repr(self) -> str:
        return (
            f"{self.frequency_masks} bands up to {self.frequency_width} of {self.bands}, "
            f"{self.time_masks} stretches up to {self.time_width}, {self.fill}"
        )


def filtered(x: ft.Array, kernel: ft.Tensor) -> ft.Array:
    """x (C, T) convolved with a symmetric kernel (2 H + 1,), zeros around it. Long kernels make
    windows dear (as many copies of x as weights): here each block of x meets a matrix that holds
    the kernel in shifted rows. With blocks of sqrt(T), copies and matrix are of one size."""
    channels, steps = x.shape
    half = kernel.shape[0] // 2
    block = math.isqrt(steps)
    blocks, around = -(-steps // block), -(-2 * half // block)
    extra = around * block - 2 * half  # zeros behind the kernel, to whole blocks
    behind = (blocks + around) * block - steps - half
    parts = ft.reshape(ft.pad(x, ((0, 0), (half, behind))), (channels, blocks + around, block))
    # The values that a block of results needs: its own, those half before and half behind.
    seen = ft.concatenate([parts[:, i : i + blocks] for i in range(around + 1)], -1)
    # Rows of length L of copies of a vector of length L + 1: each begins one place further on.
    width = 2 * half + extra + block
    row = ft.pad(kernel, ((0, width + 1 - kernel.shape[0]),))
    rows = ft.reshape(ft.broadcast_to(row, (block, width + 1)), (-1,))
    rows = ft.reshape(rows[: block * width], (block, width))
    y = ft.matmul(seen, ft.swapaxes(rows, 0, 1))
    return ft.reshape(y, (channels, -1))[:, :steps]


def _low_passes(edges: tuple[float, ...], rate: float, max_kernel: int) -> list[list[float]]:
    """One symmetric low-pass filter per cut-off, all of one length. Blackman's window falls off
    over 5.5 / (its length) of the sampling rate."""
    widths = [high - low for low, high in zip(edges, edges[1:])]
    narrowest = [min(pair) for pair in zip([*widths[:1], *widths], [*widths, *widths[-1:]])]
    halves = [min(math.ceil(2.75 * rate / w), (max_kernel - 1) // 2) for w in narrowest]
    return [_low_pass(f / rate, half, max(halves)) for f, half in zip(edges, halves)]


def _low_pass(cutoff: float, half: int, reach: int) -> list[float]:
    # A cut-off of 0 lets nothing pass, one of half the rate everything.
    side = [
        math.sin(2.0 * math.pi * cutoff * t) / (math.pi * t)
        * (0.42 + 0.5 * math.cos(math.pi * t / half) + 0.08 * math.cos(2.0 * math.pi * t / half))
        for t in range(1, half + 1)
    ]  # fmt: skip
    total = 2.0 * (cutoff + math.fsum(side))
    scale = 1.0 / total if cutoff else 0.0
    side = [scale * w for w in side] + [0.0] * (reach - half)
    return [*reversed(side), scale * 2.0 * cutoff, *side]


def _mel(hertz: float) -> float:
    return 2595.0 * math.log10(1.0 + hertz / 700.0)


def _hertz(mel: float) -> float:
    return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
