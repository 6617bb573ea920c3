"""The network of a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fl_tensor as ft
from fl_text.errors import RecipeError
from fl_text.heads import NoiseContrastive, SampledSoftmax, unigram
from fl_text.language_model_folder import build_network
from fl_text.models.gcnn import GCNN_14B
from fl_text.recipe import Recipe

__all__ = ["make_network", "network_settings"]

KINDS = {
    "transformer": "TransformerLanguageModel",
    "gcnn": "GCNN",
    "lstm": "LSTMLanguageModel",
    "gpt2": "GPT2",
    "llama": "Llama",
    "bert": "MaskedLM",
}
_SAMPLED = ("sampled", "noise_contrastive")


def network_settings(recipe: Recipe, tokens: int) -> dict[str, Any]:
    """The arguments of the network's class, as plain values."""
    r = recipe
    found: dict[str, Any] = {"tokens": tokens}
    cutoffs = r.cutoff_list() or None
    if cutoffs and cutoffs[-1] >= tokens:
        raise RecipeError(f"cutoffs {r.cutoffs}: the vocabulary has only {tokens} tokens")
    if r.network == "gcnn":
        blocks = [list(block) for block in GCNN_14B] if r.blocks == "gcnn-14b" else r.block_list()
        plain = [[list(each) for each in block] for block in blocks]
        return found | {
            "size": r.size,
            "blocks": plain,
            "cutoffs": cutoffs,
            "dropout": r.dropout,
        }
    found |= {"size": r.size, "layers": r.layers}
    if r.network == "lstm":
        hidden = r.hidden or r.size
        tied = r.tied and hidden == r.size and r.head == "full"
        found |= {"hidden": hidden, "tied": tied, "dropout": r.dropout}
        return found | ({"cutoffs": cutoffs} if cutoffs else {})
    found["heads"] = r.heads
    if r.network == "llama":
        hidden = r.hidden or 8 * ((8 * r.size // 3 + 7) // 8)
        return found | {"steps": r.context, "hidden": hidden, "tied": r.tied}
    found["dropout"] = r.dropout
    if r.network == "gpt2":
        return found | {"steps": r.context}
    found["hidden"] = r.hidden or 4 * r.size
    if r.network == "bert":
        return found | {"steps": r.context, "segments": 1, "tied": r.tied}
    return found | {
        "cutoffs": cutoffs,
        "positions": r.positions,
        "steps": r.context if r.positions == "learned" else None,
        "norm_first": r.norm_first,
        "activation": r.activation,
        "layer_drop": r.layer_drop,
        "tied": r.tied and r.head == "full",
    }


def make_network(recipe: Recipe, tokens: int, counts: Sequence[int]) -> Any:
    """The network of a recipe, with weights from the default generator. `counts`, how often each
    token is in the training text, are where sampled and noise_contrastive draw from."""
    settings = network_settings(recipe, tokens)
    head: Any = None
    if recipe.head in _SAMPLED:
        width = settings.get("hidden") or recipe.size
        if recipe.network == "gcnn":
            width = settings["blocks"][-1][-1][0]
        elif recipe.network == "transformer":
            width = recipe.size
        # A token that never came may still be drawn, so that every token has a proposal.
        proposal = unigram([count + 1 for count in counts], recipe.proposal_power)
        kind = SampledSoftmax if recipe.head == "sampled" else NoiseContrastive
        if recipe.head == "sampled" and recipe.samples >= tokens:
            raise RecipeError(
                f"samples {recipe.samples}: the vocabulary has only {tokens} tokens; use head full"
            )
        head = kind(width, tokens, recipe.samples, proposal)
    network = build_network(KINDS[recipe.network], settings, head)
    return network.to(ft.dtype(recipe.dtype))


def target_names(recipe: Recipe) -> list[str]:
    """The layers of adapters."""
    return [name.strip() for name in recipe.lora_targets.split(",") if name.strip()]
