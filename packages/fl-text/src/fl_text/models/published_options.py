"""The arguments of networks that a config.json stands for."""

from __future__ import annotations

import math
from typing import Any

import fl_nn as nn
from fl_text.errors import TextFileError
from fl_text.models.published import PublishedConfig

#: The largest of everything, far above what exists: a forged number must not fill memory.
_TOKENS, _SIZE, _HEADS, _LAYERS, _HIDDEN = 1 << 22, 1 << 16, 1 << 10, 1 << 10, 1 << 20
#: Values of model_type that are a `Llama`.
LLAMAS = ("llama", "mistral", "qwen2")


def llama_options(config: PublishedConfig) -> dict[str, Any]:
    """The arguments of `Llama` that a configuration stands for."""
    kind = config.choice("model_type", None, LLAMAS)
    config.choice("hidden_act", "silu", ("silu",))
    config.choice("pretraining_tp", 1, (1, None))
    layers = config.count("num_hidden_layers", most=_LAYERS)
    steps = config.count("max_position_embeddings", 2048)
    theta, scaling = _rope(config, steps)
    attention_bias = kind != "qwen2" and config.flag("attention_bias", False)
    return {
        "tokens": config.count("vocab_size", most=_TOKENS),
        "steps": steps,
        "size": config.count("hidden_size", most=_SIZE),
        "heads": config.count("num_attention_heads", most=_HEADS),
        "layers": layers,
        "kv_heads": config.optional_count("num_key_value_heads", _HEADS),
        "hidden": config.count("intermediate_size", most=_HIDDEN),
        "head_size": config.optional_count("head_dim", _SIZE),
        "eps": config.number("rms_norm_eps", 1e-6),
        "rope_theta": theta,
        "rope_scaling": scaling,
        "qkv_bias": kind == "qwen2" or attention_bias,
        "out_bias": attention_bias,
        "mlp_bias": config.flag("mlp_bias", False),
        "tied": config.flag("tie_word_embeddings", False),
        "window": _window(config, kind, layers),
    }


def gpt2_options(config: PublishedConfig) -> dict[str, Any]:
    """The arguments of `GPT2` that a configuration stands for."""
    config.choice("model_type", "gpt2", ("gpt2",))
    config.choice("activation_function", "gelu_new", ("gelu_new", "gelu_pytorch_tanh"))
    for key, value in {
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    }.items():
        config.choice(key, value, (value,))
    size = config.count("n_embd", 768, _SIZE)
    config.choice("n_inner", None, (None, 4 * size))
    for key in ("embd_pdrop", "attn_pdrop"):
        config.number(key, 0.1)
    steps = config.count("n_positions", 1024)
    config.choice("n_ctx", steps, (steps,))
    return {
        "tokens": config.count("vocab_size", 50257, _TOKENS),
        "steps": steps,
        "size": size,
        "heads": config.count("n_head", 12, _HEADS),
        "layers": config.count("n_layer", 12, _LAYERS),
        "dropout": config.number("resid_pdrop", 0.1),
        "eps": config.number("layer_norm_epsilon", 1e-5),
    }


def _rope(config: PublishedConfig, steps: int) -> tuple[float, dict[str, Any] | None]:
    """The base and the scaling of rotary positions, from either way of writing them."""
    key = "rope_scaling" if config.get("rope_parameters") is None else "rope_parameters"
    given = config.get("rope_scaling") if key == "rope_scaling" else config.get(key)
    theta = config.number("rope_theta", 10000.0)
    if given is None:
        return theta, None
    if not isinstance(given, dict):
        raise config.fail(key, "null or an object with rope_type")
    scaling = dict(given)
    kind = scaling.pop("type", None)
    scaling.setdefault("rope_type", "default" if kind is None else kind)
    theta = scaling.pop("rope_theta", theta)
    if isinstance(theta, bool) or not isinstance(theta, int | float) or not 0 < theta < math.inf:
        raise config.fail(key, "rope_theta above 0")
    original = scaling.pop("original_max_position_embeddings", None)
    if scaling["rope_type"] == "dynamic":
        original = steps
    if original is not None and scaling["rope_type"] in ("dynamic", "llama3"):
        scaling["original_max_position_embeddings"] = original
    try:
        nn.RotaryEmbedding(4, scaling=scaling)
    except nn.ModuleError as error:
        raise TextFileError(
            config.path, f"{key} is {str(given)[:120]}", f"{error}; yarn and longrope are missing"
        ) from error
    return float(theta), None if scaling["rope_type"] == "default" else scaling


def _window(config: PublishedConfig, kind: str, layers: int) -> int | None:
    """How far attention sees: the same in all layers, or TextFileError."""
    window = config.optional_count("sliding_window")
    if not config.flag("use_sliding_window", kind == "mistral"):
        window = None
    kinds = config.get("layer_types")
    if kinds is not None and kind == "qwen2":
        wanted = "sliding_attention" if window else "full_attention"
        if kinds != [wanted] * layers:
            raise config.fail("layer_types", f"{layers} times {wanted!r}: all layers alike")
    elif kind == "qwen2" and window and config.get("max_window_layers", 28):
        raise config.fail("max_window_layers", "0 beside a sliding_window: all layers alike")
    return window if kind != "llama" else None
