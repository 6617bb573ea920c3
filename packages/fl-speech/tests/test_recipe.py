"""Recipes, saved recognisers, and the options that the documentation names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fl_speech.cli import COMMANDS, main
from fl_speech.errors import RecipeError
from fl_speech.recipe import Recipe, recipe_names
from fl_speech.recogniser import load_recogniser

DOCS = Path(__file__).parents[3] / "docs" / "speech-program.md"


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_of_the_package(name: str) -> None:
    recipe = Recipe.read(name)
    assert name in (f"{task}-digits-{recipe.criterion}" for task in ("spoken", "connected"))
    assert Recipe.of(json.loads(json.dumps(recipe.values()))) == recipe
    assert Recipe.read(name, epochs=3).epochs == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epoch": 3}, "unknown settings 'epoch'"),
        ({"epochs": 0}, "epochs is 0: give at least 1"),
        ({"epochs": 2.5}, "epochs is 2.5: give a whole number"),
        ({"lr": "fast"}, "lr is 'fast': give a number"),
        ({"lr": 0}, "lr is 0: give more than 0"),
        ({"lr": float("nan")}, "lr is nan: give more than 0"),
        ({"amp": 1}, "amp is 1: give true or false"),
        ({"criterion": "mmi"}, "criterion is 'mmi': give one of ctc, asg, seq2seq, transformer"),
        ({"kernel": 4}, "kernel is 4: give an odd number"),
        ({"linseg": 3}, "linseg needs criterion asg"),
        ({"low_hz": 900, "high_hz": 800}, "high_hz 800 is not above low_hz 900"),
        ({"epochs": 0, "seed": -1}, "seed is -1: give at least 0, and at most"),
        ([], "give an object of settings"),
    ],
)
def test_settings_that_make_no_sense(values: object, message: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(message)):
        Recipe.of(values)


def test_files_of_recipes(tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    path.write_text('{"lr": 0.5')
    with pytest.raises(RecipeError, match="recipe.json: no JSON"):
        Recipe.read(path)
    path.write_text('{"lr": -1}')
    with pytest.raises(RecipeError, match="recipe.json: lr is -1"):
        Recipe.read(path)
    with pytest.raises(RecipeError, match="no such file; the recipes of the package are"):
        Recipe.read(tmp_path / "missing")


def test_saved_recognisers_are_not_trusted(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="holds no recogniser"):
        load_recogniser(tmp_path)
    described = json.loads((run / "recogniser.json").read_text())
    for name in ("tokens.txt", "lexicon.txt", "weights.safetensors"):
        (tmp_path / name).write_bytes((run / name).read_bytes())

    def load(**changes: object) -> None:
        (tmp_path / "recogniser.json").write_text(json.dumps({**described, **changes}))
        load_recogniser(tmp_path)

    load()
    with pytest.raises(RecipeError, match="of another version"):
        load(format=99)
    with pytest.raises(RecipeError, match="arch or its statistics are malformed"):
        load(statistics=[[1.0], [0.0]])
    with pytest.raises(RecipeError, match="statistics of 1 features, and a frame has 20"):
        load(statistics=[[1.0], [1.0]])
    with pytest.raises(RecipeError, match="Python code"):
        load(recipe={**described["recipe"], "arch": "evil.py"}, arch="raise SystemExit")
    with pytest.raises(Exception, match="first.weight"):
        load(recipe={**described["recipe"], "channels": 12})


def test_runs_are_not_replaced_or_changed_unasked(
    run: Path, task: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["--train", str(task / "train.lst"), "--tokens", str(task / "tokens.txt")]
    assert main(["train", "--out", str(run), *data]) == 1
    assert "holds a run already: --resume goes on" in capsys.readouterr().err
    assert main(["train", "--out", str(run), "--resume", "--lr", "5"]) == 1
    assert "--lr was 0.01, is 5.0" in capsys.readouterr().err
    assert main(["train", "--out", str(run / "new")]) == 1
    assert "give --train and --tokens" in capsys.readouterr().err


@pytest.mark.skipif(not DOCS.is_file(), reason="not in a checkout")
def test_the_documentation_names_options_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    known: set[str] = set()
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        known |= set(re.findall(r"--[a-z][a-z0-9-]*", capsys.readouterr().out))
    named = set(re.findall(r"--[a-z][a-z0-9-]*", DOCS.read_text()))
    assert named and named <= known
