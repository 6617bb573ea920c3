"""Softmax over the target and sampled tokens in training."""

from __future__ import annotations

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import tensor_of
from fl_text.errors import TextError
from fl_text.heads.full import FullSoftmax
from fl_text.heads.proposals import Proposal, log_uniform


class SampledHead(FullSoftmax):
    """A FullSoftmax that draws tokens in training: what SampledSoftmax and NoiseContrastive share.

    samples    how many tokens each call of `loss` draws, for all targets together
    proposal   where from; `log_uniform(tokens)` unless given
    sparse     the gradient of the weight has only the rows that were used, for SGD, Adagrad and
               SparseAdam. Not with a shared weight
    seed       of the draws; the state of `generator` is the whole state of them
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
        *,
        generator: ft.Generator | None = None,
    ) -> None:
        name = type(self).__name__
        super().__init__(size, tokens, bias, weight, generator=generator)
        self.proposal = log_uniform(tokens) if proposal is None else proposal
        if self.proposal.tokens != tokens:
            raise TextError(
                f"[{name}] the proposal has {self.proposal.tokens} tokens, the head {tokens}"
            )
        if sparse and weight is not None:
            raise TextError(f"[{name}] sparse=True: a shared weight has a dense gradient")
        if samples < 1:
            raise TextError(f"[{name}] samples={samples}: give at least 1")
        self.samples, self.sparse = samples, sparse
        if sparse:
            self.weight = nn.SparseParameter(self.weight.tensor)
        self.generator = ft.default_generator().split(1)[0] if seed is None else ft.Generator(seed)

    def _some(self, tokens: ft.Array) -> tuple[ft.Array, ft.Array]:
        """The rows of the weight and of the bias (zeros without one) of tokens (n,)."""
        rows = (ag.lookup_rows if self.sparse else ft.embedding)(self.weight, tokens)
        if self.bias is None:
            return rows, ft.zeros_like(tensor_of(rows)[:, 0])
        return rows, ft.gather(self.bias, tokens)

    def _on(self, x: ft.Array, drawn: ft.Tensor) -> ft.Array:
        """What was drawn, where `x` is."""
        return drawn if drawn.backend is x.backend else ft.asarray(drawn, None, x.device, x.backend)

    def _of_targets(self, x: ft.Array, targets: ft.Array) -> ft.Array:
        """The scores (n,) of the targets."""
        rows, shifts = self._some(targets)
        return ft.sum(x * rows, -1) + shifts

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, samples={self.samples}"


class SampledSoftmax(SampledHead):
    """A head whose training loss is a softmax over the target and `samples` other tokens.

    Jean et al., On using very large target vocabulary for neural machine translation, 2015. A call
    draws different tokens from `proposal`, which all targets share. The score of each is corrected
    by minus the log of its expected count, so that the sum of exponentials has the expectation of
    the full one; the target itself is always in, and needs no correction. A drawn token that is the
    target is left out for it. With `samples=tokens` the loss is that of FullSoftmax.

    Settings as SampledHead has them. In eval mode the loss is that of FullSoftmax. Raises
    `TextError` for more samples than tokens of the proposal.
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
        *,
        generator: ft.Generator | None = None,
    ) -> None:
        super().__init__(
            size, tokens, samples, proposal, bias, weight, sparse, seed, generator=generator
        )
        possible = self.proposal.possible
        if samples > possible or (samples == possible and possible < tokens):
            raise TextError(
                f"[SampledSoftmax] samples={samples} different tokens: the proposal has {possible} "
                "of a weight above 0; give fewer, or all tokens a weight"
            )

    def _losses(self, x: ft.Array, targets: ft.Array) -> ft.Array:
        drawn = self.proposal.draw_distinct(self.samples, self.generator)
        tokens, log_counts = (self._on(x, part) for part in drawn)
        rows, shifts = self._some(tokens)
        scores = ft.linear(x, rows, shifts - log_counts.astype(x.dtype))
        hits = ft.equal(ft.expand_dims(targets, 1), tokens)
        scores = ft.where(hits, -1e30, scores)
        own = self._of_targets(x, targets)
        every = ft.concatenate([ft.expand_dims(own, 1), scores], 1)
        return ft.logsumexp(every, 1) - own
