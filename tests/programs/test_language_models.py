"""The experiments of `examples/language_models`, and the commands of the tutorial, in miniature."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from fl_text.cli import main as fl_text

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "language_models"
SMALL = (
    *("--minutes", "0", "--epochs", "0", "--updates", "4", "--size", "8", "--layers", "1"),
    *("--context", "8", "--batch-size", "4", "--backend", "numpy", "--quiet"),
)
TEXT = "".join(f"the cat sees a dog\nthe {owl} hears\n" for owl in ("owl", "dog", "cat") * 30)


@pytest.fixture(scope="module")
def results() -> ModuleType:
    spec = spec_from_file_location("language_model_results", FOLDER / "results.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["char", "bpe", "bert", "lstm", "twin", "lstm-twin"])
def test_an_experiment(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name in results.TWINS:
        pytest.importorskip("torch")
        monkeypatch.syspath_prepend(FOLDER)
    (tmp_path / "text.txt").write_text(TEXT)
    heads = () if name.startswith("lstm") else ("--heads", "2", "--no-compiled")
    place = ["--data", str(tmp_path / "text.txt"), "--out", str(tmp_path / "out")]
    assert results.main([name, *place, "--", *SMALL, *heads]) in (0, 1)
    found = json.loads((tmp_path / "out" / f"{name}.json").read_text())
    assert found["figures"] and all(math.isfinite(f["value"]) for f in found["figures"])


def test_the_commands_of_the_tutorial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "train-a-language-model.md").read_text()
    commands = re.findall(r"```sh\n(.*?)```", page, re.S)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shakespeare.txt").write_text(TEXT)
    assert commands[0].splitlines() == [
        "head -n 36000 shakespeare.txt > train.txt",
        "tail -n +36001 shakespeare.txt > valid.txt",
    ]
    subprocess.run(commands[0].replace("3600", "15"), shell=True, check=True)
    os.truncate("train.txt", 2000)
    Path("valid.txt").write_text(TEXT[:400])
    small = [*SMALL, "--heads", "2", "--no-compiled"]
    for line in "".join(commands[1:]).splitlines():
        program, command, *options = shlex.split(line)
        assert program == "fl-text"
        if "--resume" in options:
            options = ["--out", "run", "--resume", "--updates", "6", "--quiet"]
        elif command == "train":
            options += small
        elif command == "ngram":
            options += ["--discount-fallback", "0.5", "1", "1.5"]
        elif command == "eval":
            options = [option if option != "64" else "4" for option in options]
        assert fl_text([command, *options]) == 0, line
    assert "bits a character" in capsys.readouterr().out
    code = re.findall(r"```python\n(.*?)```", page, re.S)[0]
    exec(compile(code, "tutorial", "exec"), {})


def test_the_twin_in_pytorch_learns_the_same(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(FOLDER))
    (tmp_path / "text.txt").write_text(TEXT)
    more = ("--heads", "2", "--no-compiled", "--dropout", "0", "--updates", "12")
    place = results.Place(tmp_path / "text.txt", tmp_path, (*SMALL, *more, "--valid-tokens", "0"))
    other, above = results.twin(place)
    assert 0 < other.value < 6 and abs(above.value) < 1e-3
