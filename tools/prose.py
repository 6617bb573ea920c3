"""Check the English of READMEs, docs, changelogs and module docstrings.

    python tools/prose.py [FILE ...]

A file fails if

* its sentences have more than 20 words on average;
* a sentence outside lists and tables has more than 40;
* a sentence that begins with "What" or "Who" is not a question: it should name the thing;
* it uses a phrase of prose_phrases.txt;
* a line of Markdown has more than 120 characters, or a cell of a table more than 100;
* a changelog has sections other than CATEGORIES, or entries of more than two lines.

Code, inline code and generated pages are not checked.

Files in prose_open.txt may fail. One that passes is an error, so the list only gets shorter.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PHRASES = Path(__file__).with_name("prose_phrases.txt")
OPEN = Path(__file__).with_name("prose_open.txt")
PAGES = [
    "*.md",
    "docs/**/*.md",
    "benchmarks/README.md",
    "packages/*/*.md",
    "backends/*/*.md",
    "examples/*/*.md",
]
MODULES = [
    "packages/*/src/**/*.py",
    "backends/*/src/**/*.py",
    "examples/*/src/**/*.py",
    "tools/**/*.py",
]
GENERATED = "docs/contracts/"  # made of docstrings and pinned JSON

MEAN_WORDS, MOST_WORDS = 20, 40
LINE, CELL, ENTRY_LINES = 120, 100, 2
CATEGORIES = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Performance"]

FENCE = re.compile(r"^ *```.*?^ *```[^\n]*$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"(`+)[^`].*?\1", re.DOTALL)
LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
LITERAL = re.compile(r"^    .*$", re.MULTILINE)  # an indented block of a docstring
LIST_ITEM = re.compile(r"^ *(?:[*+-]|\d+\.|\(\d+\)) ")
SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bal)(?<!\bvs)[.!?][)\"'*_]*(?:\s+|$)")
RIDDLE = re.compile(r"(?:^|(?<=[.!?:;] ))\W*((?:What|Whatever|Who|Whoever)\b[^.?!]*)(?:[.!]|$)")
WORD = re.compile(r"[A-Za-z0-9][\w'.,:/%-]*")


class Block(NamedTuple):
    """A paragraph, a list item, a heading or a table row, without markup."""

    kind: str
    text: str


def without_code(text: str) -> str:
    """The text with the lines of code blocks empty."""
    return FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page of Markdown, or of a docstring."""
    lines: list[str] = []
    kind = "paragraph"

    def block() -> Iterator[Block]:
        if lines:
            yield Block(kind, plain(" ".join(lines)))
            lines.clear()

    for line in without_code(text).splitlines():
        stripped = line.strip()
        special = {"#": "heading", "|": "row"}.get(stripped[:1])
        if not stripped or special or LIST_ITEM.match(line):
            yield from block()
            kind = special or ("item" if LIST_ITEM.match(line) else "paragraph")
        if stripped:
            lines.append(LIST_ITEM.sub("", line).strip(" #"))
        if special:
            yield from block()
            kind = "paragraph"
    yield from block()


def plain(text: str) -> str:
    """The text without links and emphasis; inline code counts as one word."""
    return LINK.sub(r"\1", INLINE_CODE.sub("code", text)).replace("**", "")


def sentences(text: str) -> list[int]:
    """How many words each sentence of a block has."""
    counts = (len(WORD.findall(part)) for part in SENTENCE_END.split(text))
    return [count for count in counts if count]


def phrases(lines: str) -> list[tuple[re.Pattern[str], str]]:
    """Lines ``regular expression -> what to write``: patterns of whole words, and the advice."""
    found = []
    for line in lines.splitlines():
        if line.strip() and not line.startswith("#"):
            phrase, _, advice = line.partition(" -> ")
            found.append((re.compile(rf"\b(?:{phrase.strip()})\b", re.IGNORECASE), advice.strip()))
    return found


def english(text: str, banned: list[tuple[re.Pattern[str], str]]) -> list[str]:
    """What is wrong with the sentences of a page or docstring."""
    faults, counts = [], []
    for block in blocks(text):
        for pattern, advice in banned:
            for match in pattern.finditer(block.text):
                faults.append(f"{match[0]!r}: write {advice}")
        if block.kind == "row":
            continue
        for match in RIDDLE.finditer(block.text):
            faults.append(f"{match[1][:60]!r}: name the thing")
        if block.kind == "heading":
            continue
        words = sentences(block.text)
        counts += words
        if block.kind == "paragraph" and max(words, default=0) > MOST_WORDS:
            faults.append(f"a sentence of {max(words)} words: {block.text[:60]}...")
    if counts and sum(counts) > MEAN_WORDS * len(counts):
        faults.append(f"{sum(counts) / len(counts):.1f} words a sentence, at most {MEAN_WORDS}")
    return faults


def widths(text: str) -> list[str]:
    """Lines of Markdown, and cells of its tables, that are too long."""
    faults = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("|"):
            longest = max((len(cell.strip()) for cell in line.split("|")), default=0)
            if longest > CELL:
                faults.append(f"line {number}: a cell of {longest} characters, at most {CELL}")
        elif len(line) > LINE:
            faults.append(f"line {number}: {len(line)} characters, at most {LINE}")
    return faults


def changelog(text: str) -> list[str]:
    """Sections that are none of CATEGORIES, or in another order; entries that are too long."""
    faults = []
    for version in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        name, _, body = version.partition("\n")
        found = re.findall(r"^### (.*)$", body, re.MULTILINE)
        if found != [category for category in CATEGORIES if category in found]:
            faults.append(f"{name}: sections {found}, expected {CATEGORIES} in this order")
        if name == "Unreleased" and not found:
            faults.append(f"{name}: no sections, expected {CATEGORIES}")
        for entry in re.split(r"^(?=[*-] |#)", body, flags=re.MULTILINE):
            lines = entry.strip().splitlines()
            if entry.startswith(("* ", "- ")) and len(lines) > ENTRY_LINES:
                faults.append(f"{name}: {len(lines)} lines, at most {ENTRY_LINES}: {lines[0]}")
    return faults


def check(path: Path, banned: list[tuple[re.Pattern[str], str]]) -> list[str]:
    """Everything that is wrong with a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return english(
            LITERAL.sub("", ast.get_docstring(ast.parse(text), clean=False) or ""), banned
        )
    faults = english(text, banned) + widths(text)
    return faults + (changelog(text) if path.name == "CHANGELOG.md" else [])


def checked() -> list[Path]:
    """Every file that this check is about."""
    found = {path for pattern in (*PAGES, *MODULES) for path in ROOT.glob(pattern)}
    return sorted(p for p in found if not str(p.relative_to(ROOT)).startswith(GENERATED))


def main(names: list[str]) -> int:
    banned = phrases(PHRASES.read_text(encoding="utf-8"))
    still_open = set(OPEN.read_text(encoding="utf-8").split())
    paths = [Path(name).resolve() for name in names] or checked()
    failed = 0
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        faults = check(path, banned)
        if name in still_open and not names:
            still_open.remove(name)
            faults = [] if faults else [f"passes: take it out of {OPEN.name}"]
        failed += bool(faults)
        for fault in faults:
            print(f"{name}: {fault}")
    if not names and still_open:
        failed += 1
        print(f"{OPEN.name} names files that do not exist: {sorted(still_open)}")
    print(f"{len(paths)} files, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
