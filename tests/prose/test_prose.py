"""The check of the project's English finds what it is meant to find, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import prose

LONG = " ".join(["word"] * 41) + "."
BANNED = prose.phrases("put off -> deferred\n# a comment\n\nrooms -> modules")


def page(tmp_path: Path, text: str, name: str = "page.md") -> list[str]:
    (tmp_path / name).write_text(text)
    return prose.check(tmp_path / name, BANNED)


def test_plain_text_passes(tmp_path):
    assert not page(tmp_path, "# Title\n\nThis is a sentence. `put off` is code.\n")


@pytest.mark.parametrize("text", ["Is put off.", "* Is\n  put off.", "| put off |", "# Rooms"])
def test_banned_phrases_are_found_everywhere(tmp_path, text):
    (fault,) = page(tmp_path, text)
    assert "write deferred" in fault or "write modules" in fault


def test_banned_phrases_are_whole_words(tmp_path):
    assert not page(tmp_path, "The mushrooms are input offsets.")


def test_a_clause_in_place_of_a_noun_is_found(tmp_path):
    assert "name the thing" in "".join(page(tmp_path, "It is so. What fails is named."))
    assert "name the thing" in "".join(page(tmp_path, "## What there is"))
    assert not page(tmp_path, "What is it? It says what it is.")


def test_code_blocks_are_not_read(tmp_path):
    assert not page(tmp_path, f"Text.\n\n```python\n# put off {LONG[:90]}\n```\n")


def test_a_long_sentence_fails_outside_lists_and_tables(tmp_path):
    wrapped = LONG.replace(" ", "\n")
    short = "One. Two. Three.\n\n"
    assert "41 words" in "".join(page(tmp_path, short + wrapped))
    assert not page(tmp_path, short + "* " + wrapped)
    assert not page(tmp_path, short + f"| {LONG[:90]} |")


def test_the_mean_is_taken_over_the_page(tmp_path):
    twenty_one = " ".join(["word"] * 21) + ".\n\n"
    assert "21.0 words a sentence" in "".join(page(tmp_path, twenty_one))
    assert not page(tmp_path, twenty_one + "Two words.")


def test_abbreviations_do_not_end_a_sentence():
    assert prose.sentences("Howard et al. and others, e.g. these. Two.") == [7, 1]


def test_inline_code_and_links_count_as_their_text():
    assert prose.sentences(prose.plain("See [the page](docs/a.md) and `f(x, y)` now.")) == [6]


def test_lines_and_cells_are_bounded(tmp_path):
    assert page(tmp_path, "a. " * 41) == ["line 1: 123 characters, at most 120"]
    assert not page(tmp_path, "| " + "cell | " * 40)
    assert page(tmp_path, f"| {'c' * 101} |") == ["line 1: a cell of 101 characters, at most 100"]


def test_module_docstrings_are_read_and_code_is_not(tmp_path):
    assert page(tmp_path, '"""What is put off."""\nx = "rooms"\n', "a.py")
    assert not page(tmp_path, 'x = "rooms"  # put off\n', "a.py")
    assert not page(tmp_path, f'"""Words.\n\n    put off {LONG}\n"""\n', "a.py")


CHANGES = "# Changes\n\n## Unreleased\n\n### Added\n\n* One.\n\n### Fixed\n\n* Two\n  lines.\n"


def test_a_changelog_has_sections_and_short_entries(tmp_path):
    assert not page(tmp_path, CHANGES, "CHANGELOG.md")
    no_sections = page(tmp_path, "## Unreleased\n\n* One.\n", "CHANGELOG.md")
    assert "no sections" in "".join(no_sections)
    for old, new, fault in (
        ("Fixed", "Repaired", "sections"),
        ("Added", "Performance", "in this order"),
        ("lines.", "lines,\n  three.", "3 lines"),
    ):
        assert fault in "".join(page(tmp_path, CHANGES.replace(old, new), "CHANGELOG.md"))


def test_open_files_may_fail_and_must_not_pass(tmp_path, monkeypatch, capsys):
    for name in ("ROOT", "OPEN", "PHRASES"):
        monkeypatch.setattr(prose, name, tmp_path / name.lower() if name != "ROOT" else tmp_path)
    prose.PHRASES.write_text("rooms -> modules")
    (tmp_path / "bad.md").write_text("Rooms.")
    (tmp_path / "good.md").write_text("Modules.")
    prose.OPEN.write_text("bad.md\n")
    assert prose.main([]) == 0
    prose.OPEN.write_text("")
    assert prose.main([]) == 1 and "bad.md: 'Rooms'" in capsys.readouterr().out
    prose.OPEN.write_text("bad.md\ngood.md\n")
    assert prose.main([]) == 1 and "good.md: passes" in capsys.readouterr().out
    prose.OPEN.write_text("bad.md\ngone.md\n")
    assert prose.main([]) == 1 and "gone.md" in capsys.readouterr().out
