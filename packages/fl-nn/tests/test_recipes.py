"""Recipes: settings of JSON files and options, and what is said of those that make no sense."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

import fl_memory
import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import (
    RecipeSettings,
    given_settings,
    in_threads,
    notes_of_run,
    print_lines,
    recipe_options,
    refuse_second_run,
    resumed_recipe,
    run_options,
    runtime,
    runtime_options,
    setting,
)


class BakingError(ValueError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"[bake] {problem}")


@dataclass(frozen=True)
class Bread(RecipeSettings):
    PACKAGE: ClassVar[str] = "recipes_of_breads"
    FOLDER: ClassVar[str] = "breads"
    COMMAND: ClassVar[str] = "bake"
    ERROR: ClassVar[type[Exception]] = BakingError

    flour: str = setting("wheat", "dough", "kind", choices=("wheat", "rye"))
    water: float = setting(0.7, "dough", "share of the flour, 70% by default", 0, 1, True)
    minutes: int = setting(40, "oven", "time", 1, 600)
    salted: bool = setting(True, "dough", "with salt")
    name: str = setting("", "dough", "for people")

    def contradictions(self) -> list[str]:
        return ["rye needs 50 minutes"] if self.flour == "rye" and self.minutes < 50 else []


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package of the recipes, in a temporary folder."""
    folder = tmp_path / "recipes_of_breads" / "breads"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("")
    (folder / "loaf.json").write_text('{"minutes": 50}')
    (folder / "black.json").write_text('{"flour": "rye", "minutes": 60}')
    (folder / "notes.txt").write_text("no recipe")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder


def test_recipes_of_the_package_are_read_by_name() -> None:
    assert Bread.recipe_names() == ("black", "loaf")
    assert Bread.read("loaf") == Bread(minutes=50)
    assert Bread.read("black", minutes=None, water=1) == Bread("rye", 1.0, 60)


def test_a_file_of_the_name_of_a_recipe_is_preferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loaf").write_text('{"minutes": 7}')
    assert Bread.read("loaf").minutes == 7


def test_values_survive_json_and_changes_are_checked() -> None:
    bread = Bread(water=1)
    assert isinstance(bread.water, float)
    assert Bread.of(json.loads(json.dumps(bread.values()))) == bread
    assert bread.changed(minutes=3).minutes == 3 and bread.changed() is bread
    with pytest.raises(BakingError, match="minutes is 0: give at least 1"):
        bread.changed(minutes=0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"minutes": 0, "water": 2}, "water is 2: give more than 0, and at most 1; minutes is 0"),
        ({"minutes": 2.5}, "minutes is 2.5: give a whole number"),
        ({"minutes": True}, "minutes is True: give a whole number"),
        ({"flour": "oats"}, "flour is 'oats': give one of wheat, rye"),
        ({"name": 3}, "name is 3: give text"),
        ({"salted": 1}, "salted is 1: give true or false"),
        ({"flour": "rye"}, "rye needs 50 minutes"),
        ({"yeast": 1, "sugar": 2}, "unknown settings 'yeast', 'sugar': `bake --help` lists all"),
        ([1], "it is list: give an object of settings"),
    ],
)
def test_settings_that_make_no_sense(values: object, message: str) -> None:
    with pytest.raises(BakingError, match=re.escape(message)):
        Bread.of(values)


def test_a_file_makes_sense_alone_and_with_what_is_given(tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    path.write_text('{"flour": "rye", "minutes": 5}')
    for given in ({}, {"minutes": 60}):
        with pytest.raises(BakingError, match=re.escape(f"[bake] {path}: rye needs 50 minutes")):
            Bread.read(path, **given)
    with pytest.raises(BakingError, match="black: rye needs 50 minutes"):
        Bread.read("black", minutes=5)
    with pytest.raises(BakingError, match="black: unknown settings 'yeast'"):
        Bread.read("black", yeast=1)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    path.write_text('{"minutes": 5')
    with pytest.raises(BakingError, match="recipe.json: no JSON"):
        Bread.read(path)
    path.write_text(" " * (1 << 20) + "{}")
    with pytest.raises(BakingError, match="longer than 1048576 bytes"):
        Bread.read(path)
    with pytest.raises(BakingError, match="no such file; the recipes of the package are black, lo"):
        Bread.read(tmp_path / "absent")
    with pytest.raises((BakingError, ft.FlError), match=re.escape(str(tmp_path))):
        Bread.read(tmp_path)


def _parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    recipe_options(parser, Bread)
    runtime_options(parser)
    return parser.parse_args(arguments)


def test_every_setting_is_an_option_with_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    given = _parsed("--flour", "rye", "--minutes", "60", "--no-salted")
    assert given_settings(given, Bread) == {"flour": "rye", "minutes": 60, "salted": False}
    with pytest.raises(SystemExit):
        _parsed("--help")
    shown = capsys.readouterr().out
    assert "share of the flour, 70% by default (0.7)" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--minutes", "0"), "argument --minutes: '0': give at least 1, and at most 600"),
        (("--minutes", "many"), "argument --minutes: 'many': give a whole number"),
        (("--water", "nan"), "argument --water: 'nan': give more than 0"),
        (("--flour", "oats"), "argument --flour: invalid choice: 'oats'"),
    ],
)
def test_options_that_make_no_sense(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(argparse.ArgumentError, match=re.escape(message)):
        _parsed(*arguments)


def test_a_block_runs_on_the_backend_and_memory_that_options_name() -> None:
    with runtime(_parsed("--backend", "numpy", "--memory", "system")):
        assert ft.zeros(2).backend.name == "numpy"
        assert fl_memory.current().name == "system"
    with runtime(_parsed()):
        pass


def test_threads_share_all_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ft.get_num_threads()
    try:
        ft.set_num_threads(3)
        seen: list[tuple[int, int]] = []
        in_threads(lambda first, last: seen.append((first, last)), 10, worth=8)
        assert sorted(seen) == [(0, 3), (3, 6), (6, 10)]
        seen.clear()
        in_threads(lambda first, last: seen.append((first, last)), 10, worth=0)
        assert seen == [(0, 10)]
    finally:
        ft.set_num_threads(before)


# ---- runs of commands


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--recipe")
    run = run_options(parser)
    run("--oven", help="where")
    recipe_options(parser, Bread)
    return parser.parse_args(arguments)


def saved(out: Path, **metadata: object) -> Path:
    out.mkdir()
    nn.save_checkpoint(out / "checkpoint.safetensors", nn.Linear(1, 1), metadata=metadata)
    return out


def test_a_run_goes_on_with_its_recipe(tmp_path: Path) -> None:
    out = saved(tmp_path / "run", bake={"recipe": Bread("rye", minutes=60).values()})
    notes = notes_of_run(out, Bread, "bake")

    def resumed(*arguments: str) -> Bread:
        given = options("--out", str(out), *arguments)
        return resumed_recipe(given, Bread, notes, ("minutes",), ("oven",))

    assert resumed() == resumed("--flour", "rye") == Bread("rye", minutes=60)
    assert resumed("--minutes", "90") == Bread("rye", minutes=90)
    with pytest.raises(BakingError, match="--flour was 'rye', is 'wheat'.*--oven is given"):
        resumed("--flour", "wheat", "--oven", "small")
    with pytest.raises(BakingError, match="own settings: --recipe is given; leave them out"):
        resumed("--recipe", "loaf")


def test_what_is_no_run_to_go_on_with(tmp_path: Path) -> None:
    with pytest.raises(BakingError, match="no run to resume in"):
        notes_of_run(tmp_path, Bread, "bake")
    out = saved(tmp_path / "run", roast={"recipe": {}}, bake={})
    with pytest.raises(BakingError, match="no run to resume in"):
        notes_of_run(out, Bread, "roast", ["bread.json"])
    with pytest.raises(BakingError, match="of another program, or malformed"):
        notes_of_run(out, Bread, "bake")


def test_a_run_is_overwritten_only_when_asked_for(tmp_path: Path) -> None:
    out = saved(tmp_path / "run")
    refuse_second_run(options("--out", str(tmp_path)), Bread)
    refuse_second_run(options("--out", str(out), "--overwrite"), Bread)
    with pytest.raises(BakingError, match="holds a run already: --resume goes on with it"):
        refuse_second_run(options("--out", str(out)), Bread)


def test_a_signal_is_the_status_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    def stopped() -> list[str]:
        raise nn.Interrupted(15, 7, None)

    assert print_lines("bake", lambda: ["one", "two"]) == 0
    assert print_lines("bake", stopped) == 143
    shown = capsys.readouterr()
    assert shown.out == "one\ntwo\n"
    assert shown.err == "bake: stopped after step 7; --resume goes on\n"
