"""AcousticModel: features and their lengths in, scores and their lengths out."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import whole_lengths
from fl_speech.models.layouts import LAYOUTS, arranged, sequences
from fl_speech.models.lengths import Time, behind, run
from fl_speech.models.streaming import Stream
from fl_tensor.annotations import explained


class AcousticModel(nn.Module):
    """`model(features (B, T, F), lengths (B,)) -> (output (B, T', N), lengths' (B,))`, by a network
    of layers.

    network  what computes the scores: a Sequential, or any module
    layout   what it takes: "features" (B, T, F), "channels" (B, F, T) as Conv1D does, or "image"
             (B, 1, F, T) as architecture files do. What it gives is turned to (B, T', N).

    Without `lengths` there are none in the result. With them, `lengths'` are exactly the numbers of
    steps that each sequence gives when it runs alone: through strided convolutions, pooling and
    padding. Layers that look at all steps (Transformer, Conformer, SpecAugment) are told the
    lengths of their own input. Convolutions run over padding.

    Raises ft.ShapeError for features or lengths of other shapes and for a sequence too short to
    give a step; ModuleError for a layer behind which time cannot be followed.
    """

    takes_lengths = True

    def __init__(self, network: nn.Module, layout: str = "features") -> None:
        if layout not in LAYOUTS:
            raise nn.ModuleError(
                f"[AcousticModel] layout {layout!r}: use one of {', '.join(LAYOUTS)}"
            )
        if not isinstance(network, nn.Module):
            raise nn.ModuleError(f"[AcousticModel] network {network!r} is not a Module")
        self.network, self.layout = network, layout

    def forward(
        self, features: ft.Array, lengths: Sequence[int] | ft.Array | None = None
    ) -> tuple[ft.Array, ft.Array | None]:
        x = arranged(features, self.layout)
        time = LAYOUTS[self.layout]
        if lengths is not None:
            steps = _checked_lengths(features, lengths)
            time = Time(time.axis, time.ndim, tuple(steps))
        y, time = run(self.network, x, time)
        output = sequences(y, time)
        if lengths is None:
            return output, None
        return output, ft.asarray(list(time.steps), ft.int64, output.device, output.backend)

    def output_lengths(self, lengths: Sequence[int] | ft.Array) -> list[int]:
        """How many steps sequences of these lengths give; nothing is computed. 0 where one is too
        short."""
        start = LAYOUTS[self.layout]
        counts = whole_lengths("AcousticModel", lengths, "batch")  # type: ignore[arg-type]
        if any(n < 0 for n in counts):
            raise ft.ShapeError(f"[AcousticModel] lengths {counts}: give numbers of at least 0")
        found = behind(self.network, Time(start.axis, start.ndim, tuple(counts)))
        return [max(n, 0) for n in found.steps]

    @property
    def stride(self) -> int:
        """Steps of the features for one of the output."""
        many = 1 << 20
        (steps,) = self.output_lengths([many])
        return round(many / steps)

    def stream(self) -> Stream:
        """Scores of a recording while it arrives: `push(features)` gives those that are settled,
        `finish()` the rest, together what the whole gives at once. In evaluation mode, for networks
        whose layers have bounded context: see Stream. Raises ModuleError for others."""
        if self.training:
            raise nn.ModuleError("[AcousticModel] stream: call eval() first")
        return Stream(self.network, self.layout, LAYOUTS[self.layout])

    def extra_repr(self) -> str:
        return f"layout={self.layout!r}"


def _checked_lengths(features: ft.Array, lengths: Sequence[int] | ft.Array) -> list[int]:
    batch, steps = features.shape[:2]
    counts = whole_lengths("AcousticModel", lengths, batch)
    if len(counts) != batch or not all(1 <= n <= steps for n in counts):
        raise ft.ShapeError(
            f"[AcousticModel] lengths {counts} of features {features.shape}: give {batch} numbers "
            f"of steps from 1 to {steps}"
        )
    return counts


def arch_names() -> list[str]:
    """Names of the architecture files that come with the package, for `load_arch`."""
    folder = resources.files("fl_speech.models") / "arch"
    return sorted(
        f.name.removesuffix(".arch") for f in folder.iterdir() if f.name.endswith(".arch")
    )


@explained
def load_arch(
    path: str | os.PathLike[str],
    features: int,
    classes: int,
    *,
    as_flashlight: bool = False,
    **options: Any,
) -> AcousticModel:
    """The network of an architecture file, as an AcousticModel for `features` numbers a step and
    `classes` scores.

    path           a path, or one of `arch_names()`, such as "asr_transformer"
    as_flashlight  and other `options`: as in `fl_nn.build_sequential`

    Raises ArchError, with file, line and column, for a faulty file, and for a path that is no file
    and no name of ours.
    """
    return AcousticModel(
        nn.build_sequential(
            _found(path), features, classes, as_flashlight=as_flashlight, **options
        ),
        "image",
    )


def _found(path: str | os.PathLike[str]) -> os.PathLike[str]:
    name, known = os.fspath(path), arch_names()
    if name in known and not Path(name).exists():
        return Path(str(resources.files("fl_speech.models") / "arch" / f"{name}.arch"))
    if not Path(name).exists():
        near = difflib.get_close_matches(name, known, 3) or known
        raise nn.ArchError(
            f"{name}: there is no such file, and none of ours has this name; ours are "
            f"{', '.join(near)}",
            name,
        )
    return Path(name)
