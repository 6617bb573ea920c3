"""The vision transformer, with rename tables for published weights.

Dosovitskiy et al., An image is worth 16x16 words: transformers for image recognition at scale,
2021.
"""

from __future__ import annotations

import fl_nn as nn
import fl_tensor as ft
from fl_nn.rename import Merge, Rule, Squeeze, Table


class ViT(nn.Module):
    """Images (N, 3, image, image) give scores (N, classes).

    Patches of `patch` x `patch` pixels and a class token go through `layers` encoder layers, which
    normalise first; the class is read off the token. The defaults are ViT-B/16. `eps` of the
    normalisations is torchvision's; files of transformers want 1e-12.
    """

    def __init__(
        self,
        patch: int = 16,
        size: int = 768,
        heads: int = 12,
        layers: int = 12,
        image: int = 224,
        classes: int = 1000,
        dropout: float = 0.1,
        hidden: int | None = None,
        eps: float = 1e-6,
    ) -> None:
        self.patches = nn.Conv2D(3, size, patch, patch)
        self.token = nn.Parameter(nn.init.truncated_normal((1, 1, size), std=0.02))
        self.positions = nn.PositionEmbedding((image // patch) ** 2 + 1, size, dropout)
        self.layers = [
            nn.TransformerEncoderLayer(
                size, heads, hidden or 4 * size, dropout, "gelu", eps, norm_first=True
            )
            for _ in range(layers)
        ]
        self.norm = nn.LayerNorm(size, eps)
        self.head = nn.Linear(size, classes)

    def forward(self, images: ft.Array) -> ft.Array:
        x = self.patches(images)
        n, size, height, width = x.shape
        x = ft.swapaxes(x.reshape(n, size, height * width), 1, 2)
        token = ft.broadcast_to(self.token, (n, 1, size))
        x = self.positions(ft.concatenate([token, x], 1))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


_BLOCK = "encoder.layers.encoder_layer_{i}"
#: Files of torchvision's VisionTransformer: vit_b_16 and its like.
VIT_TORCHVISION = Table(
    Rule("class_token", "token"),
    Rule("conv_proj.{p}", "patches.{p}"),
    Rule("encoder.pos_embedding", "positions.weight", Squeeze(0)),
    Rule(f"{_BLOCK}.ln_1.{{p}}", "layers.{i}.norm1.{p}"),
    Rule(f"{_BLOCK}.ln_2.{{p}}", "layers.{i}.norm2.{p}"),
    Rule(f"{_BLOCK}.mlp.0.{{p}}", "layers.{i}.linear1.{p}"),
    Rule(f"{_BLOCK}.mlp.3.{{p}}", "layers.{i}.linear2.{p}"),
    Rule(f"{_BLOCK}.self_attention.{{p:path}}", "layers.{i}.self_attn.{p:path}"),
    Rule("encoder.ln.{p}", "norm.{p}"),
    Rule("heads.head.{p}", "head.{p}"),
)

_LAYER = "vit.encoder.layer.{i}"
#: Files of transformers' ViTForImageClassification; build the model with eps=1e-12.
VIT_HUGGING_FACE = Table(
    Rule("vit.embeddings.cls_token", "token"),
    Rule("vit.embeddings.patch_embeddings.projection.{p}", "patches.{p}"),
    Rule("vit.embeddings.position_embeddings", "positions.weight", Squeeze(0)),
    Rule(
        [f"{_LAYER}.attention.attention.{part}.{{p}}" for part in ("query", "key", "value")],
        "layers.{i}.self_attn.in_proj_{p}",
        Merge(3),
    ),
    Rule(f"{_LAYER}.attention.output.dense.{{p}}", "layers.{i}.self_attn.out_proj.{p}"),
    Rule(f"{_LAYER}.intermediate.dense.{{p}}", "layers.{i}.linear1.{p}"),
    Rule(f"{_LAYER}.output.dense.{{p}}", "layers.{i}.linear2.{p}"),
    Rule(f"{_LAYER}.layernorm_before.{{p}}", "layers.{i}.norm1.{p}"),
    Rule(f"{_LAYER}.layernorm_after.{{p}}", "layers.{i}.norm2.{p}"),
    Rule("vit.layernorm.{p}", "norm.{p}"),
    Rule("classifier.{p}", "head.{p}"),
)
