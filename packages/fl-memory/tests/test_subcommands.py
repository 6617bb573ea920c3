"""Commands of several subcommands: ``fl_memory.subcommands``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from fl_memory.subcommands import at_least, dispatch

COMMANDS = {"say-hello": "greets", "fail": "does not", "stop": "has no reader"}

MODULES = {
    "say_hello": "def main(arguments):\n    print('hello', *arguments)\n    return 3\n",
    "fail": "def main(arguments):\n    raise FileNotFoundError('no such trace')\n",
    "stop": "def main(arguments):\n    raise BrokenPipeError\n",
}


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "fl_greeter"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, f"fl_greeter.{name}", raising=False)
    monkeypatch.delitem(sys.modules, "fl_greeter", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))


def run(*arguments: str) -> int:
    return dispatch("fl-greeter", "1.2", "fl_greeter", COMMANDS, list(arguments))


def test_the_module_of_the_subcommand_gets_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("say-hello", "--all", "you") == 3
    assert capsys.readouterr().out == "hello --all you\n"
    assert "fl_greeter.fail" not in sys.modules, "a module is imported when it is called"


def test_an_error_is_one_line_and_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fail") == 1
    assert capsys.readouterr().err == "fl-greeter fail: no such trace\n"


def test_a_reader_that_went_away_is_success(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "stderr").open("w") as file:
        monkeypatch.setattr(sys, "stderr", file)
        assert run("stop") == 0
        assert file.closed


@pytest.mark.parametrize("arguments", [(), ("--help",)], ids=str)
def test_the_subcommands_are_listed(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 0
    assert "say-hello  greets" in capsys.readouterr().out


def test_an_unknown_subcommand_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("dance")
    assert ended.value.code == 2
    assert "fl-greeter: error" in capsys.readouterr().err


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("--version")
    assert capsys.readouterr().out == "fl-greeter 1.2\n"


def test_integers_from_a_least_one_are_a_type_of_argparse(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=at_least(2))
    assert parser.parse_args(["--count", "2"]).count == 2
    for wrong, message in (("1", "1 is too small, at least 2 is needed"), ("x", "invalid integer")):
        with pytest.raises(SystemExit):
            parser.parse_args(["--count", wrong])
        assert message in capsys.readouterr().err
