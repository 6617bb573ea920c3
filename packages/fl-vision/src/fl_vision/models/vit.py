"""The vision transformer, with rename tables for published weights.

Dosovitskiy et al., An image is worth 16x16 words: transformers for image recognition at scale,
2021.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import fl_nn as nn
import fl_tensor as ft
from fl_nn.rename import Merge, Rule, Squeeze, Table
from fl_vision.errors import UsageError
from fl_vision.models.initialisation import linear_drop_path, truncate_normal


class ViT(nn.Module):
    """Images (N, 3, image, image) give scores (N, classes).

    Patches of `patch` x `patch` pixels and a class token go through `layers` encoder layers, which
    normalise first; the class is read off the token. The defaults are ViT-B/16. `eps` of the
    normalisations is torchvision's; files of transformers want 1e-12.

    Training leaves a residual branch out for a sample with a probability that grows linearly from
    0 in the first layer to `drop_path` in the last (Huang et al., 2016). Weights of linear layers
    are drawn from a normal distribution with standard deviation 0.02, cut off at two of these.
    Raises `UsageError` for an image that is no whole number of patches.
    """

    head_names: ClassVar[tuple[str, ...]] = ("head",)
    #: Parameters that weight decay leaves alone: see `parameter_groups`.
    undecayed: ClassVar[tuple[str, ...]] = ("token", "positions.weight")

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
        drop_path: float = 0.0,
    ) -> None:
        if min(patch, size, heads, layers, image, classes) < 1 or image % patch:
            raise UsageError(
                f"[ViT] images of {image} pixels in patches of {patch}, size {size}, {heads} heads,"
                f" {layers} layers, {classes} classes: all at least 1, and whole patches"
            )
        self.image = image
        self.patches = nn.Conv2D(3, size, patch, patch)
        self.token = nn.Parameter(nn.init.truncated_normal((1, 1, size), std=0.02))
        self.positions = nn.PositionEmbedding((image // patch) ** 2 + 1, size, dropout)
        self.layers = [
            nn.TransformerEncoderLayer(
                size,
                heads,
                hidden or 4 * size,
                dropout,
                "gelu",
                eps,
                norm_first=True,
                drop_path=probability,
            )
            for probability in linear_drop_path("ViT", drop_path, layers)
        ]
        self.norm = nn.LayerNorm(size, eps)
        self.head = nn.Linear(size, classes)
        truncate_normal(self)

    def forward(self, images: ft.Array) -> ft.Array:
        if images.ndim != 4 or images.shape[2:] != (self.image, self.image):
            raise ft.ShapeError(
                f"[ViT] images {images.shape}: expected (N, 3, {self.image}, {self.image}); resize "
                "them, or build the network with image=..."
            )
        x = self.patches(images)
        n, size, height, width = x.shape
        x = ft.swapaxes(x.reshape(n, size, height * width), 1, 2)
        token = ft.broadcast_to(self.token, (n, 1, size))
        x = self.positions(ft.concatenate([token, x], 1))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


def _variant(name: str, size: int, heads: int, layers: int) -> Callable[..., ViT]:
    def build(classes: int = 1000, **options: Any) -> ViT:
        return ViT(size=size, heads=heads, layers=layers, classes=classes, **options)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""A `ViT` of {layers} layers with {size} features and {heads} heads, for
    patches of 16 x 16 pixels. Options are those of `ViT`."""
    return build


#: Sizes Ti and S are those of Touvron et al., 2021.
vit_ti = _variant("vit_ti", 192, 3, 12)
vit_s = _variant("vit_s", 384, 6, 12)
vit_b = _variant("vit_b", 768, 12, 12)
vit_l = _variant("vit_l", 1024, 16, 24)


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
