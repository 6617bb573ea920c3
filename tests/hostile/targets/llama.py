"""Llama, adapters, and weights of 8 bits."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import fl_nn as nn
import fl_tensor as ft
import fl_text as text
from bad_values import Bad, value
from cases import Target
from fl_nn import lora, quantization
from fl_text.models import LLAMA_HUGGING_FACE, Llama, load_language_model
from targets.making import At, target, x

SIZES: dict[str, Any] = dict(tokens=9, steps=8, size=8, heads=2, layers=1, hidden=12)
CONFIG = dict(
    model_type="llama",
    vocab_size=9,
    max_position_embeddings=8,
    hidden_size=8,
    num_attention_heads=2,
    num_hidden_layers=1,
    intermediate_size=12,
)


def model_files() -> dict[str, bytes]:
    """A folder as Hugging Face's."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        nn.save_weights(path / "model.safetensors", Llama(**SIZES), rename=LLAMA_HUGGING_FACE)
        text.Tokenizer.train(["ab"], "char", 9, min_frequency=1).save(path / "tokenizer.json")
        (path / "config.json").write_text(json.dumps(CONFIG))
        return {file.name: file.read_bytes() for file in path.iterdir()}


def adapter_files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as name:
        lora.save_adapter(name, adapted())
        return {file.name: file.read_bytes() for file in Path(name).iterdir()}


def linear() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3))


def adapted() -> nn.Module:
    return lora.apply_lora(linear(), 2, targets=["0"])


MODEL, ADAPTER = model_files(), adapter_files()


def changed(contents: dict[str, bytes], name: str, content: bytes | None) -> Any:
    left = {**contents, name: content}
    return At("folder", {key: found for key, found in left.items() if found is not None}).make


def damaged(contents: dict[str, bytes], config: str, weights: str) -> list[Bad]:
    huge = {"r": 10**9, "hidden_size": 10**12, "num_hidden_layers": 10**9}
    forged = json.dumps({**json.loads(contents[config]), **huge}).encode()
    return [
        *[value(None), value(3), value("\0"), value("missing")],
        *(
            Bad(f"{name} {what}", changed(contents, name, content))
            for name in (config, weights)
            for what, content in (
                ("missing", None),
                ("empty", b""),
                ("cut", contents[name][:-9]),
                ("of nothing", b"{}"),
            )
        ),
        Bad("a forged size", changed(contents, config, forged)),
    ]


def scores(tokens: Any, caches: Any) -> object:
    return Llama(**SIZES).eval()(tokens, caches)


MODULES = [value(None), value("text"), value(len), value(x(3))]
TOKENS = [value(None), value("text"), value(x(2, 3)), value(ft.zeros((3,), ft.int64))]
TOKENS += [value(ft.full((1, 2), 9, ft.int64)), value(ft.zeros((1, 9), ft.int64))]
RANKS = [value(0), value(-1), value(10**9), value(2.5), value("2"), value(None)]
NUMBERS = [value(0.0), value(-1.0), value(float("nan")), value(float("inf")), value("1")]
PROBABILITIES = [value(-0.1), value(1.1), value(float("nan")), value("1"), value(None)]
TARGET_NAMES = [value(None), value(3), value(["no_such"]), value("("), value([]), value([3])]
SCALINGS = [value(3), value("linear"), value({}), value({"rope_type": "linear"})]
SCALINGS += [value({"rope_type": "yarn"}), value({"rope_type": "linear", "factor": "2"})]
SCALINGS += [value({"rope_type": []})]

TARGETS: list[Target] = [
    target(
        "text.models.Llama",
        dict(SIZES),
        call=Llama,
        **dict.fromkeys(("tokens", "steps", "size", "heads", "layers", "hidden"), "positive"),
        kv_heads=[value(0), value(3), value("1")],
        rope_theta=NUMBERS,
        rope_scaling=SCALINGS,
        window=[value(0), value(-1), value("1")],
    ),
    target(
        "text.models.Llama called",
        {"tokens": lambda: ft.zeros((1, 3), ft.int64), "caches": None},
        call=scores,
        tokens=TOKENS,
        caches=[value("text"), value([nn.KVCache()] * 2), value(3)],
    ),
    target(
        "text.models.Llama.from_huggingface",
        {"0": At("model", MODEL)},
        call=Llama.from_huggingface,
        _0=damaged(MODEL, "config.json", "model.safetensors"),
    ),
    target(
        "text.models.load_language_model",
        {"0": At("model", MODEL)},
        call=load_language_model,
        _0=damaged(MODEL, "config.json", "tokenizer.json"),
    ),
    target("nn.RotaryEmbedding scaled", {"size": 4}, call=nn.RotaryEmbedding, scaling=SCALINGS),
    target(
        "nn.lora.apply_lora",
        {"0": linear, "rank": 2, "alpha": 4.0, "dropout": 0.0, "targets": ["0"]},
        call=lora.apply_lora,
        _0=MODULES,
        rank=RANKS,
        alpha=NUMBERS,
        dropout=PROBABILITIES,
        targets=TARGET_NAMES,
    ),
    *(
        target(f"nn.lora.{name}", {"0": adapted}, call=getattr(lora, name), _0=MODULES)
        for name in ("adapters", "merge_lora", "unmerge_lora", "remove_lora")
    ),
    target(
        "nn.lora.save_adapter",
        {"0": At("folder"), "1": adapted},
        call=lora.save_adapter,
        _0=[value(None), value(3), value("\0")],
        _1=[*MODULES, Bad("without adapters", lambda _: linear())],
    ),
    target(
        "nn.lora.load_adapter",
        {"0": At("adapter", ADAPTER), "1": linear},
        call=lora.load_adapter,
        _0=damaged(ADAPTER, "adapter_config.json", "adapter_model.safetensors"),
        _1=[*MODULES, Bad("another model", lambda _: nn.Sequential(nn.Linear(5, 3)))],
    ),
    *(
        target(
            f"nn.lora.{name}",
            {"inputs": 4, "outputs": 3, "rank": 2, "alpha": 4.0},
            call=getattr(lora, name),
            inputs="positive",
            outputs="positive",
            rank=RANKS,
            alpha=NUMBERS,
        )
        for name in ("LoRALinear", "LowRank")
    ),
    *(
        target(name, {"size": 4, "heads": 2}, call=cls, size="positive", heads="positive")
        for name, cls in (
            ("nn.lora.LoRAMultiHeadAttention", lora.LoRAMultiHeadAttention),
            ("nn.quantization.Int8MultiHeadAttention", quantization.Int8MultiHeadAttention),
        )
    ),
    target(
        "nn.quantization.quantize_weights",
        {"0": linear, "embedding": False},
        call=quantization.quantize_weights,
        _0=[*MODULES, Bad("nothing to quantise", lambda _: nn.LayerNorm(3))],
        embedding=[value("yes"), value(3), value(None)],
    ),
    target(
        "nn.quantization.times_int8",
        {
            "x": lambda: ft.ones((1, 4)),
            "weight": lambda: ft.ones((3, 4), ft.int8),
            "scale": lambda: ft.ones((3,)),
        },
        call=quantization.times_int8,
        x=[value(None), value(3), Bad("another size", lambda _: ft.ones((1, 5)))],
        weight=[value(None), Bad("floats", lambda _: ft.ones((3, 4)))],
        scale=[value(None), Bad("another size", lambda _: ft.ones((4,)))],
    ),
    target(
        "nn.quantization.Int8Linear",
        {"inputs": 4, "outputs": 3},
        call=quantization.Int8Linear,
        inputs="positive",
        outputs="positive",
    ),
    target(
        "nn.quantization.Int8Embedding",
        {"count": 4, "size": 3},
        call=quantization.Int8Embedding,
        count="positive",
        size="positive",
    ),
]
UNTRIED: dict[str, str] = {}
