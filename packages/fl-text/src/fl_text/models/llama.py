"""Llama, and the networks that are built like it, with a rename table for published weights.

Touvron et al., LLaMA: open and efficient foundation language models, 2023; Grattafiori et al., The
Llama 3 herd of models, 2024. With `qkv_bias` it is Qwen2 (Yang et al., 2024), with `window` Mistral
(Jiang et al., 2023).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fl_nn as nn
import fl_tensor as ft
from fl_nn.rename import Ignore, Rule, Table
from fl_tensor.annotations import checked
from fl_text.errors import TextError
from fl_text.heads import FullSoftmax
from fl_text.models.checks import places_of
from fl_text.models.published import PublishedConfig, load_network
from fl_text.models.published_options import llama_options

if TYPE_CHECKING:
    from typing_extensions import Self


class LlamaAttention(nn.Module):
    """Causal attention with grouped queries over x (batch, steps, size), rotated by position.

    `window`: a step sees itself and the `window` - 1 steps before it; None for all.
    """

    def __init__(
        self,
        size: int,
        heads: int,
        kv_heads: int,
        head_size: int,
        qkv_bias: bool = False,
        out_bias: bool = False,
        window: int | None = None,
    ) -> None:
        self.heads, self.kv_heads, self.head_size, self.window = heads, kv_heads, head_size, window
        self.q_proj = nn.Linear(size, heads * head_size, qkv_bias)
        self.k_proj = nn.Linear(size, kv_heads * head_size, qkv_bias)
        self.v_proj = nn.Linear(size, kv_heads * head_size, qkv_bias)
        self.o_proj = nn.Linear(heads * head_size, size, out_bias)

    def forward(
        self,
        x: ft.Array,
        rotary: nn.RotaryEmbedding,
        angles: tuple[ft.Array, ft.Array],
        cache: nn.Cache | None = None,
        mask: ft.Array | None = None,
    ) -> ft.Array:
        """`angles`: cosines and sines of these steps, as `rotary.angles` gives them. `mask`, bool
        (N, 1, T, T), goes without a cache."""
        q = rotary.turn(self._split(self.q_proj(x), self.heads), *angles)
        k = rotary.turn(self._split(self.k_proj(x), self.kv_heads), *angles)
        v = self._split(self.v_proj(x), self.kv_heads)
        if isinstance(cache, nn.CacheStep):
            mixed = cache.attention(q, k, v, self.head_size**-0.5, True, self.window)
        else:
            if cache is not None:
                k, v = cache.append(k, v)
            near = self._near(x, k.shape[2])
            if mask is not None:
                near = mask if near is None else ft.logical_and(near, mask)
            mixed = nn.attention(q, k, v, near, causal=True)
        n, heads, steps, size = mixed.shape
        return self.o_proj(ft.swapaxes(mixed, 1, 2).reshape(n, steps, heads * size))

    def _split(self, x: ft.Array, heads: int) -> ft.Array:
        n, steps, _ = x.shape
        return ft.swapaxes(x.reshape(n, steps, heads, self.head_size), 1, 2)

    def _near(self, x: ft.Array, keys: int) -> ft.Array | None:
        """(steps, keys): whether a key is near enough. The last query stands at the last key."""
        if self.window is None or keys <= self.window:
            return None
        with ft.use(x.backend):
            places = ft.arange(keys, device=x.device)
        return places[None, :] > places[keys - x.shape[1] :, None] - self.window


class SwiGLU(nn.Module):
    """`down(silu(gate(x)) * up(x))`, through `hidden` features. Shazeer, 2020."""

    def __init__(self, size: int, hidden: int, bias: bool = False) -> None:
        self.gate_proj = nn.Linear(size, hidden, bias)
        self.up_proj = nn.Linear(size, hidden, bias)
        self.down_proj = nn.Linear(hidden, size, bias)

    def forward(self, x: ft.Array) -> ft.Array:
        return self.down_proj(ft.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    """Attention and a feed-forward network, each with RMSNorm before and a residual around."""

    def __init__(self, size: int, eps: float, attention: LlamaAttention, mlp: SwiGLU) -> None:
        self.norm1, self.norm2 = nn.RMSNorm(size, eps), nn.RMSNorm(size, eps)
        self.self_attn, self.mlp = attention, mlp

    def forward(
        self,
        x: ft.Array,
        rotary: nn.RotaryEmbedding,
        angles: tuple[ft.Array, ft.Array],
        cache: nn.Cache | None = None,
        mask: ft.Array | None = None,
    ) -> ft.Array:
        x = x + self.self_attn(self.norm1(x), rotary, angles, cache, mask)
        return x + self.mlp(self.norm2(x))


class Llama(nn.Module):
    """Tokens (N, T) give scores (N, T, tokens) of the token after each.

    tokens        size of the vocabulary
    steps         positions of the context
    kv_heads      heads of keys and values, which divide `heads`; `heads` unless given
    hidden        features inside the feed-forward networks
    head_size     size / heads unless given
    rope_theta    base of the rotary positions
    rope_scaling  as `scaling` of `nn.RotaryEmbedding`; "linear" and "dynamic" multiply the context
                  by their factor
    qkv_bias, out_bias, mlp_bias   biases of queries, keys and values; of what follows attention; of
                  the feed-forward networks
    tied          the output has the matrix of the embedding
    window        how many steps a step sees, itself included; None for all

    The defaults are the sizes of Llama 7B. Raises TextError for heads that do not divide.
    """

    def __init__(
        self,
        tokens: int = 32000,
        steps: int = 2048,
        size: int = 4096,
        heads: int = 32,
        layers: int = 32,
        kv_heads: int | None = None,
        hidden: int = 11008,
        head_size: int | None = None,
        eps: float = 1e-6,
        rope_theta: float = 10000.0,
        rope_scaling: Mapping[str, Any] | None = None,
        qkv_bias: bool = False,
        out_bias: bool = False,
        mlp_bias: bool = False,
        tied: bool = False,
        window: int | None = None,
    ) -> None:
        kv_heads = heads if kv_heads is None else kv_heads
        counts = {"steps": steps, "heads": heads, "layers": layers, "kv_heads": kv_heads}
        counts |= {"window": 1 if window is None else window}
        for name, count in counts.items():
            if count < 1:
                raise TextError(f"[Llama] {name}={count}: give a number of at least 1")
        if heads % kv_heads or (head_size is None and size % heads):
            raise TextError(
                f"[Llama] size {size}, {heads} heads, {kv_heads} kv_heads: kv_heads must divide "
                "heads, and heads must divide size unless head_size is given"
            )
        head_size = size // heads if head_size is None else head_size
        self.vocabulary, self.steps, self.tied = tokens, steps, tied
        self.rotary = nn.RotaryEmbedding(head_size, rope_theta, scaling=rope_scaling)
        self.embedding = nn.Embedding(tokens, size)
        self.embedding.weight.tensor = self.embedding.weight.tensor * 0.02
        self.layers = [
            LlamaLayer(
                size,
                eps,
                LlamaAttention(size, heads, kv_heads, head_size, qkv_bias, out_bias, window),
                SwiGLU(size, hidden, mlp_bias),
            )
            for _ in range(layers)
        ]
        self.norm = nn.RMSNorm(size, eps)
        with ft.use("null") if tied else ft.use(ft.current_backend()):
            self.output = nn.Linear(size, tokens, bias=False)
        if tied:
            self.output.weight = self.embedding.weight

    @property
    def head(self) -> FullSoftmax:
        """The output, which has no parameters of its own."""
        return FullSoftmax.of(self.output)

    @property
    def context(self) -> int:
        """The most tokens that a text may have: `steps`, times the factor of linear and dynamic
        scaling."""
        scaling = self.rotary.scaling
        factor = scaling["factor"] if scaling["rope_type"] in ("linear", "dynamic") else 1.0
        return int(self.steps * factor)

    def hidden(
        self,
        tokens: ft.Array,
        caches: Sequence[nn.Cache] | None = None,
        documents: ft.Array | None = None,
    ) -> ft.Array:
        """The features (N, T, size) that the output reads; `documents` as in
        `TransformerLanguageModel.hidden`. Raises ShapeError for tokens that are not (N, T), or
        that, with those in the caches, are more than the context."""
        before, mask = places_of("Llama", tokens, caches, documents)
        # The steps of a CacheStep are an array, whose numbers a graph does not know.
        after = tokens.shape[-1] + (0 if isinstance(before, ft.Array) else before)
        if tokens.ndim != 2 or after > self.context:
            raise ft.ShapeError(
                f"[Llama] tokens {tokens.shape} after {before} in the caches: expected (N, T), and "
                f"at most {self.context} steps; cut the text, or build the model with rope_scaling"
            )
        if caches is not None and len(caches) != len(self.layers):
            raise ft.ShapeError(
                f"[Llama] {len(caches)} caches for {len(self.layers)} layers: use model.caches()"
            )
        x = self.embedding(tokens)
        angles = self.rotary.angles(x, tokens.shape[1], before)
        for place, layer in enumerate(self.layers):
            x = layer(x, self.rotary, angles, caches[place] if caches else None, mask)
        return self.norm(x)

    def forward(self, tokens: ft.Array, caches: Sequence[nn.Cache] | None = None) -> ft.Array:
        """`caches`, one for each layer, hold the tokens before these, and these afterwards."""
        return self.output(self.hidden(tokens, caches))

    def caches(self) -> list[nn.KVCache]:
        """Empty ones, for generation."""
        return [nn.KVCache() for _ in self.layers]

    @classmethod
    @checked
    def from_huggingface(cls, folder: str | os.PathLike[str], ignore: Iterable[str] = ()) -> Self:
        """The network of a folder with `config.json` and weights, `model.safetensors` or shards
        with an index. Weights become float32.

        ignore  keys of config.json that are passed over although they are unknown here

        Raises TextFileError for a configuration that is malformed or not supported, and
        `fl_nn.CheckpointError` for weights that do not fit it.
        """
        config = PublishedConfig(Path(folder) / "config.json")
        options = llama_options(config)
        config.finish(ignore)
        return load_network(config, lambda: cls(**options), folder, LLAMA_HUGGING_FACE)


#: Files of transformers' LlamaForCausalLM, Qwen2ForCausalLM and MistralForCausalLM.
LLAMA_HUGGING_FACE = Table(
    # Older files hold the frequencies of the rotary positions.
    Ignore("model.layers.{i}.self_attn.rotary_emb.inv_freq"),
    Rule("model.embed_tokens.weight", "embedding.weight"),
    Rule("model.layers.{i}.input_layernorm.weight", "layers.{i}.norm1.weight"),
    Rule("model.layers.{i}.post_attention_layernorm.weight", "layers.{i}.norm2.weight"),
    Rule("model.layers.{i}.self_attn.{m}.{p}", "layers.{i}.self_attn.{m}.{p}"),
    Rule("model.layers.{i}.mlp.{m}.{p}", "layers.{i}.mlp.{m}.{p}"),
    Rule("model.norm.weight", "norm.weight"),
    Rule("lm_head.weight", "output.weight"),
)
