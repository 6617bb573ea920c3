"""`fl-text ngram`: train, score, prune and convert."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fl_text.cli import main


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    draw = random.Random(0)
    lines = (
        " ".join(f"w{min(300, int(draw.paretovariate(0.8)))}" for _ in range(draw.randrange(1, 9)))
        for _ in range(600)
    )
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines) + "\n\n", "utf-8")
    return path


def test_a_model_from_text_to_scores(tmp_path: Path, corpus: Path, capsys) -> None:
    def run(*arguments: object) -> str:
        assert main(["ngram", *map(str, arguments)]) == 0
        return capsys.readouterr().out

    arpa, small, binary = (tmp_path / name for name in ("m.arpa", "small.arpa", "m.ngram"))
    assert "2-grams" in run("train", corpus, "-o", arpa, "--order", 2, "--prune", 0, 0)
    whole = run("score", arpa, corpus)
    assert whole.startswith("perplexity ") and "600 sentences" in whole and "0 unknown" in whole
    assert "words" in run("convert", arpa, "-o", binary)
    assert run("score", binary, corpus) == whole
    lines = run("score", binary, corpus, "--sentences").splitlines()
    assert len(lines) == 601 and float(lines[0].split("\t")[0]) < 0
    run("prune", arpa, "-o", small, "--threshold", 1e-3)
    assert small.stat().st_size < arpa.stat().st_size
    perplexities = [float(run("score", m, corpus).split()[1].strip(";")) for m in (arpa, small)]
    assert perplexities[0] < perplexities[1] < 2 * perplexities[0]


def test_errors_are_one_line(tmp_path: Path, corpus: Path, capsys) -> None:
    few = tmp_path / "few.txt"
    few.write_text("a b\nb c\n", "utf-8")
    for arguments, message in (
        (["train", few, "-o", tmp_path / "x"], "discount_fallback"),
        (["score", corpus, corpus], r"has no line \data"),
        (["score", tmp_path / "missing", corpus], "check the path"),
        (["convert", corpus, "-o", tmp_path / "x"], r"has no line \data"),
    ):
        assert main(["ngram", *map(str, arguments)]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("fl-text ngram: ") and message in line
