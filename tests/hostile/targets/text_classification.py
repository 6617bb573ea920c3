"""Classifiers of short texts: data, recipes, training, folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bad_values import Bad, value
from cases import Target
from fl_text import Tokenizer, classification
from fl_text.classification import ClassifierRecipe, LabelledTexts, TextClassifier
from fl_text.models import GRUClassifier
from targets.making import At, target

TEXTS = ["anna", "otto", "bob"]
NAMES = {"A.txt": b"anna\notto\n", "B.txt": b"bob\n"}
WRONG = [value(None), value(3), value("text"), value(len)]


def data() -> LabelledTexts:
    return LabelledTexts(TEXTS, [0, 0, 1], ["A", "B"])


def classifier() -> TextClassifier:
    tokenizer = Tokenizer.train(TEXTS, "char", 30, min_frequency=1)
    return TextClassifier(GRUClassifier(len(tokenizer), 2, 4, 1).eval(), tokenizer, ["A", "B"])


class Folder(At):
    """The folder of a classifier, whole or with another description."""

    def __init__(self, description: bytes | None = None) -> None:
        super().__init__("classifier")
        self.description = description

    def make(self, folder: Path) -> Path:
        path = folder / "classifier"
        classification.save_text_classifier(path, classifier())
        if self.description is not None:
            (path / "text_classifier.json").write_bytes(self.description)
        return path


def trained(recipe: Any, train: Any, **options: Any) -> Any:
    return classification.train_text_classifier(recipe, train, progress=False, **options)


def log_probs(network: Any, texts: Any, batch_size: Any = 2) -> Any:
    return TextClassifier(network.network, network.tokenizer, ["A", "B"]).log_probs(
        texts, batch_size
    )


def file(content: bytes) -> Bad:
    return Bad(f"a file {content[:9]!r}", At("names.tsv", content).make)


TARGETS: list[Target] = [
    target(
        "text.classification.read_labelled_texts",
        {"path": At("names", NAMES)},
        call=classification.read_labelled_texts,
        path=[
            value(None),
            value(3),
            value("nowhere"),
            *map(file, (b"", b"anna\n", b"anna\tA\n", b"\xff\tA\n", b"\x1f\x8b\tA\nb\tB\n")),
            Bad("an empty folder", lambda folder: folder),
        ],
        classes=[value(3), value(["A"]), value([1, 2])],
    ),
    target(
        "text.classification.LabelledTexts",
        {"texts": TEXTS, "labels": [0, 0, 1], "classes": ["A", "B"]},
        call=classification.LabelledTexts,
        texts=[*WRONG, value(["a"]), value([1, 2, 3]), value(["a", "b", " "])],
        labels=[*WRONG, value([0]), value([0, 1, 2]), value([0, 1, -1]), value([0.5, 1, 1])],
        classes=[*WRONG[:2], value([]), value(["A"]), value([1, 2])],
    ),
    target(
        "text.classification.LabelledTexts split",
        {"share": 0.5},
        call=lambda **options: data().split(**options),
        share=[value(None), value("1"), value(1.0), value(-0.1), value(float("nan"))],
        seed=[value("1"), value(0.5)],
    ),
    target(
        "text.classification.ClassifierRecipe",
        {"size": 4},
        call=ClassifierRecipe,
        size=[value(0), value("4"), value(None), value(1 << 40)],
        lr=[value(0), value("1"), value(-1.0), value(float("nan"))],
        optimizer=[value(None), value("lion")],
        epochs=[value(0), value(0.5)],
        balanced=[value(1), value(None)],
        seed=[value(-1), value("0")],
    ),
    target(
        "text.classification.train_text_classifier",
        {"recipe": ClassifierRecipe(size=4, layers=1, epochs=1), "train": data},
        call=trained,
        recipe=WRONG,
        train=[*WRONG, Bad("an empty class", lambda _: LabelledTexts(["a"], [0], ["A", "B"]))],
        valid=[*WRONG[1:], Bad("other classes", lambda _: LabelledTexts(["a"], [0], ["A"]))],
        out=[value(3), value(len)],
    ),
    target(
        "text.classification.TextClassifier",
        {"network": classifier, "texts": TEXTS},
        call=log_probs,
        texts=[*WRONG, value([]), value([1]), value(["a", " "])],
        batch_size=[value(0), value("1"), value(0.5)],
    ),
    target(
        "text.classification.save_text_classifier",
        {"folder": At("classifier"), "classifier": classifier},
        call=classification.save_text_classifier,
        folder=[value(None), value(3)],
        classifier=WRONG,
    ),
    target(
        "text.classification.load_text_classifier",
        {"folder": Folder()},
        call=classification.load_text_classifier,
        folder=[
            value(None),
            value(3),
            value("nowhere"),
            *(
                Bad(f"description {content[:9]!r}", Folder(content).make)
                for content in (b"", b"{", b"[]", b'{"format": 1}')
            ),
        ],
    ),
]
UNTRIED: dict[str, str] = {
    "text.classification.TrainedClassifier": "train_text_classifier fills it",
}
