"""Maps of attention of language models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bad_values import value
from cases import Target
from fl_text import Tokenizer
from fl_text.attention_maps import attention_maps
from fl_text.language_model_folder import LanguageModelFolder
from fl_text.models import GPT2
from fl_text.pictures import draw_attention
from targets.making import At, target

SIZES: dict[str, Any] = {"tokens": 20, "steps": 8, "size": 4, "heads": 2, "layers": 1}
WRONG = [value(None), value(3), value("text"), value(len)]


def network() -> GPT2:
    return GPT2(**SIZES).eval()


def model() -> LanguageModelFolder:
    tokenizer = Tokenizer.train(["ab ba"], "char", 20, min_frequency=1)
    return LanguageModelFolder(network(), tokenizer, 8)


def drawn(model: Any, text: Any, path: Path, layer: Any = -1) -> int:
    return draw_attention(model, text, path, layer)


TARGETS: list[Target] = [
    target(
        "text.attention_maps.attention_maps",
        {"network": network, "tokens": [1, 2, 3]},
        call=attention_maps,
        network=WRONG,
        tokens=[*WRONG, value([]), value([99]), value([-1]), value([0.5]), value(["a"])],
    ),
    target(
        "text.pictures.draw_attention",
        {"model": model, "text": "abba", "path": At("x.png")},
        call=drawn,
        model=WRONG,
        text=[value(None), value(3), value("")],
        layer=[value(None), value("1"), value(5), value(-2)],
    ),
]
UNTRIED: dict[str, str] = {}
