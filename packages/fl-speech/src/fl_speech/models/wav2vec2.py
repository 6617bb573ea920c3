"""Wav2Vec2: a Transformer over convolutions of samples, with scores of tokens for CTC.

Baevski et al., wav2vec 2.0: a framework for self-supervised learning of speech representations,
2020.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import padding_mask, whole_lengths
from fl_nn.rename import Ignore, Rule, Table
from fl_speech.models.hugging_face import Config, attention_rules
from fl_tensor.annotations import explained


class _ConvLayer(nn.Module):
    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, bias: bool, norm: str
    ) -> None:
        self.conv = nn.Conv1D(inputs, outputs, kernel, stride, bias=bias)
        self.norm: nn.Module | None = None
        if norm == "group":
            self.norm = nn.GroupNorm(outputs, outputs)
        elif norm == "layer":
            self.norm = nn.LayerNorm(outputs)

    def forward(self, x: ft.Array) -> ft.Array:
        x = self.conv(x)
        if isinstance(self.norm, nn.LayerNorm):
            x = ft.swapaxes(self.norm(ft.swapaxes(x, 1, 2)), 1, 2)
        elif self.norm is not None:
            x = self.norm(x)
        return ft.gelu(x)


class Wav2Vec2(nn.Module):
    """`model(samples (B, T) or (B, T, 1), lengths (B,)) -> (scores (B, T', N), lengths' (B,))` of
    samples at 16 kHz with mean 0 and variance 1, as `normalized` makes them.

    channels, kernels, strides  of the convolutions; with the defaults a score for each 320 samples
    norm_every  a LayerNorm behind each convolution; False: one group norm behind the first, whose
                statistics see padding
    norm_first  Transformer layers that normalise first ("stable layer norm")
    reach, groups  the kernel and the groups of the convolution that tells positions
    blank  the class that is CTC's blank: of published weights the padding token, mostly 0

    The defaults are the base model, of 94 million parameters. Padding is zeroed behind the
    convolutions, and attention does not see it. Raises ft.ShapeError for other shapes, and for
    recordings too short for a score.
    """

    takes_lengths = True

    def __init__(
        self,
        classes: int = 32,
        size: int = 768,
        heads: int = 12,
        hidden: int = 3072,
        layers: int = 12,
        channels: Sequence[int] = (512,) * 7,
        kernels: Sequence[int] = (10, 3, 3, 3, 3, 2, 2),
        strides: Sequence[int] = (5, 2, 2, 2, 2, 2, 2),
        bias: bool = False,
        norm_every: bool = False,
        norm_first: bool = False,
        reach: int = 128,
        groups: int = 16,
        dropout: float = 0.1,
        layer_drop: float = 0.1,
        eps: float = 1e-5,
        blank: int = 0,
    ) -> None:
        if not len(channels) == len(kernels) == len(strides) >= 1:
            raise nn.ModuleError(
                f"[Wav2Vec2] channels {channels}, kernels {kernels}, strides {strides}: give one "
                "of each for every convolution"
            )
        if not 0 <= blank < classes:
            raise nn.ModuleError(f"[Wav2Vec2] blank {blank}: a class from 0 to {classes - 1}")
        inputs = (1, *channels)
        self.blank, self.norm_first = blank, norm_first
        self.convolutions = [
            _ConvLayer(
                inputs[i], inputs[i + 1], kernels[i], strides[i], bias,
                "layer" if norm_every else "none" if i else "group",
            )
            for i in range(len(channels))
        ]  # fmt: skip
        self.norm_features = nn.LayerNorm(inputs[-1], eps)
        self.projection = nn.Linear(inputs[-1], size)
        self.positions = nn.WeightNorm(
            nn.Conv1D(size, size, reach, padding=reach // 2, groups=groups), axis=2
        )
        self.reach = reach
        self.norm = nn.LayerNorm(size, eps)
        self.layers = [
            nn.TransformerEncoderLayer(
                size, heads, hidden, dropout, "gelu", eps, norm_first, layer_drop=layer_drop
            )
            for _ in range(layers)
        ]
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(size, classes)

    def forward(
        self, features: ft.Array, lengths: Sequence[int] | ft.Array | None = None
    ) -> tuple[ft.Array, ft.Array | None]:
        x = ft.expand_dims(features, 2) if features.ndim == 2 else features
        if x.ndim != 3 or x.shape[2] != 1:
            raise ft.ShapeError(
                f"[Wav2Vec2] samples {features.shape}: expected (batch, samples) or (batch, "
                "samples, 1)"
            )
        counts = None if lengths is None else self._counts(x, lengths)
        if self.output_lengths([x.shape[1]])[0] < 1:
            raise ft.ShapeError(f"[Wav2Vec2] samples {features.shape}: too few for one score")
        x = ft.swapaxes(x, 1, 2)
        for layer in self.convolutions:
            x = layer(x)
        x = self.projection(self.norm_features(ft.swapaxes(x, 1, 2)))
        mask = None
        if counts is not None:
            mask = padding_mask("Wav2Vec2", x, None, counts)
            assert mask is not None
            x = ft.where(ft.expand_dims(mask, -1), x, 0.0)
        output = self.head(self.dropout(self._context(self.dropout(x), mask)))
        if counts is None:
            return output, None
        return output, ft.asarray(counts, ft.int64, output.device, output.backend)

    def _context(self, x: ft.Array, mask: ft.Array | None) -> ft.Array:
        x = x + self._positions(x)
        x = self.dropout(x if self.norm_first else self.norm(x))
        for layer in self.layers:
            x = layer(x, key_mask=mask)
        return self.norm(x) if self.norm_first else x

    def _positions(self, x: ft.Array) -> ft.Array:
        y = self.positions(ft.swapaxes(x, 1, 2))
        if self.reach % 2 == 0:
            y = y[:, :, :-1]
        return ft.swapaxes(ft.gelu(y), 1, 2)

    def _counts(self, x: ft.Array, lengths: Sequence[int] | ft.Array) -> list[int]:
        batch, samples = x.shape[:2]
        given = whole_lengths("Wav2Vec2", lengths, batch)
        counts = self.output_lengths(given)
        if len(given) != batch or any(n > samples for n in given) or any(n < 1 for n in counts):
            raise ft.ShapeError(
                f"[Wav2Vec2] lengths {given} of samples {x.shape[:2]}: give {batch} numbers up to "
                f"{samples}, each enough for one score"
            )
        return counts

    def output_lengths(self, lengths: Sequence[int]) -> list[int]:
        """How many scores recordings of these numbers of samples give."""
        found = []
        for n in lengths:
            for layer in self.convolutions:
                n = max((n - layer.conv.kernel[0]) // layer.conv.stride[0] + 1, 0)
            found.append(n)
        return found

    @property
    def stride(self) -> int:
        """Samples for one score."""
        total = 1
        for layer in self.convolutions:
            total *= layer.conv.stride[0]
        return total

    @classmethod
    def from_huggingface(cls, folder: str | os.PathLike[str]) -> Wav2Vec2:
        """The model of a folder with `config.json` and the weights of transformers'
        Wav2Vec2ForCTC, in safetensors. Raises CheckpointError, which names file and setting, for
        files that cannot be read, do not fit, or are of a variant that is not supported."""
        return _from_huggingface(folder)


@explained
def _from_huggingface(folder: str | os.PathLike[str]) -> Wav2Vec2:
    config = Config(folder, "wav2vec2")
    config.require(
        {
            "hidden_act": "gelu",
            "feat_extract_activation": "gelu",
            "add_adapter": False,
            "adapter_attn_dim": None,
        }  # fmt: skip
    )
    norm = config.values.get("feat_extract_norm", "group")
    if norm not in ("group", "layer"):
        raise config.error(f"feat_extract_norm is {norm!r}: expected 'group' or 'layer'")
    try:
        model = Wav2Vec2(
            config.size("vocab_size", 32), config.size("hidden_size", 768),
            config.size("num_attention_heads", 12), config.size("intermediate_size", 3072),
            config.size("num_hidden_layers", 12), config.sizes("conv_dim", (512,) * 7),
            config.sizes("conv_kernel", (10, 3, 3, 3, 3, 2, 2)),
            config.sizes("conv_stride", (5, 2, 2, 2, 2, 2, 2)), config.flag("conv_bias", False),
            norm == "layer", config.flag("do_stable_layer_norm", False),
            config.size("num_conv_pos_embeddings", 128),
            config.size("num_conv_pos_embedding_groups", 16),
            config.number("hidden_dropout", 0.1), config.number("layerdrop", 0.1),
            config.number("layer_norm_eps", 1e-5), config.size("pad_token_id", 0, 0),
        )  # fmt: skip
    except nn.ModuleError as error:
        raise config.error(str(error)) from error
    nn.load_weights(folder, model, rename=WAV2VEC2_HUGGING_FACE, cast=True)
    return model.eval()


@explained
def normalized(samples: ft.Array, lengths: Sequence[int] | None = None) -> ft.Array:
    """Samples (B, T) with mean 0 and variance 1 in each recording, as published weights expect
    them; what lies behind `lengths` becomes 0 and does not count."""
    if samples.ndim != 2:
        raise ft.ShapeError(f"[normalized] samples {samples.shape}: expected (batch, samples)")
    if lengths is None:
        return ft.layer_norm(samples, None, None, (1,), 1e-7)
    mask = padding_mask("normalized", ft.expand_dims(samples, 2), None, lengths)
    assert mask is not None
    inside = mask.astype(samples.dtype)
    count = ft.sum(inside, 1, keepdims=True)
    centred = (samples - ft.sum(samples * inside, 1, keepdims=True) / count) * inside
    variance = ft.sum(centred * centred, 1, keepdims=True) / count
    return centred * ft.rsqrt(variance + 1e-7)


def _table() -> Table:
    theirs, ours = "wav2vec2.encoder.layers.{i}", "layers.{i}"
    convolution = "wav2vec2.feature_extractor.conv_layers.{i}"
    position = "wav2vec2.encoder.pos_conv_embed.conv"
    lengths, directions = (f"positions.parametrizations.weight.original{i}" for i in (0, 1))
    return Table(
        Rule(f"{convolution}.conv.{{p}}", "convolutions.{i}.conv.{p}"),
        Rule(f"{convolution}.layer_norm.{{p}}", "convolutions.{i}.norm.{p}"),
        Rule("wav2vec2.feature_projection.layer_norm.{p}", "norm_features.{p}"),
        Rule("wav2vec2.feature_projection.projection.{p}", "projection.{p}"),
        Rule(f"{position}.bias", "positions.bias"),
        Rule(f"{position}.parametrizations.weight.original0", lengths),
        Rule(f"{position}.parametrizations.weight.original1", directions),
        Rule(f"{position}.weight_g", lengths),  # older files
        Rule(f"{position}.weight_v", directions),
        Rule("wav2vec2.encoder.layer_norm.{p}", "norm.{p}"),
        *attention_rules(f"{theirs}.attention", f"{ours}.self_attn", key_bias=True),
        Rule(f"{theirs}.layer_norm.{{p}}", f"{ours}.norm1.{{p}}"),
        Rule(f"{theirs}.final_layer_norm.{{p}}", f"{ours}.norm2.{{p}}"),
        Rule(f"{theirs}.feed_forward.intermediate_dense.{{p}}", f"{ours}.linear1.{{p}}"),
        Rule(f"{theirs}.feed_forward.output_dense.{{p}}", f"{ours}.linear2.{{p}}"),
        Rule("lm_head.{p}", "head.{p}"),
        Ignore("wav2vec2.masked_spec_embed"),  # what masked steps become in pre-training
    )


#: Files of transformers' Wav2Vec2ForCTC.
WAV2VEC2_HUGGING_FACE = _table()
