"""The command: what it writes and prints, and one line for what is wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from fl_text.cli import main


@pytest.fixture
def run(capsys) -> Callable[..., list[str]]:
    """run(*arguments) -> the lines on standard output; the command must succeed."""

    def run(*arguments: object) -> list[str]:
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert status == 0, captured.err
        return captured.out.splitlines()

    return run


@pytest.fixture
def refuse(capsys) -> Callable[..., str]:
    """refuse(*arguments) -> the one line on standard error; the command must end with status 1."""

    def refuse(*arguments: object) -> str:
        assert main([str(argument) for argument in arguments]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        (line,) = captured.err.splitlines()
        assert line.startswith(f"fl-text {arguments[0]}: ")
        return line

    return refuse


@pytest.fixture
def corpus_file(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("the cat sat\nthe dog saw the cat\nnaïve café\n", "utf-8")
    return path


def test_dictionary_of_the_frequent_words(tmp_path, corpus_file, run):
    out = tmp_path / "words.txt"
    printed = run("dictionary", corpus_file, "-o", out)
    assert printed == [f"{out}: 7 tokens; 3 lines have 10 words, 7 different"]
    assert out.read_text("utf-8").split() == "the cat café dog naïve sat saw".split()
    several = ["--max-size", 2, "--first", "<unk>", "--workers", 2, "--counts"]
    printed = run("dictionary", corpus_file, corpus_file, "-o", out, *several)
    assert printed == ["the 6", "cat 4", f"{out}: 3 tokens; 6 lines have 20 words, 7 different"]
    assert out.read_text("utf-8").split() == ["<unk>", "the", "cat"]
    run("dictionary", corpus_file, "-o", out, "--min-count", 3)
    assert out.read_text("utf-8").split() == ["the"]


def test_errors_are_one_line(tmp_path, corpus_file, refuse):
    out = tmp_path / "words.txt"
    assert "missing.txt: unreadable" in refuse("dictionary", tmp_path / "missing.txt", "-o", out)
    with corpus_file.open("ab") as file:
        file.write(b"\xff")
    assert "line 4 is not UTF-8" in refuse("dictionary", corpus_file, "-o", out)
    assert not out.exists()


def test_usage_errors_end_with_status_2(corpus_file, capsys):
    for arguments in (
        ["dictionary", str(corpus_file)],
        ["dictionary", str(corpus_file), "-o", "x", "--workers", "0"],
        ["unheard-of"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert "usage: fl-text" in capsys.readouterr().err


def test_the_module_is_the_command(tmp_path, corpus_file):
    out = tmp_path / "words.txt"
    command = [sys.executable, "-m", "fl_text", "dictionary", str(corpus_file), "-o", str(out)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert out.read_text("utf-8").startswith("the\n")
