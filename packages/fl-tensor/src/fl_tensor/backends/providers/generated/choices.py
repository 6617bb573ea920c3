"""Which tile a problem is computed in: by rule, or the fastest that ``fl-tensor tune`` measured.

Nothing waits for a measurement: a program takes what was remembered, and the rule for the rest.
Products and gradients of weights add up in the same order in all tiles; convolutions do inside of
images, while at the edges the last bits depend on the tile: under ``ft.reproducible`` the rule
decides.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any, TypeAlias

from fl_tensor.backends.providers import seen, tuning
from fl_tensor.backends.providers.generated import FOLDER, tile
from fl_tensor.backends.providers.generated.tile import Tile
from fl_tensor.backends.providers.layout import Packed
from fl_tensor.backends.providers.problems import (
    Convolution,
    ConvolutionData,
    ConvolutionWeights,
    Epilogue,
    Matmul,
)
from fl_tensor.backends.providers.provider import Kernel
from fl_tensor.backends.providers.tuning import Tuner
from fl_tensor.codegen import compile, target

#: What is computed in tiles of which there are several.
Tiled: TypeAlias = Matmul | Convolution | ConvolutionData | ConvolutionWeights
#: Makes the kernel of a problem in a certain tile, or in the one that the rule says.
Prepare: TypeAlias = Callable[[Any, Tile | None], Kernel]

#: Tiles that are worth a try wherever the registers hold them.
_TILES = Tile(14, 2), Tile(8, 3), Tile(6, 4), Tile(6, 2), Tile(4, 3)
_RULE = "rule"


def about() -> dict[str, str]:
    """What choices depend on, beside the processor and the threads."""
    machine = target.host()
    return {
        "library": f"generated {compile.sources(FOLDER)[:16]}",
        "instructions": f"{machine.cpu} {machine.vector_bits} bits",
    }


def choose(problem: Tiled, prepare: Prepare, tuner: Tuner) -> Kernel:
    """The kernel of ``problem``. Raises UnsupportedError."""
    operands = problem[:3]
    if any(isinstance(each, Packed) or each.strides is None for each in operands):
        return prepare(problem, None)  # packed for a tile
    makers = {_RULE: functools.partial(prepare, problem, None)}
    machine = target.host()
    for each in _TILES:
        if tile.fits(each, machine):
            makers[f"{each.rows}x{each.vectors}"] = functools.partial(prepare, problem, each)
    return tuner.choose(key(problem), makers, seen.flops(problem) if tuning.is_thorough() else 0)


def key(problem: Tiled) -> str:
    """A problem in words."""
    fields = zip(type(problem)._fields, problem, strict=True)
    left = type(problem)._field_defaults
    told = [
        f"{name} {_words(value)}"
        for name, value in fields
        if name not in left or value != left[name]
    ]
    return " ".join([type(problem).__name__.lower(), *told])


def _words(value: object) -> str:
    if isinstance(value, Epilogue):
        return hashlib.sha256(value.program.text.encode()).hexdigest()[:8]
    return str(value).replace(" ", "")
