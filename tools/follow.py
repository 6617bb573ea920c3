"""Follow a page exactly: run its commands and programs, write and change its files.

    python tools/follow.py docs/writing-a-backend.md
    python tools/follow.py CONTRIBUTING.md --section "Add an operation" --folder COPY

In a temporary folder or in one that is given, in the order of the page or of one section:

* a block ```sh is run by bash (`cd` lasts);
* a block ```python whose first line is a comment with a path, `# train.py`, is written to that
  path; any other is a program, which is run together with the programs before it;
* a block ```diff, whose first line is such a comment, changes a file: lines with a plus go between
  the lines around them, which the file has once; three dots alone begin another place.

The first failure ends it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

BLOCK = re.compile(r"^```(sh|python|diff)( notest)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w./-]+\.\w+)\n")


def shell(code: str, folder: Path) -> Path:
    """Run commands with bash; the folder in which they end."""
    print(textwrap.indent(code.rstrip(), "$ "), flush=True)
    with tempfile.NamedTemporaryFile("r", suffix=".cwd") as after:
        script = f"set -e\n{code}\npwd > {after.name}\n"
        subprocess.run(["bash", "-c", script], cwd=folder, stdin=subprocess.DEVNULL, check=True)
        return Path(after.read().strip())


def changed(text: str, changes: str) -> str:
    """``text`` with the changes of a ```diff block."""
    for place in re.split(r"^\.\.\.\n", changes, flags=re.MULTILINE):
        lines = place.splitlines(keepends=True)
        before = "".join(line[1:] or "\n" for line in lines if not line.startswith("+"))
        after = "".join(line[1:] or "\n" for line in lines)
        if (found := text.count(before)) != 1:
            raise SystemExit(f"the file has these lines {found} times:\n{before}")
        text = text.replace(before, after)
    return text


def section(text: str, title: str) -> str:
    """The part of a page under one heading of the second level."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit(f"there is no section {title!r}")
    return found.group(1)


def follow(text: str, folder: Path) -> None:
    told = ""
    for kind, _, code in BLOCK.findall(text):
        named = FILE.match(code)
        path = folder / named.group(1) if named else None
        if kind == "sh":
            folder = shell(code, folder)
        elif kind == "diff":
            if named is None or path is None:
                raise SystemExit(f"a change that names no file:\n{code}")
            path.write_text(changed(path.read_text(encoding="utf-8"), code[named.end() :]))
            print(f"changed {named.group(1)}", flush=True)
        elif path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code, encoding="utf-8")
            print(f"wrote {path.relative_to(folder)}", flush=True)
        else:
            told += code
            subprocess.run([sys.executable, "-c", told], cwd=folder, check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Follow a page to the letter.")
    parser.add_argument("page", type=Path)
    parser.add_argument("--section", help="the heading of the only section to follow")
    parser.add_argument("--folder", type=Path, help="where to follow it, instead of an empty one")
    given = parser.parse_args()
    content = given.page.read_text(encoding="utf-8")
    content = section(content, given.section) if given.section else content
    with tempfile.TemporaryDirectory(prefix="fl-follow-") as name:
        follow(content, (given.folder or Path(name)).resolve())
