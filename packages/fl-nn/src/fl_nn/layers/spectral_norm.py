"""SpectralNorm: a weight divided by its largest singular value."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import fl_autograd as ag
import fl_tensor as ft
from fl_nn import init
from fl_nn.errors import ModuleError
from fl_nn.layers.conv import ConvTranspose1D, ConvTranspose2D, ConvTranspose3D
from fl_nn.layers.reparametrization import Reparametrization
from fl_nn.module import Module
from fl_nn.parameter import Parameter
from fl_nn.settings import ABOVE_ZERO, COUNT
from fl_nn.values import like, tensor_of

_TRANSPOSED = (ConvTranspose1D, ConvTranspose2D, ConvTranspose3D)
#: So many steps of the power iteration are made when a layer is built, as in PyTorch.
_FIRST_STEPS = 15
#: The number of the last call of any SpectralNorm in training, in this context.
_calls: ContextVar[int] = ContextVar("fl_nn_spectral_norm_calls", default=0)
#: So many calls of a layer can wait for their backward pass under ``ag.checkpoint``.
_KEPT = 64


class SpectralNorm(Reparametrization):
    """Calls `module` with `weight / s`, where s is the largest singular value of the weight as a
    matrix: `axis` by all other axes. Miyato et al., 2018, for discriminators of GANs.

    axis        the axis of the outputs; None: 1 for transposed convolutions, else 0
    name        the parameter of `module`, which becomes `original` here
    iterations  steps of the power iteration per call in training. It goes on from the singular
                vectors of the call before, which evaluation leaves alone
    eps         the least length by which the vectors are divided
    generator   draws the first vectors

    A parameter of one axis is divided by its length. Names in `state_dict` are those of PyTorch's
    `parametrizations.spectral_norm`: for Linear bias, parametrizations.weight.original and the
    buffers parametrizations.weight.0._u and ._v. Raises ModuleError for settings without sense.
    """

    originals = {"original": "original", "_u": "0._u", "_v": "0._v"}

    def __init__(
        self,
        module: Module,
        axis: int | None = None,
        name: str = "weight",
        *,
        iterations: int = 1,
        eps: float = 1e-12,
        generator: ft.Generator | None = None,
    ) -> None:
        for setting, value, kind in (("iterations", iterations, COUNT), ("eps", eps, ABOVE_ZERO)):
            if not kind.fits(value):
                raise ModuleError(f"[SpectralNorm] {setting}={value!r}: give {kind.words}")
        super().__init__(module, name)
        weight = self.taken_parameter()
        axis = int(isinstance(module, _TRANSPOSED)) if axis is None else axis
        if weight.dtype.kind == "c" or not -weight.ndim <= axis < weight.ndim:
            setattr(module, name, weight)
            raise ModuleError(
                f"[SpectralNorm] axis {axis}: the {name} is {weight.dtype} {weight.shape}; give an "
                "axis of a real weight"
            )
        self.axis, self.iterations, self.eps = axis % weight.ndim, iterations, eps
        self.original = Parameter(weight.tensor)
        self._u: Any
        self._v: Any
        if weight.ndim > 1:
            matrix = self._matrix(weight.tensor)
            drawn = [
                init.normal((size,), generator=generator, dtype=weight.dtype)
                for size in matrix.shape
            ]
            u, v = (self._unit(like(vector, weight.tensor)) for vector in drawn)
            u, v = self._iterated(matrix, (u, v), _FIRST_STEPS)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)
            #: The vectors before the last calls, by the numbers of these.
            self._starts: dict[int, tuple[Any, Any]] = {}

    def forward(self, *inputs: Any, **options: Any) -> Any:
        return self.call_with(self._normalised(), inputs, options)

    def _normalised(self) -> Any:
        if self.original.ndim == 1:
            return self._unit(self.original)
        matrix = self._matrix(self.original)
        u, v = self._u, self._v
        if self.training:
            # The second run of a checkpointed function has to compute the same as the first. It
            # has a copy of the context, in which its calls have the same numbers.
            again, number = ag.is_recomputing(), _calls.get() + 1
            _calls.set(number)
            start = self._starts.get(number) if again else (u, v)
            if start is None:
                raise ag.GradError(
                    f"[SpectralNorm] {_KEPT} calls later a checkpointed one cannot be computed "
                    "again: call backward() earlier"
                )
            u, v = self._iterated(tensor_of(matrix), start, self.iterations)
            if not again:
                self._starts[number], self._u, self._v = start, u, v
                if len(self._starts) > _KEPT:
                    del self._starts[next(iter(self._starts))]
        return self.original / ft.sum(u * ft.matmul(matrix, v))

    def _iterated(self, matrix: ft.Array, vectors: tuple[Any, Any], steps: int) -> tuple[Any, Any]:
        u, v = vectors
        for _ in range(steps):
            u = self._unit(ft.matmul(matrix, v))
            v = self._unit(ft.matmul(u, matrix))
        return u, v

    def _matrix(self, weight: ft.Array) -> Any:
        front = ft.moveaxis(weight, self.axis, 0)
        return ft.reshape(front, (front.shape[0], -1))

    def _unit(self, x: ft.Array) -> Any:
        return x / ft.maximum(ft.norm(x), self.eps)

    def extra_repr(self) -> str:
        text = f"axis={self.axis}, iterations={self.iterations}, eps={self.eps}"
        return ", ".join(filter(None, (text, super().extra_repr())))
