"""Tile choice of an operation: by heuristic, or the fastest one that ``fl-jit tune`` measured.

No program waits for a measurement. It takes recorded choices, and the heuristic elsewhere. GEMMs
and wgrads accumulate in the same order in all tiles, and so do convolutions away from the borders
of images. At the borders the last bits of convolutions depend on the tile. Under
``ft.reproducible`` the heuristic decides.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any, TypeAlias

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.descriptors import ConvDataGrad, Convolution, ConvWeightGrad, Epilogue, Matmul
from fl_jit.kernels.layout import Packed
from fl_jit.kernels.library import Kernel
from fl_jit.kernels.llvm import FOLDER, tile
from fl_jit.kernels.llvm.tile import Tile

#: Operations with a choice of several tiles.
Tiled: TypeAlias = Matmul | Convolution | ConvDataGrad | ConvWeightGrad
#: Makes the kernel of a descriptor in a given tile, or in the one of the heuristic.
Prepare: TypeAlias = Callable[[Any, Tile | None], Kernel]

#: Candidate tiles, if they fit the registers.
_TILES = Tile(14, 2), Tile(8, 3), Tile(6, 4), Tile(6, 2), Tile(4, 3)
#: Name of the heuristic's choice.
RULE = "rule"


def about() -> dict[str, str]:
    """Properties that choices depend on, besides the processor and the threads."""
    machine = target.host()
    return {
        "library": f"generated {compile.sources(FOLDER)[:16]}",
        "instructions": f"{machine.cpu} {machine.vector_bits} bits",
    }


def candidates(descriptor: Tiled, prepare: Prepare) -> dict[str, Callable[[], Kernel]]:
    """The kernels that could compute ``descriptor``, by name; the heuristic's choice is first."""
    factories: dict[str, Callable[[], Kernel]] = {}
    factories[RULE] = functools.partial(prepare, descriptor, None)
    if any(isinstance(each, Packed) or each.strides is None for each in descriptor[:3]):
        return factories  # packed for a tile
    machine = target.host()
    for each in _TILES:
        if tile.fits(each, machine):
            factories[f"{each.rows}x{each.vectors}"] = functools.partial(prepare, descriptor, each)
    return factories


def key(descriptor: Tiled) -> str:
    """A descriptor as text."""
    fields = zip(type(descriptor)._fields, descriptor, strict=True)
    defaults = type(descriptor)._field_defaults
    fields_text = [
        f"{name} {_text(value)}"
        for name, value in fields
        if name not in defaults or value != defaults[name]
    ]
    return " ".join([type(descriptor).__name__.lower(), *fields_text])


def _text(value: object) -> str:
    if isinstance(value, Epilogue):
        return hashlib.sha256(value.program.text.encode()).hexdigest()[:8]
    return str(value).replace(" ", "")
