"""Options of commands that use a trained language model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import fl_nn as nn
from fl_nn.lora import load_adapter, merge_lora, remove_lora
from fl_nn.quantization import quantize_weights
from fl_text.errors import TextError
from fl_text.language_model_folder import LanguageModelFolder, load_language_model
from fl_text.models import GPT2, GPT2_HUGGING_FACE, LLAMA_HUGGING_FACE, Llama, MaskedLM

MODEL = "of fl-text train, or of Hugging Face with config.json"
#: How names of layers begin in adapters that PEFT wrote for networks of Hugging Face.
_PUBLISHED = ("base_model.model.model.", "base_model.model.transformer.")


def model_options(parser: argparse.ArgumentParser) -> None:
    """The model, and what is done to its weights."""
    add = parser.add_argument
    add("model", type=Path, metavar="FOLDER", help=MODEL)
    add("--lora", type=Path, metavar="FOLDER", help="an adapter, as fl_nn.lora and PEFT write it")
    add("--int8", action="store_true", help="round weights to 8 bits: less memory, faster steps")


def model_of(given: argparse.Namespace) -> LanguageModelFolder:
    """The model in evaluation mode, with its adapter merged, with weights of 8 bits if wanted."""
    model = load_language_model(given.model)
    if given.lora is not None:
        load_adapter(given.lora, model.network, rename=_names_in(given.lora, model.network))
        remove_lora(merge_lora(model.network))
        model.network.eval()
    if given.int8:
        quantize(model.network)
    return model


def quantize(network: nn.Module) -> None:
    """Round the weights of a network to 8 bits; those of an embedding only where they are also the
    output, as rounding them saves no time otherwise."""
    quantize_weights(network, embedding=is_tied(network))


def is_tied(network: nn.Module) -> bool:
    """Whether the output has no matrix of its own."""
    masked = isinstance(network, MaskedLM) and network.output is None
    return masked or isinstance(network, GPT2)


def causal_model_of(given: argparse.Namespace) -> LanguageModelFolder:
    """The same, if it predicts the next token."""
    model = model_of(given)
    if model.masked:
        raise TextError(
            f"{given.model}: its {model.kind} predicts hidden tokens, not the next one: train one "
            "with --task autoregressive"
        )
    return model


def _names_in(adapter: Path, network: Any) -> Any:
    """The table of the names of layers in an adapter, or None where they are those of here."""
    with nn.open_tensors(adapter / "adapter_model.safetensors") as file:
        published = any(name.startswith(_PUBLISHED) for name in file.tensors)
    if published and isinstance(network, GPT2):
        return GPT2_HUGGING_FACE
    return LLAMA_HUGGING_FACE if published and isinstance(network, Llama) else None
