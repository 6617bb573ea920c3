"""Pictures of language models: learning curves and attention (``fl_nn.plot``)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from fl_nn import plot
from fl_nn.extend import JsonLog
from fl_tensor.annotations import explained
from fl_text.attention_maps import attention_maps
from fl_text.errors import TextError
from fl_text.language_model_folder import LanguageModelFolder

#: Tokens of a map of attention: the picture of a longer text cannot be read.
MOST_TOKENS = 40


def draw_curves(
    log: str | os.PathLike[str],
    points: Sequence[Mapping[str, Any]],
    path: str | os.PathLike[str],
) -> None:
    """The loss of the steps in a `log.jsonl`, and of the validations `points`, over the updates of
    a training. Raises MissingError without matplotlib."""
    steps = [
        {"step": record["step"], "train_loss": record["loss"]}
        for record in JsonLog(log).read()
        if record.get("event") == "step"
    ]
    measured = [{"step": p["step"], "valid_loss": p["valid_loss"]} for p in points]
    labels = {"loss": "loss, nats a token"}
    runs = {"": [*steps, *measured]} if steps else {"": measured}
    plot.curves(
        runs[""], metrics=["loss"], by="step", smooth=0.9, labels=labels, title="learning curves",
        path=path,
    )  # fmt: skip


@explained
def draw_attention(
    model: LanguageModelFolder, text: str, path: str | os.PathLike[str], layer: int = -1
) -> int:
    """Draw the attention of one layer of a language model on the beginning of a text, a map for
    each head, with tokens as names of rows and columns; how many tokens are shown, 40 at most.

    layer  from 0 on, or from the last one backwards: -1

    Raises TextError for a layer that is not there, and MissingError without matplotlib.
    """
    begins = model.sample in ("line", "documents")
    ids = model.tokenizer.encode(text, bos=begins)[: min(MOST_TOKENS, model.context or MOST_TOKENS)]
    maps = attention_maps(model.network, ids)
    if not -len(maps) <= layer < len(maps):
        raise TextError(
            f"[draw_attention] layer {layer}: the network has layers 0 to {len(maps) - 1}"
        )
    names = [model.tokenizer.decode([number]) or model.tokenizer.token(number) for number in ids]
    shown = [name.replace("\n", "\u21b5").replace(" ", "\u2423") for name in names]
    shown = [name.replace("$", "\\$") for name in shown]
    title = f"attention of layer {layer % len(maps)}"
    plot.attention(maps[layer], queries=shown, keys=shown, title=title, path=path)
    return len(ids)
