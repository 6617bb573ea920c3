"""The six models of Table 3 of the Flashlight paper (Kahn et al., 2022), and two that its programs
train, ResNet-34 and DETR, as a user writes them.

Each module holds one network with the settings of its paper as defaults, `batch(size)` for random
data and `loss(batch)`:

    model = MODELS["vit"].build()
    optimizer = nn.AdamW(model.parameters(), lr=1e-3)
    model.loss(model.batch(4)).backward()
    optimizer.step()

The twins, which have the same settings and the same names, are PyTorch's, in `models.twins`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import fl_nn as nn
from models.alexnet import AlexNet
from models.asr import ASRTransformer
from models.bert import BERT, PaperBERT
from models.detr import DETR
from models.resnet34 import ResNet34
from models.resnet50 import ResNet50
from models.vgg16 import VGG16
from models.vit import ViT


@dataclass(frozen=True)
class Model:
    """One row of the table.

    build       the class; its defaults are the model of the paper
    paper       how many parameters the paper gives, in millions
    parameters  how many there are
    size        samples per batch in the benchmark
    small       settings of a miniature for tests
    still       settings that leave nothing to chance
    alone       whether it is so large that one library at a time is measured
    """

    build: type[nn.Module]
    paper: float
    parameters: int
    size: int
    small: Mapping[str, Any]
    still: Mapping[str, Any] = field(default_factory=lambda: {"dropout": 0.0})
    alone: bool = False

    def twin(self, **settings: Any) -> Any:
        """The same model of PyTorch, which is imported here and not before."""
        name = self.build.__module__.rpartition(".")[2]
        module = importlib.import_module(f"models.twins.{name}")
        return getattr(module, self.build.__name__)(**settings)


MODELS = {
    "alexnet": Model(
        AlexNet,
        paper=61,
        parameters=61_100_840,
        size=32,
        small=dict(channels=(6, 8, 10, 8, 8), hidden=24, image=127, classes=10),
    ),
    "vgg16": Model(
        VGG16,
        paper=138,
        parameters=138_357_544,
        size=4,
        small=dict(widths=(4, 6, 8, 10, 12), hidden=24, image=64, classes=10),
    ),
    "resnet50": Model(
        ResNet50,
        paper=25.6,
        parameters=25_557_032,
        size=8,
        small=dict(depths=(2, 1, 1, 1), width=4, image=64, classes=10),
        still={},
    ),
    "bert": Model(
        BERT,
        paper=108,
        parameters=108_625_722,
        size=4,
        small=dict(tokens=50, steps=12, size=24, heads=3, layers=3),
    ),
    "asr": Model(
        ASRTransformer,
        paper=263,
        parameters=263_713_550,
        size=4,
        small=dict(features=8, frames=40, size=24, heads=2, layers=4, classes=30),
    ),
    "vit": Model(
        ViT,
        paper=87,
        parameters=86_567_656,
        size=4,
        small=dict(patch=4, size=24, heads=3, layers=3, image=16, classes=10),
    ),
}

#: The six, and the BERT-like model as large as the paper's, which only `paper_models.py` measures.
PAPER_MODELS = {
    **MODELS,
    "paper-bert": Model(
        PaperBERT,
        paper=406,
        parameters=405_828_697,
        size=4,
        small=dict(tokens=50, steps=12, size=24, heads=3, layers=3, positions=20),
        alone=True,
    ),
}
#: Others that the programs of Flashlight train. A step of DETR reads costs on the host, to match
#: objects, so that no compiled step holds it.
PROGRAM_MODELS = {
    "resnet34": Model(
        ResNet34,
        paper=21.8,
        parameters=21_797_672,
        size=16,
        small=dict(depths=(2, 1, 1, 1), width=4, image=64, classes=10),
        still={},
    ),
    "detr": Model(
        DETR,
        paper=41.5,
        parameters=41_524_768,
        size=1,
        small=dict(
            depths=(1, 1, 1, 1),
            width=4,
            image=64,
            classes=5,
            queries=6,
            objects=2,
            size=16,
            heads=2,
            hidden=24,
            layers=2,
        ),
    ),
}

ALL_MODELS = PAPER_MODELS | PROGRAM_MODELS
