"""Attention of sequence-to-sequence criteria: ten kinds, by the names of Flashlight's options."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_speech.criteria.attention.base import Attention as Attention
from fl_speech.criteria.attention.base import Memory as Memory
from fl_speech.criteria.attention.content import ContentAttention as ContentAttention
from fl_speech.criteria.attention.content import NeuralContentAttention as NeuralContentAttention
from fl_speech.criteria.attention.location import LocationAttention as LocationAttention
from fl_speech.criteria.attention.location import NeuralLocationAttention as NeuralLocationAttention
from fl_speech.criteria.attention.location import SimpleLocationAttention as SimpleLocationAttention
from fl_speech.criteria.attention.multi_head import (
    MultiHeadContentAttention as MultiHeadContentAttention,
)
from fl_tensor.annotations import explained
from fl_tensor.arguments import choice_of

ATTENTIONS = (
    *("content", "keyvalue", "neural", "simpleloc", "location", "neuralloc"),
    *("multi", "multikv", "multisplit", "multikvsplit"),
)


@explained
def make_attention(
    kind: str,
    size: int,
    *,
    heads: int = 8,
    hidden: int | None = None,
    channels: int = 10,
    kernel: int = 21,
    generator: ft.Generator | None = None,
    dtype: ft.DType | None = None,
) -> Attention:
    """An attention by the name that Flashlight's option `attention` has for it.

    kind      content or keyvalue (ContentAttention), neural (NeuralContentAttention), simpleloc,
              location, neuralloc (SimpleLocation-, Location-, NeuralLocationAttention), multi,
              multikv, multisplit, multikvsplit (MultiHeadContentAttention)
    size      features of the decoder's states; an encoder has as many, or twice as many for kinds
              of keys and values
    heads     of the multi-head kinds
    hidden    of neuralloc; None: `size`
    channels, kernel   of the location kinds' convolution

    Raises ArgumentError for an unknown kind, ModuleError for sizes that do not fit.
    """
    choice_of("make_attention", kind, "kind", ATTENTIONS)
    options: dict[str, Any] = {"generator": generator, "dtype": dtype}
    if kind in ("content", "keyvalue"):
        return ContentAttention(kind == "keyvalue")
    if kind == "neural":
        return NeuralContentAttention(size, **options)
    if kind == "simpleloc":
        return SimpleLocationAttention(kernel, **options)
    if kind == "location":
        return LocationAttention(size, kernel, **options)
    if kind == "neuralloc":
        return NeuralLocationAttention(size, hidden or size, channels, kernel, **options)
    return MultiHeadContentAttention(size, heads, "kv" in kind, "split" in kind, **options)
