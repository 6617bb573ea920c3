"""Which tokens a decoder sees in training: those of targets, or others."""

from __future__ import annotations

import math

import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import tensor_of
from fl_tensor.arguments import choice_of

SAMPLINGS = ("rand", "model", "gumbel")


class Sampling(nn.Module):
    """Teacher forcing and its alternatives, with a random generator of their own.

    classes      tokens
    forcing      percentage of tokens that are those of the target
    kind         the others: "rand" any, "model" the best ones of the step before; "gumbel" replaces
                 all of them by the mean by Gumbel softmax (Jang et al., 2017)
    temperature  of Gumbel softmax
    """

    def __init__(self, classes: int, forcing: float, kind: str, temperature: float) -> None:
        if not 0 <= forcing <= 100:
            raise nn.ModuleError(f"[Sampling] teacher_forcing={forcing}: a percentage, 0 to 100")
        if not 0 < temperature < math.inf:
            raise nn.ModuleError(f"[Sampling] gumbel_temperature={temperature}: above 0")
        self.kind = choice_of("Sampling", kind, "sampling", SAMPLINGS)
        self.classes, self.forcing, self.temperature = classes, forcing, temperature
        self.generator = ft.default_generator().split(1)[0]

    def needs_scores(self) -> bool:
        """Whether training looks at scores of a step before the next one."""
        return self.kind == "gumbel" or (self.kind == "model" and self.forcing < 100)

    def mixed(self, tokens: ft.Array) -> ft.Array:
        """Tokens, each replaced by any other with the probability that remains."""
        if not self.training or self.forcing == 100:
            return tokens
        forced = self.generator.bernoulli(
            tokens.shape, self.forcing / 100, device=tokens.device, backend=tokens.backend
        )
        return ft.where(forced, tokens, self._any(tokens))

    def next(self, tokens: ft.Array, scores: ft.Array) -> tuple[ft.Array, ft.Array]:
        """What the next step sees after scores (B, classes): tokens (B,), those of the targets or
        others, or shares (B, classes); and the scores that the loss sees."""
        if self.training and self.kind == "gumbel":
            scores = self._with_noise(scores)
            return tensor_of(ft.exp(scores)), scores
        if not self.training or self._is_forced():
            return tokens, scores
        if self.kind == "model":
            return ft.argmax(tensor_of(scores), -1), scores
        return self._any(tokens), scores

    def _is_forced(self) -> bool:
        share = self.forcing / 100
        return share == 1.0 or bool(self.generator.bernoulli((), share).item())

    def _any(self, like: ft.Array) -> ft.Tensor:
        return self.generator.integers(
            0, self.classes, like.shape, ft.int64, device=like.device, backend=like.backend
        )

    def _with_noise(self, scores: ft.Array) -> ft.Array:
        drawn = self.generator.uniform(
            scores.shape, 1e-7, 1.0 - 1e-7, dtype=scores.dtype,
            device=scores.device, backend=scores.backend,
        )  # fmt: skip
        noise = -ft.log(-ft.log(drawn))
        return ft.log_softmax((scores + noise) / self.temperature, -1)

    def extra_repr(self) -> str:
        return f"{self.kind}, forcing={self.forcing}"
