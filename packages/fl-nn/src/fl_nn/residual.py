"""Residual: a sequence of modules with shortcut connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fl_tensor as ft
from fl_nn.containers import Sequential
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.padding import Lengths, informed


class Residual(Sequential):
    """Sequential with shortcuts: what comes out of place `start` is added to what goes into place
    `end`. He et al., 2016.

    Places count modules from 1: 0 is the input, `len(self) + 1` the output.

        block = nn.Residual(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        block.add_shortcut(0, 4)            # x + f(x)
        block.add_scale(4, 0.5 ** 0.5)      # the sum that leaves, scaled

    The same in one: `shortcuts` of (start, end) or (start, end, projection), `scales` of (before,
    scale).
    """

    def __init__(
        self,
        *modules: Module,
        shortcuts: Sequence[Sequence[Any]] = (),
        scales: Sequence[tuple[int, float]] = (),
    ) -> None:
        super().__init__(*modules)
        #: end -> [(start, name of the projection or None)]
        self._shortcuts: dict[int, list[tuple[int, str | None]]] = {}
        self._scales: dict[int, float] = {}
        for shortcut in shortcuts:
            self.add_shortcut(*shortcut)
        for scale in scales:
            self.add_scale(*scale)

    def add_shortcut(self, start: int, end: int, projection: Module | None = None) -> Residual:
        """Add the output of place `start`, through `projection` if given, to the input of `end`."""
        if not 0 <= start < end <= len(self) + 1:
            raise ModuleError(
                f"[Residual] shortcut from {start} to {end}: places run from 0, the input, to "
                f"{len(self) + 1}, the output, and a shortcut leads onwards"
            )
        if any(start == other for other, _ in self._shortcuts.get(end, ())):
            raise ModuleError(f"[Residual] there is a shortcut from {start} to {end} already")
        name = None
        if projection is not None:
            if not isinstance(projection, Module):
                raise ModuleError(f"[Residual] projection {projection!r} is not a Module")
            name = f"shortcut_{start}_{end}"
            setattr(self, name, projection)
        self._shortcuts.setdefault(end, []).append((start, name))
        return self

    def add_scale(self, before: int, scale: float) -> Residual:
        """Multiply the sum that goes into place `before` by `scale`."""
        if not 1 <= before <= len(self) + 1:
            raise ModuleError(f"[Residual] scale before {before}: from 1 to {len(self) + 1}")
        self._scales[before] = scale
        return self

    def constructor_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        shortcuts = [
            (start, end, None if name is None else vars(self)[name])
            for end, links in self._shortcuts.items()
            for start, name in links
        ]
        return tuple(self), {"shortcuts": shortcuts, "scales": list(self._scales.items())}

    def forward(  # type: ignore[override]  # takes one input, where Sequential may take several
        self, x: ft.Array, lengths: Lengths | None = None
    ) -> ft.Array:
        if not len(self):
            raise ModuleError("[Residual] has no modules to call; append some")
        outputs = [x]
        for place, module in enumerate([*self, None], 1):
            value = outputs[-1]
            for start, name in self._shortcuts.get(place, ()):
                kept = outputs[start]
                if name is not None:
                    kept = informed(vars(self)[name], lengths)(kept)
                value = value + kept
            if place in self._scales:
                value = value * self._scales[place]
            outputs.append(value if module is None else informed(module, lengths)(value))
        return outputs[-1]

    def extra_repr(self) -> str:
        links = [f"{a}->{b}" for b, links in self._shortcuts.items() for a, _ in links]
        scales = [f"{scale} before {place}" for place, scale in self._scales.items()]
        return ", ".join([*links, *scales])
