"""Recurrent layers: RNN, LSTM and GRU; several layers, both directions, sequences of any length.

The inputs of all steps are projected at once; what is left is ``ft.recurrent``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import fl_tensor as ft
from fl_nn import init
from fl_nn.errors import ModuleError
from fl_nn.layers.dropout import Dropout, probability
from fl_nn.module import Module
from fl_nn.padding import whole_lengths
from fl_nn.parameter import Parameter
from fl_nn.values import arange_like

States = tuple[ft.Array, ...]


class _Recurrent(Module):
    #: As ``ft.recurrent`` knows it.
    cell: str
    gates: ClassVar[int]
    #: How many arrays the state consists of; the first one is the output of a step.
    kept: ClassVar[int] = 1

    def __init__(
        self,
        inputs: int,
        hidden: int,
        layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        if min(inputs, hidden, layers) < 1:
            raise ModuleError(
                f"[{type(self).__name__}] {inputs} inputs, {hidden} hidden, {layers} layers: all "
                "at least 1"
            )
        self.inputs, self.hidden, self.layers = inputs, hidden, layers
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional
        probability(type(self).__name__, "dropout", dropout)
        self.dropout = Dropout(dropout) if dropout and layers > 1 else None
        directions, bound = 1 + bidirectional, 1 / math.sqrt(hidden)
        for layer in range(layers):
            width = inputs if layer == 0 else directions * hidden
            for suffix in self._suffixes(layer):
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (self.gates * hidden, width)}
                shapes["weight_hh"] = (self.gates * hidden, hidden)
                if bias:
                    shapes["bias_ih"] = shapes["bias_hh"] = (self.gates * hidden,)
                for name, shape in shapes.items():
                    values = init.uniform(shape, -bound, bound, generator=generator, dtype=dtype)
                    setattr(self, f"{name}_{suffix}", Parameter(values))

    def forward(
        self, x: ft.Array, state: Any = None, lengths: Sequence[int] | ft.Array | None = None
    ) -> tuple[ft.Array, Any]:
        """The outputs of the last layer at every step, and the last state of every layer.

        x        (steps, batch, inputs), or (batch, steps, inputs) with `batch_first`
        state    where to start, in the form in which it is returned; zeros unless given
        lengths  for every sequence how many steps count: outputs after them are zero, the state is
                 that of the last one that counts, and the way back begins there

        Gives y (steps, batch, directions * hidden), or with `batch_first` (batch, steps, ...), and
        the state: (layers * directions, batch, hidden); of an LSTM a pair of these, hidden and
        cell.
        """
        name = type(self).__name__
        if x.ndim != 3 or x.shape[-1] != self.inputs:
            first = "batch, steps" if self.batch_first else "steps, batch"
            raise ft.ShapeError(f"[{name}] x {x.shape}: expected ({first}, {self.inputs})")
        x = ft.swapaxes(x, 0, 1) if self.batch_first else x
        if not x.shape[0]:
            raise ft.ShapeError(f"[{name}] x {x.shape}: there are no steps")
        starts = self._starts(x, state)
        counts, alive = None, None
        if lengths is not None:
            counts = self._counts(x, lengths)
            t = ft.expand_dims(arange_like(x, 0, x.shape[0], ft.int64), (1, 2))
            ends_at = ft.asarray(counts, ft.int64, x.device, x.backend)
            alive = ft.less(t, ft.expand_dims(ends_at, 1))
        ends: list[States] = []
        for layer in range(self.layers):
            if layer and self.dropout is not None:
                x = self.dropout(x)
            ways = []
            for back, suffix in enumerate(self._suffixes(layer)):
                y, end = self._run(x, starts[len(ends)], suffix, bool(back), counts)
                ways.append(y if alive is None else ft.where(alive, y, 0.0))
                ends.append(end)
            x = ways[0] if len(ways) == 1 else ft.concatenate(ways, -1)
        y = ft.swapaxes(x, 0, 1) if self.batch_first else x
        last = tuple(ft.stack([end[i] for end in ends]) for i in range(self.kept))
        return y, last if self.kept > 1 else last[0]

    def _run(
        self, x: ft.Array, state: States, suffix: str, back: bool, counts: list[int] | None
    ) -> tuple[ft.Array, States]:
        own = vars(self)
        w_ih, w_hh = own[f"weight_ih_{suffix}"], own[f"weight_hh_{suffix}"]
        b_ih, b_hh = own.get(f"bias_ih_{suffix}"), own.get(f"bias_hh_{suffix}")
        projected = ft.linear(x, w_ih, b_ih)
        states = ft.recurrent(projected, ft.stack(state), w_hh, b_hh, self.cell, counts, back)
        last = 0 if back else -1
        return states[0], tuple(states[i, last] for i in range(self.kept))

    def _starts(self, x: ft.Array, state: Any) -> list[States]:
        # The initial state of every layer and direction.
        count = self.layers * (1 + self.bidirectional)
        shape = (count, x.shape[1], self.hidden)
        if state is None:
            zero = ft.full(shape[1:], 0.0, x.dtype, x.device, x.backend)
            return [(zero,) * self.kept] * count
        given = state if isinstance(state, (tuple, list)) else (state,)
        shapes = [getattr(part, "shape", None) for part in given]
        if shapes != [shape] * self.kept or (self.kept == 1 and given is state):
            expected = "a pair (h, c), each" if self.kept > 1 else "one array"
            raise ft.ShapeError(
                f"[{type(self).__name__}] state of {', '.join(map(str, shapes))}: expected "
                f"{expected} of shape {shape}, (layers * directions, batch, hidden)"
            )
        return [tuple(part[i] for part in given) for i in range(count)]

    def _counts(self, x: ft.Array, lengths: Sequence[int] | ft.Array) -> list[int]:
        counts = whole_lengths(type(self).__name__, lengths, x.shape[1])
        if len(counts) != x.shape[1] or not all(0 < n <= x.shape[0] for n in counts):
            raise ft.ShapeError(
                f"[{type(self).__name__}] lengths {counts}: expected {x.shape[1]} numbers from 1 "
                f"to {x.shape[0]}"
            )
        return counts

    def _suffixes(self, layer: int) -> list[str]:
        return [f"l{layer}", f"l{layer}_reverse"][: 1 + self.bidirectional]

    def extra_repr(self) -> str:
        text = f"{self.inputs}, {self.hidden}" + (f", layers={self.layers}" * (self.layers > 1))
        for name in ("batch_first", "bidirectional"):
            text += f", {name}=True" * getattr(self, name)
        return text + ", bias=False" * (not self.bias)


class RNN(_Recurrent):
    """Elman's network: h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu. Elman, 1990.

    Settings, parameter names and initial values (uniform within +-1 / sqrt(hidden)) as in
    PyTorch's RNN: weight_ih_l0 (hidden, inputs), weight_hh_l0, bias_ih_l0, bias_hh_l0, the second
    direction's with the ending _reverse, the next layer's l1. Dropout works between layers.
    """

    gates = 1

    def __init__(
        self,
        inputs: int,
        hidden: int,
        layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ModuleError(f"[RNN] nonlinearity {nonlinearity!r}: 'tanh' or 'relu'")
        self.nonlinearity = self.cell = nonlinearity
        super().__init__(
            inputs, hidden, layers, bias, batch_first, dropout, bidirectional,
            generator=generator, dtype=dtype,
        )  # fmt: skip


class LSTM(_Recurrent):
    """Long short-term memory; the state is the pair (h, c). Hochreiter & Schmidhuber, 1997; with
    forget gates, Gers et al., 2000:

        i, f, g, o = W_ih x + b_ih + W_hh h + b_hh
        c' = sigmoid(f) c + sigmoid(i) tanh(g)
        h' = sigmoid(o) tanh(c')

    Parameters as in RNN, the four gates in this order one below the other, as in PyTorch.
    """

    cell = "lstm"
    gates = 4
    kept = 2


class GRU(_Recurrent):
    """Gated recurrent units. Cho et al., 2014, with the reset gate after the product:

        r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
        n = tanh(W_in x + b_in + r (W_hn h + b_hn))
        h' = (1 - z) n + z h

    Parameters as in RNN, the three gates in this order one below the other, as in PyTorch.
    """

    cell = "gru"
    gates = 3
