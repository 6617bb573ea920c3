"""The command: what it writes and prints, and one line for what is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import pytest

import fl_text as text
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
    several = ["--max-size", 2, "--first", "<unk>", "--counts"]
    printed = run("dictionary", corpus_file, corpus_file, "-o", out, *several)
    assert printed == ["the 6", "cat 4", f"{out}: 3 tokens; 6 lines have 20 words, 7 different"]
    assert out.read_text("utf-8").split() == ["<unk>", "the", "cat"]
    run("dictionary", corpus_file, "-o", out, "--min-count", 3)
    assert out.read_text("utf-8").split() == ["the"]


def test_tokenize_by_a_dictionary_and_back(tmp_path, corpus_file, run, refuse):
    words = tmp_path / "words.txt"
    run("dictionary", corpus_file, "-o", words, "--min-count", 2, "--first", "</s>", "<unk>")
    numbers = run("tokenize", corpus_file, "--dictionary", words, "--eos")
    assert numbers == ["2 3 1 0", "2 1 1 2 3 0", "1 1 0"]
    out = tmp_path / "numbers.txt"
    assert run("tokenize", corpus_file, corpus_file, "--dictionary", words, "-o", out) == []
    assert out.read_text().splitlines() == ["2 3 1", "2 1 1 2 3", "1 1"] * 2
    assert run("tokenize", out, "--decode", "--dictionary", words)[:3] == [
        "the cat",
        "the the cat",
        "",
    ]
    out.write_text("2\n\n2 9\n")
    refused = "numbers.txt: line 3: .decode. ids.1. is 9, the vocabulary has 0 .. 3"
    again = tmp_path / "again.txt"
    decode = ["tokenize", out, "--decode", "--dictionary", words, "-o", again]
    assert re.search(refused, refuse(*decode))
    out.write_text("2 x\n")
    assert "numbers.txt: line 1: invalid literal" in refuse(*decode)
    assert not again.exists()


def test_tokenize_by_a_lexicon_and_back(tmp_path, run, refuse):
    (tmp_path / "tokens.txt").write_text("|\n" + "\n".join("cehlot") + "\n<1>\n")
    (tmp_path / "lexicon.txt").write_text("hello h e l l o |\n")
    page, numbers = tmp_path / "page.txt", tmp_path / "numbers.txt"
    page.write_text("hello hello\nhotel hello\n")
    tokens, lexicon = (
        ("--dictionary", tmp_path / "tokens.txt"),
        ("--lexicon", tmp_path / "lexicon.txt"),
    )
    command = [*tokens, *lexicon, "--replabels", 1]
    assert "'hotel' has no spelling" in refuse("tokenize", page, *command, "-o", numbers)
    run("tokenize", page, *command, "--letters", "-o", numbers)
    assert numbers.read_text().splitlines()[0] == "3 2 4 7 5 0 3 2 4 7 5 0"
    assert run("tokenize", numbers, *command, "--decode") == page.read_text().splitlines()
    with pytest.raises(SystemExit):
        main(["tokenize", str(page), "--tokenizer", "t.json", *map(str, lexicon)])


def test_tokenize_by_a_tokenizer_and_back(tmp_path, corpus_file, run, refuse, tokenizers):
    tokenizers["bpe"].save(tmp_path / "tokenizer.json")
    command = ["--tokenizer", tmp_path / "tokenizer.json"]
    numbers = tmp_path / "numbers.txt"
    run("tokenize", corpus_file, *command, "-o", numbers)
    page = corpus_file.read_text("utf-8").splitlines()
    assert numbers.read_text().splitlines()[0] == " ".join(
        map(str, tokenizers["bpe"].encode(page[0]))
    )
    assert run("tokenize", numbers, *command, "--decode") == page
    assert "words.json" in refuse("tokenize", numbers, "--tokenizer", tmp_path / "words.json")


def test_tokenize_into_a_token_file(tmp_path, corpus_file, run, refuse, tokenizers):
    tokenizer = tokenizers["bpe"]
    tokenizer.save(tmp_path / "tokenizer.json")
    out = tmp_path / "corpus.tokens"
    command = ["tokenize", corpus_file, "--tokenizer", tmp_path / "tokenizer.json", "--token-file"]
    (printed,) = run(*command, "-o", out, "--bos", "--eos")
    file = text.TokenFile(out, tokenizer)
    assert printed == f"{out}: {file.count} tokens in 3 lines; {tokenizer.fingerprint()}"
    lines = corpus_file.read_text("utf-8").splitlines()
    assert file[2].tolist() == tokenizer.encode(lines[2], bos=True, eos=True)
    corpus_file.write_text("\n \n")
    assert "the texts have no tokens" in refuse(*command, "-o", out)
    assert text.TokenFile(out).count == file.count  # the old one stays
    with pytest.raises(SystemExit):
        main([str(argument) for argument in command])


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


def test_the_module_is_the_command_and_starts_workers(tmp_path, corpus_file):
    out = tmp_path / "words.txt"
    options = ["-o", str(out), "--workers", "2"]
    command = [sys.executable, "-m", "fl_text", "dictionary", str(corpus_file), *options]
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert "3 lines have 10 words, 7 different" in found.stdout
    assert out.read_text("utf-8").startswith("the\n")
