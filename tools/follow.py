"""Follow a tutorial to the letter: run its commands, write its files, run its programs.

    python tools/follow.py docs/writing-a-backend.md

In a temporary folder, in the order of the page: a block ```sh is run by bash (`cd` lasts); a block
```python whose first line is a comment with a path, `# train.py`, is written to that path; any
other is a program, which is run together with the programs before it. The first failure ends it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

BLOCK = re.compile(r"^```(sh|python)( notest)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w./-]+\.\w+)\n")


def shell(code: str, folder: Path) -> Path:
    """Run commands with bash; the folder in which they end."""
    print(textwrap.indent(code.rstrip(), "$ "), flush=True)
    with tempfile.NamedTemporaryFile("r", suffix=".cwd") as after:
        script = f"set -e\n{code}\npwd > {after.name}\n"
        subprocess.run(["bash", "-c", script], cwd=folder, stdin=subprocess.DEVNULL, check=True)
        return Path(after.read().strip())


def follow(page: Path, folder: Path) -> None:
    told = ""
    for kind, _, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        named = FILE.match(code)
        if kind == "sh":
            folder = shell(code, folder)
        elif named:
            path = folder / named.group(1)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code, encoding="utf-8")
            print(f"wrote {named.group(1)}", flush=True)
        else:
            told += code
            subprocess.run([sys.executable, "-c", told], cwd=folder, check=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="fl-follow-") as name:
        follow(Path(sys.argv[1]).resolve(), Path(name).resolve())
