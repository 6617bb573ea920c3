"""Classifiers of short texts: data, training, folders, and fl-text classify."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from text_runs import NUMPY

import fl_nn as nn
import fl_tensor as ft
from fl_nn.training import trainer as trainer_module
from fl_text.classification import (
    ClassifierRecipe,
    LabelledTexts,
    load_text_classifier,
    read_labelled_texts,
    train_text_classifier,
)
from fl_text.cli import main
from fl_text.errors import RecipeError, TextError, TextFileError

SYLLABLES = {
    "Elvish": ("la", "ri", "el", "thi", "né"),
    "Orcish": ("gru", "mok", "zag", "ur", "bash"),
    "Plain": ("ton", "ham", "ley", "wick", "ford"),
}
SMALL = ("--size", "24", "--layers", "1", "--batch-size", "16", "--lr", "0.01", "--quiet")


def names(count: int, seed: int = 0) -> dict[str, list[str]]:
    draw = random.Random(seed)
    return {
        language: ["".join(draw.choices(parts, k=draw.randint(2, 4))) for _ in range(count)]
        for language, parts in SYLLABLES.items()
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of names for each language."""
    path = tmp_path / "names"
    path.mkdir()
    for language, found in names(60).items():
        (path / f"{language}.txt").write_text("\n".join(found) + "\n\n", encoding="utf-8")
    return path


def train(folder: Path, out: str, *options: str) -> int:
    command = ["classify", "train", str(folder), "--out", str(folder.parent / out)]
    return main([*command, *SMALL, *NUMPY, *options])


def test_a_folder_and_a_file_of_two_columns_are_the_same(folder: Path, tmp_path: Path) -> None:
    rows = [f"{name}\t{language}\n" for language, found in names(60).items() for name in found]
    (tmp_path / "names.tsv").write_text("".join(rows), encoding="utf-8")
    data = read_labelled_texts(folder)
    assert data == read_labelled_texts(tmp_path / "names.tsv")
    assert data.classes == ["Elvish", "Orcish", "Plain"]
    assert data.counts() == [60, 60, 60]
    assert data.classes[data.labels[0]] == "Elvish" and data.texts[0] == names(60)["Elvish"][0]


def test_a_split_has_a_share_of_every_class(folder: Path) -> None:
    data = read_labelled_texts(folder)
    train, held = data.split(0.25, seed=3)
    assert (train.counts(), held.counts()) == ([45] * 3, [15] * 3)
    assert sorted([*train.texts, *held.texts]) == sorted(data.texts)
    assert data.split(0.25, seed=3)[1] == held != data.split(0.25, seed=4)[1]


def test_names_are_learnt_measured_and_told(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    assert train(folder, "run", "--epochs", "4") == 0
    assert "180 texts of 3 classes" in capsys.readouterr().out
    rows = [f"{name}\t{language}\n" for language, found in names(9, 1).items() for name in found]
    (tmp_path / "new.tsv").write_text("".join(rows), encoding="utf-8")
    run = str(tmp_path / "run")
    assert main(["classify", "eval", run, str(tmp_path / "new.tsv"), "--json", *NUMPY]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["accuracy"] > 95.0
    assert [sum(row) for row in found["confusion"]] == [9, 9, 9]
    assert found["classes"]["Orcish"]["support"] == 9
    assert main(["classify", "predict", run, "grumokzag", "hamleyton", *NUMPY]) == 0
    orcish, plain = capsys.readouterr().out.splitlines()
    assert orcish.startswith("grumokzag: Orcish (0.9") and plain.startswith("hamleyton: Plain")
    monkeypatch.setattr("sys.stdin", io.StringIO("larithi\n\n"))
    assert main(["classify", "predict", run, "--json", "--top", "2", *NUMPY]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["text"] == "larithi" and told["best"][0]["class"] == "Elvish"
    assert len(told["best"]) == 2


def test_confusions_are_printed_and_drawn(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    assert train(folder, "run", "--epochs", "3") == 0
    wrong = tmp_path / "wrong.tsv"
    wrong.write_text("grumok\tElvish\nzagzag\tElvish\nlari\tElvish\n")
    capsys.readouterr()
    picture = tmp_path / "confusion.png"
    options = ["--confusion", str(picture), *NUMPY]
    assert main(["classify", "eval", str(tmp_path / "run"), str(wrong), *options]) == 0
    told = capsys.readouterr().out
    assert "2 of Elvish taken for Orcish" in told and "accuracy 33.33 % of 3 texts" in told
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_weights_are_those_of_the_lowest_validation_loss(folder: Path) -> None:
    data = read_labelled_texts(folder)
    train, valid = data.split(0.2)
    # A learning rate that is too high spoils later epochs.
    recipe = ClassifierRecipe(size=8, layers=1, epochs=4, lr=1.5, clip=0.0)
    trained = train_text_classifier(recipe, train, valid, progress=False)
    lowest = min(record["valid_loss"] for record in trained.history)
    assert lowest < trained.history[-1]["valid_loss"]
    scores = trained.classifier.log_probs(valid.texts)
    wanted = ft.asarray(valid.labels, ft.int64)
    assert nn.cross_entropy(scores, wanted).item() == pytest.approx(lowest, rel=1e-3)


def test_classes_of_unequal_size_are_drawn_as_often(tmp_path: Path) -> None:
    texts = ["a"] * 95 + ["b"] * 5
    data = LabelledTexts(texts, [0] * 95 + [1] * 5, ["A", "B"])
    shares = []
    for balanced in (False, True):
        # Without information in the texts, probabilities become the shares that were drawn.
        same = LabelledTexts(["x"] * 100, data.labels, data.classes)
        recipe = ClassifierRecipe(
            size=4, layers=1, epochs=20, lr=0.05, balanced=balanced, valid_share=0.0
        )
        found = train_text_classifier(recipe, same, progress=False).classifier
        shares.append(ft.exp(found.log_probs(["x"]))[0, 1].item())
    assert shares[0] < 0.15 and 0.4 < shares[1] < 0.6


def test_a_killed_and_resumed_training_ends_with_the_same_bits(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train(folder, "whole", "--epochs", "3") == 0
    steps = trainer_module.train_step

    def killed(trainer: nn.Trainer, *arguments: Any) -> float:
        if trainer.epoch == 2:
            raise KeyboardInterrupt
        return steps(trainer, *arguments)

    monkeypatch.setattr(trainer_module, "train_step", killed)
    with pytest.raises(KeyboardInterrupt):
        train(folder, "killed", "--epochs", "3")
    monkeypatch.undo()
    command = ["classify", "train", str(folder), "--out", str(tmp_path / "killed"), "--resume"]
    assert main([*command, "--quiet", *NUMPY]) == 0
    whole, resumed = (
        (tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "killed")
    )
    assert whole == resumed


def test_two_ranks_are_one(folder: Path, tmp_path: Path) -> None:
    assert train(folder, "one", "--epochs", "1") == 0
    assert train(folder, "two", "--epochs", "1", "--ranks", "2", "--communicator", "threads") == 0
    texts = ["larithi", "grumok"]
    one, two = (load_text_classifier(tmp_path / name).log_probs(texts) for name in ("one", "two"))
    assert ft.allclose(one, two, atol=1e-4)


def test_the_recipe_of_names_is_that_of_flashlight() -> None:
    recipe = ClassifierRecipe.read("names-gru")
    assert (recipe.size, recipe.layers, recipe.dropout) == (256, 2, 0.0)
    assert (recipe.optimizer, recipe.lr, recipe.momentum, recipe.clip) == ("sgd", 0.1, 0.9, 0.25)
    assert (recipe.epochs, recipe.batch_size, recipe.epoch_share) == (6, 1, 0.3)
    assert recipe.balanced


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it has no text"),
        (b"Anna\tA\nBob\n", "line 2 is 'Bob': write a text, a tab and its class"),
        (b"Anna\tA\n\tB\n", "line 2 is 'B'"),
        (b"Anna\tA\n\xff\tB\n", "line 2 is not UTF-8"),
        (b"Anna\tA\nEve\tA\n", "it has one class, 'A': give at least two"),
        (b"a" * 5000 + b"\tA\n", "the text in line 1 has 5000 characters, 4096 are the most"),
        (b"Anna\t" + b"A" * 300, "line 1 has a class of 300 characters"),
    ],
)
def test_files_that_are_no_labelled_texts(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "names.tsv").write_bytes(content)
    with pytest.raises(TextFileError, match=message) as caught:
        read_labelled_texts(tmp_path / "names.tsv")
    assert "names.tsv" in str(caught.value)


def test_folders_that_have_no_classes(tmp_path: Path) -> None:
    with pytest.raises(TextFileError, match=r"no \.txt file: give one for each class"):
        read_labelled_texts(tmp_path)
    (tmp_path / "Greek.txt").write_text("Alexis\n")
    (tmp_path / "Irish.txt").write_text("\n")
    with pytest.raises(TextFileError, match=r"Irish\.txt: it has no text: remove it"):
        read_labelled_texts(tmp_path)
    with pytest.raises(TextFileError, match="no such file or folder"):
        read_labelled_texts(tmp_path / "none")


def test_a_class_that_the_model_does_not_have_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "names.tsv").write_text("Anna\tA\nBob\tB\n")
    with pytest.raises(TextFileError, match="line 2 is of class 'B', and the model has 'A', 'C'"):
        read_labelled_texts(tmp_path / "names.tsv", ["A", "C"])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": 0}, "size is 0: give at least 1"),
        ({"momentum": 0.9}, "momentum with optimizer adamw: it is of sgd"),
        ({"epoch_share": 0.5}, "epoch_share without balanced"),
        ({"lengths": 3}, "unknown settings 'lengths': `fl-text classify train --help`"),
    ],
)
def test_settings_that_make_no_sense(values: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        ClassifierRecipe.of(values)


def test_a_class_without_texts_cannot_be_learnt() -> None:
    with pytest.raises(RecipeError, match="class 'B' has no text to learn from"):
        train_text_classifier(ClassifierRecipe(), LabelledTexts(["a"], [0], ["A", "B"]))


def test_blank_texts_have_no_class(folder: Path) -> None:
    data = read_labelled_texts(folder)
    recipe = ClassifierRecipe(size=4, layers=1, epochs=1)
    model = train_text_classifier(recipe, data, progress=False).classifier
    with pytest.raises(TextError, match="text 1 is blank"):
        model.log_probs(["a", " "])
    with pytest.raises(TextError, match="no texts"):
        model.log_probs([])


def test_folders_that_are_no_classifier(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["classify", "predict", str(folder), "Anna", *NUMPY]) == 1
    assert "it holds no classifier of texts" in capsys.readouterr().err
    assert train(folder, "run", "--epochs", "1") == 0
    assert train(folder, "run", "--epochs", "1") == 1
    assert "holds a run already: --resume goes on with it" in capsys.readouterr().err
    assert train(folder, "run", "--resume", "--seed", "1") == 1
    assert "--seed was 0, is 1" in capsys.readouterr().err
    description = tmp_path / "run" / "text_classifier.json"
    whole = json.loads(description.read_text(encoding="utf-8"))
    for name, value in (
        ("classes", ["A", "A"]),
        ("settings", {"hidden": 1 << 40, "layers": 1}),
        ("settings", {"hidden": 24}),
        ("tokenizer", 3),
        ("format", 9),
    ):
        description.write_text(json.dumps({**whole, name: value}))
        with pytest.raises(TextFileError, match=r"text_classifier\.json"):
            load_text_classifier(tmp_path / "run")
    description.write_text(json.dumps({**whole, "settings": {"hidden": 1 << 20, "layers": 1}}))
    with pytest.raises(nn.CheckpointError, match="embedding.weight"):
        load_text_classifier(tmp_path / "run")
