"""Stream: a network over a recording that arrives in pieces, with the state of its convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import Reparametrization
from fl_speech.models.layouts import arranged, sequences
from fl_speech.models.lengths import WINDOWS, Time, behind, leaves

Function = Callable[[ft.Array], ft.Array]

_ACTIVATIONS = nn.ReLU.__module__
#: Layers that treat every step by itself, where they do not work along time.
_STEPWISE = (
    nn.Linear, nn.Dropout, nn.ScalarLayerNorm, nn.LayerNorm, nn.BatchNorm, nn.RMSNorm, nn.View,
    nn.Reorder, nn.Flatten, nn.SpecAugment, nn.Identity, nn.Cast, nn.Embedding,
    *(c for c in vars(nn).values() if getattr(c, "__module__", "") == _ACTIVATIONS),
)  # fmt: skip


class Stream:
    """`model.stream()`: scores of one recording, or of a batch of equally long ones, in pieces.

        stream = model.stream()
        for chunk in chunks:                    # (k, F), or (B, k, F)
            scores = stream.push(chunk)         # (m, N), or (B, m, N); m may be 0
        scores = stream.finish()                # what the padding at the end still gives

    The pieces one behind the other are the scores of the whole recording. A layer keeps the steps
    that its next window needs, so memory does not grow with the recording. Streaming takes

    * convolutions and pooling with fixed padding ("same" only with stride 1, and not for pooling),
      `Padding` with zeros, TDSBlock without norms over time, and
    * layers that treat each step by itself.

    Attention, recurrent layers, Residual, and norms over time are refused with ModuleError, which
    names the layer. Gradients are not recorded.
    """

    def __init__(self, network: nn.Module, layout: str, time: Time) -> None:
        self._layout = layout
        self._stages = [_stage(layer, place) for layer, place in leaves(network, time)]
        self._end = behind(network, time)
        self._shape: tuple[int, ...] | None = None
        self._finished = False
        self._network, self._time = network, time

    def push(self, features: ft.Array) -> ft.Array:
        """The next steps; gives the scores that are settled. Raises ft.ShapeError for another
        number of features than before, ft.ArgumentError behind `finish`."""
        if self._finished:
            raise ft.ArgumentError("[Stream] push behind finish: make another stream")
        if not isinstance(features, ft.Array):
            raise ft.DTypeError(f"[Stream] features {features!r}: expected a tensor")
        if features.ndim not in (2, 3):
            raise ft.ShapeError(
                f"[Stream] features {features.shape}: expected (steps, features) or (batch, steps, "
                "features)"
            )
        kept = (features.ndim, *features.shape[:-2], features.shape[-1])
        if self._shape not in (None, kept):
            raise ft.ShapeError(f"[Stream] features {features.shape} behind others: {self._shape}")
        first, self._shape = self._shape is None, kept
        batch = features if features.ndim == 3 else ft.expand_dims(features, 0)
        if first:
            self._empty = self._no_scores(batch)
        x = arranged(batch, self._layout) if batch.shape[1] else None
        with ag.no_grad():
            return self._scores([self._through(x, 0)])

    def finish(self) -> ft.Array:
        """The scores that are left at the end of the recording."""
        if self._finished:
            raise ft.ArgumentError("[Stream] finish twice: make another stream")
        if self._shape is None:
            raise ft.ArgumentError("[Stream] finish before push: there are no features")
        self._finished = True
        pieces = []
        with ag.no_grad():
            for place, stage in enumerate(self._stages):
                pieces.append(self._through(stage.finish(), place + 1))
            return self._scores(pieces)

    def _through(self, x: ft.Array | None, start: int) -> ft.Array | None:
        for stage in self._stages[start:]:
            if x is None:
                return None
            x = stage.push(x)
        return x

    def _scores(self, pieces: list[ft.Array | None]) -> ft.Array:
        found = [sequences(y, self._end) for y in pieces if y is not None]
        y = ft.concatenate([self._empty, *found], 1)
        assert self._shape is not None
        return y if self._shape[0] == 3 else y[0]

    def _no_scores(self, features: ft.Array) -> ft.Array:
        # Zeros through the network, as few as give a step, say how many classes there are.
        steps, (axis, ndim) = 1, (self._time.axis, self._time.ndim)
        while behind(self._network, Time(axis, ndim, (steps,))).steps[0] < 1:
            steps *= 2
        batch, _, size = features.shape
        with ag.no_grad(), ft.use(features.backend):
            zeros = ft.zeros((batch, steps, size), features.dtype, device=features.device)
            y = self._network(arranged(zeros, self._layout))
        return sequences(y, self._end)[:, :0]


class _Stepwise:
    def __init__(self, function: Function) -> None:
        self.push = function

    def finish(self) -> ft.Array | None:
        return None


class _Window:
    """A function that makes a step of `span` steps, each `stride` behind the one before, of what is
    pushed with `before` and `after` steps of zeros around it."""

    def __init__(
        self, function: Function, axis: int, span: int, stride: int, before: int, after: int
    ) -> None:
        self.function, self.axis = function, axis
        self.span, self.stride, self.before, self.after = span, stride, before, after
        self.kept: ft.Array | None = None
        self.skip = 0
        self.like: ft.Array | None = None

    def push(self, x: ft.Array) -> ft.Array | None:
        if self.like is None:
            self.like = self._part(x, 0, 1) * 0.0
            if self.before:
                x = ft.concatenate([self._zeros(self.before), x], self.axis)
        return self._made(x)

    def finish(self) -> ft.Array | None:
        if self.like is None or not self.after:
            return None
        return self._made(self._zeros(self.after))

    def _made(self, x: ft.Array) -> ft.Array | None:
        if self.kept is not None:
            x = ft.concatenate([self.kept, x], self.axis)
        skipped = min(self.skip, x.shape[self.axis])
        self.skip -= skipped
        steps = x.shape[self.axis] - skipped
        x = self._part(x, skipped, skipped + steps)
        count = (steps - self.span) // self.stride + 1 if steps >= self.span else 0
        used = count * self.stride
        self.skip += max(used - steps, 0)
        self.kept = self._part(x, used, steps) if used < steps else None
        if not count:
            return None
        return self.function(self._part(x, 0, used - self.stride + self.span))

    def _part(self, x: ft.Array, start: int, stop: int) -> ft.Array:
        return x[(slice(None),) * self.axis + (slice(start, stop),)]

    def _zeros(self, count: int) -> ft.Array:
        assert self.like is not None
        return ft.concatenate([self.like] * count, self.axis)


def _stage(layer: nn.Module, time: Time) -> Any:
    inner, axis = layer, time.axis
    while isinstance(inner, (nn.FourAxes, Reparametrization)):
        if isinstance(inner, nn.FourAxes):
            axis -= int(time.ndim == 4 and axis > inner.axis)
        inner = inner.module
    if isinstance(inner, nn.Padding):
        return _padding_stage(inner, time)
    if isinstance(inner, nn.TDSBlock):
        if inner.norm1.axes != (1, 2):
            raise _refused(inner, "its norms go over time: build it with norm_over_time=False")
        past = inner.kernel - 1 - inner.future
        return _Window(inner.without_padding, time.axis, inner.kernel, 1, past, inner.future)
    if isinstance(inner, WINDOWS):
        return _window_stage(layer, inner, time, axis - 2)
    _check_stepwise(inner, axis, time.ndim - (time.axis - axis))
    return _Stepwise(layer)


def _padding_stage(layer: nn.Padding, time: Time) -> Any:
    widths = [(layer.widths,) * 2] * time.ndim if isinstance(layer.widths, int) else layer.widths
    if layer.mode != "constant" or layer.value != 0.0:
        raise _refused(layer, "only zeros can be added before the rest is known")
    rest = [(0, 0) if i == time.axis else pair for i, pair in enumerate(widths)]
    others = nn.Padding(rest)
    before, after = widths[time.axis]
    return _Window(others, time.axis, 1, 1, before, after)


def _window_stage(layer: nn.Module, inner: Any, time: Time, place: int) -> Any:
    pooling = hasattr(inner, "window")
    size = (inner.window if pooling else inner.kernel)[place]
    stride, padding = inner.stride[place], inner.padding[place]
    span = inner.dilation[place] * (size - 1) + 1
    if getattr(inner, "ceil_mode", False):
        raise _refused(inner, "with ceil_mode its last window depends on the length")
    if pooling and padding != 0 and span > 1:
        raise _refused(inner, "pooling streams without padding")
    if padding is None and stride > 1:
        raise _refused(
            inner, 'with a stride, "same" padding depends on the length: put Padding before it'
        )
    total = span - 1 if padding is None else 2 * padding
    if isinstance(inner, nn.AsymmetricConv1D):
        probe = inner.padding_sides((max(span, stride),))[0] if padding is not None else None
        after = probe[1] if probe is not None else -int(-total * inner.future // 1)
    else:
        after = total - total // 2
    unpadded = tuple(0 if i == place else p for i, p in enumerate(inner.padding))
    function = _with(layer, inner, padding=unpadded)
    return _Window(function, time.axis, span, stride, total - after, after)


def _with(layer: Any, inner: nn.Module, **values: Any) -> Any:
    """`layer` with other attributes in `inner`, which it calls; parameters are shared."""
    made = object.__new__(type(layer))
    vars(made).update(vars(layer))
    if layer is inner:
        vars(made).update(values)
    else:
        vars(made)["module"] = _with(layer.module, inner, **values)
    return made


def _check_stepwise(layer: nn.Module, axis: int, ndim: int) -> None:
    if not isinstance(layer, _STEPWISE):
        raise _refused(layer, "it is not known to treat every step by itself")
    along: Any = getattr(layer, "axes", getattr(layer, "axis", ()))
    if isinstance(layer, nn.Reorder):
        return
    if isinstance(layer, (nn.Linear, nn.RMSNorm)) or (
        isinstance(layer, nn.LayerNorm) and not along
    ):
        along = range(ndim - len(getattr(layer, "shape", (1,))), ndim)
    along = (along,) if isinstance(along, int) else along
    if axis in [a % ndim for a in along]:
        raise _refused(layer, "it works along time")


def _refused(layer: nn.Module, reason: str) -> nn.ModuleError:
    kind = f"{type(layer).__name__}({layer.extra_repr()})"
    return nn.ModuleError(f"[Stream] {kind} cannot stream: {reason}")
