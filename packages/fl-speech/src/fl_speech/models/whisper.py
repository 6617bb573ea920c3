"""Whisper: a Transformer from log-mel features to text.

Radford et al., Robust speech recognition via large-scale weak supervision, 2022.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_nn.rename import Rule, Table, Tied
from fl_speech.models.hugging_face import Config, attention_rules
from fl_tensor.annotations import explained

#: Keys and values (B, heads, S, size / heads) of the recording.
Memory = tuple[ft.Array, ft.Array]


class _DecoderLayer(nn.Module):
    # A pre-norm layer that projects the recording once: `memory` gives what `forward` looks at.

    def __init__(self, size: int, heads: int, hidden: int, dropout: float) -> None:
        self.self_attn = nn.MultiHeadAttention(size, heads, dropout)
        self.multihead_attn = nn.MultiHeadAttention(size, heads, dropout)
        self.linear1, self.linear2 = nn.Linear(size, hidden), nn.Linear(hidden, size)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(size) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: ft.Array, memory: Memory, cache: nn.KVCache | None = None) -> ft.Array:
        x = x + self.dropout(self.self_attn(self.norm1(x), causal=True, cache=cache))
        x = x + self.dropout(self._look(self.norm2(x), *memory))
        hidden = ft.gelu(self.linear1(self.norm3(x)))
        return x + self.dropout(self.linear2(self.dropout(hidden)))

    def memory(self, encoded: ft.Array) -> Memory:
        keys, values = (self._heads(self._projected(encoded, part)) for part in (1, 2))
        return keys, values

    def _look(self, x: ft.Array, keys: ft.Array, values: ft.Array) -> ft.Array:
        mixed = nn.attention(self._heads(self._projected(x, 0)), keys, values)
        joined = ft.swapaxes(mixed, 1, 2).reshape(x.shape)
        return self.multihead_attn.out_proj(joined)

    def _projected(self, x: ft.Array, part: int) -> ft.Array:
        attention, size = self.multihead_attn, x.shape[-1]
        rows = slice(part * size, (part + 1) * size)
        assert attention.in_proj_bias is not None
        return ft.linear(x, attention.in_proj_weight[rows], attention.in_proj_bias[rows])

    def _heads(self, x: ft.Array) -> ft.Array:
        return ft.swapaxes(x.reshape(*x.shape[:2], self.multihead_attn.heads, -1), 1, 2)


class Whisper(nn.Module):
    """`model(features (B, 2 * steps, mels), tokens (B, L)) -> scores (B, L, classes)` of the token
    behind each. Features are those of `whisper_features`, of 30 seconds.

    steps   positions of the encoder, for twice as many frames
    texts   the longest text, in tokens
    start, end  the tokens with which a text begins and ends

    The defaults are the tiny model, of 37 million parameters. Raises ft.ShapeError for other shapes
    and for too many frames or tokens.
    """

    def __init__(
        self,
        classes: int = 51865,
        mels: int = 80,
        size: int = 384,
        heads: int = 6,
        hidden: int = 1536,
        layers: int = 4,
        decoder_heads: int | None = None,
        decoder_hidden: int | None = None,
        decoder_layers: int | None = None,
        steps: int = 1500,
        texts: int = 448,
        dropout: float = 0.0,
        layer_drop: float = 0.0,
        start: int = 50257,
        end: int = 50256,
    ) -> None:
        for name, token in (("start", start), ("end", end)):
            if not 0 <= token < classes:
                raise nn.ModuleError(f"[Whisper] {name} {token}: a token from 0 to {classes - 1}")
        self.mels, self.steps, self.texts = mels, steps, texts
        self.start, self.end = start, end
        self.conv1 = nn.Conv1D(mels, size, 3, padding=1)
        self.conv2 = nn.Conv1D(size, size, 3, 2, padding=1)
        self.positions = nn.PositionEmbedding(steps, size)
        self.layers = [
            nn.TransformerEncoderLayer(
                size, heads, hidden, dropout, "gelu", norm_first=True, layer_drop=layer_drop
            )
            for _ in range(layers)
        ]
        self.norm = nn.LayerNorm(size)
        self.embedding = nn.Embedding(classes, size)
        self.embedding.weight.tensor = self.embedding.weight.tensor * 0.02
        self.decoder_positions = nn.PositionEmbedding(texts, size)
        self.decoder_layers = [
            _DecoderLayer(size, decoder_heads or heads, decoder_hidden or hidden, dropout)
            for _ in range(decoder_layers or layers)
        ]
        self.decoder_norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: ft.Array, tokens: ft.Array) -> ft.Array:
        return self.decode(tokens, self.memory(self.encode(features)))

    def encode(self, features: ft.Array) -> ft.Array:
        """Features (B, T, mels), at most 2 * steps frames, give (B, ceil(T / 2), size)."""
        if features.ndim != 3 or features.shape[2] != self.mels or not features.shape[1]:
            raise ft.ShapeError(
                f"[Whisper] features {features.shape}: expected (batch, frames, {self.mels})"
            )
        x = ft.gelu(self.conv1(ft.swapaxes(features, 1, 2)))
        x = ft.swapaxes(ft.gelu(self.conv2(x)), 1, 2)
        x = self.dropout(self.positions(x))
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    def memory(self, encoded: ft.Array) -> list[Memory]:
        """What each decoder layer sees of the recording."""
        return [layer.memory(encoded) for layer in self.decoder_layers]

    def decode(
        self,
        tokens: ft.Array,
        memory: Sequence[Memory],
        caches: Sequence[nn.KVCache] | None = None,
    ) -> ft.Array:
        """Tokens (B, L) give scores (B, L, classes). `caches`, one for each layer, hold the tokens
        before these, and these afterwards."""
        if tokens.ndim != 2:
            raise ft.ShapeError(f"[Whisper] tokens {tokens.shape}: expected (batch, tokens)")
        before = caches[0].steps if caches else 0
        x = self.dropout(self.decoder_positions(self.embedding(tokens), before))
        for place, layer in enumerate(self.decoder_layers):
            x = layer(x, memory[place], caches[place] if caches else None)
        return ft.linear(self.decoder_norm(x), self.embedding.weight)

    @explained
    def greedy(
        self,
        features: ft.Array,
        prompt: Sequence[int] | None = None,
        max_tokens: int | None = None,
        suppress: Sequence[int] = (),
    ) -> list[list[int]]:
        """The tokens of each recording, the most probable one after the other, behind `prompt`
        (`[start]` unless given, the same for all) and before `end`, at most `max_tokens`. Tokens in
        `suppress` are never chosen. Keys and values of earlier tokens are kept."""
        given = [self.start] if prompt is None else list(prompt)
        classes = self.embedding.weight.shape[0]
        most = self.texts - len(given) if max_tokens is None else max_tokens
        if not given or not all(0 <= t < classes for t in (*given, *suppress)):
            raise ft.ArgumentError(
                f"[Whisper] prompt {given}, suppress {list(suppress)}: tokens from 0 to "
                f"{classes - 1}, and at least one in the prompt"
            )
        if not 1 <= most <= self.texts - len(given):
            raise ft.ArgumentError(
                f"[Whisper] max_tokens {max_tokens}: from 1 to {self.texts - len(given)}, which "
                f"the positions leave behind a prompt of {len(given)}"
            )
        with ag.no_grad(), ft.use(features.backend):
            memory = self.memory(self.encode(features))
            batch, caches = features.shape[0], [nn.KVCache() for _ in self.decoder_layers]
            forbidden = ft.asarray([-1e30 if i in suppress else 0.0 for i in range(classes)])
            forbidden = forbidden.astype(features.dtype).to(features.device)
            tokens = ft.asarray([given] * batch, ft.int64, device=features.device)
            found: list[list[int]] = [[] for _ in range(batch)]
            open_rows = set(range(batch))
            for _ in range(most):
                scores = self.decode(tokens, memory, caches)[:, -1] + forbidden
                chosen = ft.argmax(scores, -1)
                for row, token in enumerate(chosen.tolist()):
                    if row in open_rows:
                        if token == self.end:
                            open_rows.discard(row)
                        else:
                            found[row].append(token)
                if not open_rows:
                    break
                tokens = ft.expand_dims(chosen.astype(ft.int64), 1)
        return found

    @classmethod
    def from_huggingface(cls, folder: str | os.PathLike[str]) -> Whisper:
        """The model of a folder with `config.json` and the weights of transformers'
        WhisperForConditionalGeneration, in safetensors. Raises CheckpointError, which names file
        and setting, for files that cannot be read, do not fit, or are of a variant that is not
        supported."""
        return _from_huggingface(folder)


@explained
def _from_huggingface(folder: str | os.PathLike[str]) -> Whisper:
    config = Config(folder, "whisper")
    config.require(
        {"activation_function": "gelu", "scale_embedding": False, "tie_word_embeddings": True}
    )
    end = config.values.get("eos_token_id", 50256)
    try:
        model = Whisper(
            config.size("vocab_size", 51865), config.size("num_mel_bins", 80),
            config.size("d_model", 384), config.size("encoder_attention_heads", 6),
            config.size("encoder_ffn_dim", 1536), config.size("encoder_layers", 4),
            config.size("decoder_attention_heads", 6), config.size("decoder_ffn_dim", 1536),
            config.size("decoder_layers", 4), config.size("max_source_positions", 1500),
            config.size("max_target_positions", 448), config.number("dropout", 0.0),
            config.number("encoder_layerdrop", 0.0),
            config.size("decoder_start_token_id", 50257, 0),
            end if isinstance(end, int) else config.size("eos_token_id", 50256, 0),
        )  # fmt: skip
    except nn.ModuleError as error:
        raise config.error(str(error)) from error
    nn.load_weights(folder, model, rename=WHISPER_HUGGING_FACE, cast=True)
    return model.eval()


def _norms(theirs: str, ours: str, *names: str) -> list[Rule]:
    return [
        Rule(f"{theirs}.{name}.{{p}}", f"{ours}.norm{i}.{{p}}") for i, name in enumerate(names, 1)
    ]


def _table() -> Table:
    encoder, ours = "model.encoder.layers.{i}", "layers.{i}"
    decoder, own = "model.decoder.layers.{i}", "decoder_layers.{i}"
    feed_forward = [
        Rule(f"{theirs}.fc{n}.{{p}}", f"{mine}.linear{n}.{{p}}")
        for theirs, mine in ((encoder, ours), (decoder, own))
        for n in (1, 2)
    ]
    return Table(
        Rule("model.encoder.conv1.{p}", "conv1.{p}"),
        Rule("model.encoder.conv2.{p}", "conv2.{p}"),
        Rule("model.encoder.embed_positions.weight", "positions.weight"),
        *attention_rules(f"{encoder}.self_attn", f"{ours}.self_attn", key_bias=False),
        *_norms(encoder, ours, "self_attn_layer_norm", "final_layer_norm"),
        Rule("model.encoder.layer_norm.{p}", "norm.{p}"),
        Rule("model.decoder.embed_tokens.weight", "embedding.weight"),
        Rule("model.decoder.embed_positions.weight", "decoder_positions.weight"),
        *attention_rules(f"{decoder}.self_attn", f"{own}.self_attn", key_bias=False),
        *attention_rules(f"{decoder}.encoder_attn", f"{own}.multihead_attn", key_bias=False),
        *_norms(
            decoder, own, "self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"
        ),
        Rule("model.decoder.layer_norm.{p}", "decoder_norm.{p}"),
        *feed_forward,
        Tied("proj_out.weight", of="model.decoder.embed_tokens.weight"),
    )


#: Files of transformers' WhisperForConditionalGeneration.
WHISPER_HUGGING_FACE = _table()
