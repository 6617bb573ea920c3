"""Noise-contrastive estimation of a softmax in training."""

from __future__ import annotations

import math

import fl_nn as nn
import fl_tensor as ft
from fl_text.errors import TextError
from fl_text.heads.proposals import Proposal
from fl_text.heads.sampled import SampledHead


class NoiseContrastive(SampledHead):
    """A head that learns to tell the target from k = `samples` tokens of noise.

    Gutmann & Hyvarinen, 2010; Mnih & Teh, A fast and simple algorithm for training neural
    probabilistic language models, 2012. With the noise distribution q, the proposal, and

        d(w) = score(w) - log_normalizer - log(k q(w))

    the loss of a target t and noise tokens w_1 .. w_k, drawn with replacement and shared by all
    targets, is softplus(-d(t)) + sum of softplus(d(w_i)). It trains scores to be log-probabilities
    plus `log_normalizer`. A large vocabulary starts best with about log(tokens).

    Settings as SampledHead has them. In eval mode the loss is that of FullSoftmax, normalised over
    all tokens. Raises `TextError` for a `log_normalizer` that is not finite.
    """

    def __init__(
        self,
        size: int,
        tokens: int,
        samples: int,
        proposal: Proposal | None = None,
        bias: bool | nn.Parameter = True,
        weight: nn.Parameter | None = None,
        sparse: bool = False,
        seed: int | None = None,
        log_normalizer: float = 0.0,
        *,
        generator: ft.Generator | None = None,
    ) -> None:
        super().__init__(
            size, tokens, samples, proposal, bias, weight, sparse, seed, generator=generator
        )
        if not math.isfinite(log_normalizer):
            raise TextError(
                f"[NoiseContrastive] log_normalizer={log_normalizer}: give a finite number"
            )
        self.log_normalizer = log_normalizer

    def _losses(self, x: ft.Array, targets: ft.Array) -> ft.Array:
        noise = self._on(x, self.proposal.draw(self.samples, self.generator))
        shift = self.log_normalizer + math.log(self.samples)
        log_q = self._on(x, self.proposal.log_probs).astype(x.dtype) + shift
        rows, biases = self._some(noise)
        of_noise = ft.linear(x, rows, biases - ft.gather(log_q, noise))
        of_target = self._of_targets(x, targets) - ft.gather(log_q, targets)
        return ft.softplus(-of_target) + ft.sum(ft.softplus(of_noise), 1)
