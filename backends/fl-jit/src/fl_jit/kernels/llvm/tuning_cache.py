"""Which tile a problem is computed in: by rule, or the fastest that ``fl-jit tune`` measured.

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

from fl_jit.kernels import autotune, workload_log
from fl_jit.kernels.autotune import Tuner
from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.descriptors import ConvDataGrad, Convolution, ConvWeightGrad, Epilogue, Matmul
from fl_jit.kernels.layout import Packed
from fl_jit.kernels.library import Kernel
from fl_jit.kernels.llvm import FOLDER, tile
from fl_jit.kernels.llvm.tile import Tile

#: What is computed in tiles of which there are several.
Tiled: TypeAlias = Matmul | Convolution | ConvDataGrad | ConvWeightGrad
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


def choose(descriptor: Tiled, prepare: Prepare, tuner: Tuner) -> Kernel:
    """The kernel of ``problem``. Raises UnsupportedError."""
    operands = descriptor[:3]
    if any(isinstance(each, Packed) or each.strides is None for each in operands):
        return prepare(descriptor, None)  # packed for a tile
    makers = {_RULE: functools.partial(prepare, descriptor, None)}
    machine = target.host()
    for each in _TILES:
        if tile.fits(each, machine):
            makers[f"{each.rows}x{each.vectors}"] = functools.partial(prepare, descriptor, each)
    return tuner.choose(
        key(descriptor), makers, workload_log.flops(descriptor) if autotune.is_thorough() else 0
    )


def key(descriptor: Tiled) -> str:
    """A problem in words."""
    fields = zip(type(descriptor)._fields, descriptor, strict=True)
    left = type(descriptor)._field_defaults
    told = [
        f"{name} {_words(value)}"
        for name, value in fields
        if name not in left or value != left[name]
    ]
    return " ".join([type(descriptor).__name__.lower(), *told])


def _words(value: object) -> str:
    if isinstance(value, Epilogue):
        return hashlib.sha256(value.program.text.encode()).hexdigest()[:8]
    return str(value).replace(" ", "")
