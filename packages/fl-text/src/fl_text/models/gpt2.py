"""GPT-2, with a rename table for published weights.

Radford et al., Language models are unsupervised multitask learners, 2019. The output shares its
matrix with the embedding (Press & Wolf, 2017).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import fl_nn as nn
import fl_tensor as ft
from fl_nn.rename import Ignore, Rule, Table, Tied, Transpose
from fl_tensor.annotations import checked
from fl_text.heads import FullSoftmax
from fl_text.models.checks import places_of
from fl_text.models.published import PublishedConfig, load_network
from fl_text.models.published_options import gpt2_options

if TYPE_CHECKING:
    from typing_extensions import Self


class GPT2(nn.Module):
    """Tokens (N, T) give scores (N, T, tokens) of the token after each. A `CausalNetwork`.

    `layers` causal layers, which normalise first, over at most `steps` tokens. The defaults are the
    smallest model, of 124 million parameters.
    """

    def __init__(
        self,
        tokens: int = 50257,
        steps: int = 1024,
        size: int = 768,
        heads: int = 12,
        layers: int = 12,
        dropout: float = 0.1,
        eps: float = 1e-5,
    ) -> None:
        self.vocabulary, self.steps = tokens, steps
        self.embedding = nn.Embedding(tokens, size)
        self.embedding.weight.tensor = self.embedding.weight.tensor * 0.02
        self.positions = nn.PositionEmbedding(steps, size, dropout)
        self.layers = [
            nn.TransformerEncoderLayer(
                size, heads, 4 * size, dropout, "gelu_tanh", eps, norm_first=True, causal=True
            )
            for _ in range(layers)
        ]
        self.norm = nn.LayerNorm(size, eps)

    @property
    def head(self) -> FullSoftmax:
        """The output, which has no parameters of its own."""
        return FullSoftmax.of(self.embedding)

    def forward(self, tokens: ft.Array, caches: Sequence[nn.Cache] | None = None) -> ft.Array:
        """`caches`, one for each layer, hold the tokens before these, and these afterwards."""
        return self.head(self.hidden(tokens, caches))

    def hidden(
        self,
        tokens: ft.Array,
        caches: Sequence[nn.Cache] | None = None,
        documents: ft.Array | None = None,
    ) -> ft.Array:
        """Vectors (N, T, size) of tokens (N, T), which extend `caches`; `documents` as in
        `TransformerLanguageModel.hidden`."""
        before, mask = places_of("GPT2", tokens, caches, documents)
        x = self.positions(self.embedding(tokens), before)
        for place, layer in enumerate(self.layers):
            x = layer(x, mask, cache=caches[place] if caches else None)
        y: ft.Array = self.norm(x)
        return y

    def caches(self) -> list[nn.KVCache]:
        """Empty ones, for generation."""
        return [nn.KVCache() for _ in self.layers]

    @classmethod
    @checked
    def from_huggingface(cls, folder: str | os.PathLike[str], ignore: Iterable[str] = ()) -> Self:
        """The network of a folder with `config.json` and weights: as `Llama.from_huggingface`."""
        config = PublishedConfig(Path(folder) / "config.json")
        options = gpt2_options(config)
        config.finish(ignore)
        with nn.open_tensors(folder) as file:
            whole = any(name.startswith("transformer.") for name in file.tensors)
        table = GPT2_HUGGING_FACE if whole else GPT2_BODY_HUGGING_FACE
        return load_network(config, lambda: cls(**options), folder, table)


# Its convolutions of width 1 keep their matrices the other way round.
_NAMES = Table(
    Rule("wte.weight", "embedding.weight"),
    Rule("wpe.weight", "positions.weight"),
    Rule("h.{i}.ln_1.{p}", "layers.{i}.norm1.{p}"),
    Rule("h.{i}.ln_2.{p}", "layers.{i}.norm2.{p}"),
    Rule("h.{i}.attn.c_attn.weight", "layers.{i}.self_attn.in_proj_weight", Transpose()),
    Rule("h.{i}.attn.c_attn.bias", "layers.{i}.self_attn.in_proj_bias"),
    Rule("h.{i}.attn.c_proj.weight", "layers.{i}.self_attn.out_proj.weight", Transpose()),
    Rule("h.{i}.attn.c_proj.bias", "layers.{i}.self_attn.out_proj.bias"),
    Rule("h.{i}.mlp.c_fc.weight", "layers.{i}.linear1.weight", Transpose()),
    Rule("h.{i}.mlp.c_fc.bias", "layers.{i}.linear1.bias"),
    Rule("h.{i}.mlp.c_proj.weight", "layers.{i}.linear2.weight", Transpose()),
    Rule("h.{i}.mlp.c_proj.bias", "layers.{i}.linear2.bias"),
    Rule("ln_f.{p}", "norm.{p}"),
    # Older files hold the causal mask and the number that stands for minus infinity.
    Ignore("h.{i}.attn.bias"),
    Ignore("h.{i}.attn.masked_bias"),
)

#: Files of transformers' GPT2Model, as the published ones are.
GPT2_BODY_HUGGING_FACE = _NAMES
#: Files of transformers' GPT2LMHeadModel.
GPT2_HUGGING_FACE = Table(
    *_NAMES.below("transformer.").rules, Tied("lm_head.weight", of="transformer.wte.weight")
)
