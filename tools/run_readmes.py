"""Run the Python in READMEs and docs.

    python tools/run_readmes.py [FILE ...]
    python tools/run_readmes.py --tutorials

The blocks of one file run in order in one process, in a temporary folder. A block that begins with
```python notest shows something that needs more than the packages, and is only parsed.

A command that installs packages of this checkout names one with extras before those that need it:
older versions of pip, such as the one that comes with Python 3.11, do not find it otherwise.

The first command leaves docs/tutorials out. There, blocks ```sh are run by bash in order. A block
whose first line is a comment with a path, `# size_classes.py`, is written to that file.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"
BLOCK = re.compile(r"^```(python|sh)( notest)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w./-]+\.\w+)\n")
INSTALL = re.compile(r"pip install ([^`]*\./packages/[^`\n]*(?:\n[^`\n]*)?)`")
NEEDS = re.compile(r"^dependencies = \[(.*?)\]", re.MULTILINE | re.DOTALL)
#: Runs the code of a page, with its lines where ``inspect.getsource`` finds them.
RUN_PAGE = """\
import linecache as _linecache, sys as _sys
_linecache.cache["<page>"] = 0, None, _sys.argv[1].splitlines(True), "<page>"
exec(compile(_sys.argv.pop(1), "<page>", "exec"))
"""
RUN_SHELL = "__import__('subprocess').run(['bash', '-ec', {!r}], check=True)"


def blocks(path: Path, folder: Path) -> tuple[str, int]:
    """The runnable code of a file and how many blocks it has; files are written to `folder`.
    Raises SyntaxError for bad blocks."""
    code, count, tutorial = [], 0, path.resolve().parent == TUTORIALS
    for kind, notest, text in BLOCK.findall(path.read_text(encoding="utf-8")):
        if kind == "sh":
            code += [RUN_SHELL.format(text)] if tutorial else []
            continue
        compile(text, str(path), "exec")
        count += 1
        named = FILE.match(text)
        if tutorial and named:
            (folder / named[1]).write_text(text, encoding="utf-8")
        elif not notest:
            code.append(text)
    return "\n".join(code), count


def late_extras(text: str) -> list[str]:
    """Packages with extras that a command of the page names after one that needs them."""
    found = []
    for command in INSTALL.findall(text):
        words = shlex.split(command)
        names = [name for word in words for name in expanded(word) if "/packages/" in name]
        for place, name in enumerate(names):
            package, bracket, _ = name.removeprefix("./packages/").partition("[")
            before = (one.removeprefix("./packages/").partition("[")[0] for one in names[:place])
            if bracket and any(package in needs(other) for other in before):
                found.append(name)
    return found


def expanded(word: str) -> list[str]:
    """As bash does it: ``fl-{nn,data}`` is two words."""
    start, brace, rest = word.partition("{")
    middle, _, end = rest.partition("}")
    return [start + part + end for part in middle.split(",")] if brace else [word]


def needs(package: str) -> str:
    declared = (ROOT / "packages" / package / "pyproject.toml").read_text(encoding="utf-8")
    match = NEEDS.search(declared)
    return match[1] if match else ""


def main(names: list[str]) -> int:
    tutorials = sorted(TUTORIALS.glob("*.md"))
    found = sorted(
        {ROOT / "README.md", *ROOT.glob("packages/*/README.md"), *ROOT.glob("docs/**/*.md")}
        - set(tutorials)
    )
    paths = tutorials if names == ["--tutorials"] else [Path(n) for n in names] or found
    failed = 0
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            code, count = blocks(path, Path(folder))
            run = subprocess.run(
                [sys.executable, "-W", "error", "-c", RUN_PAGE, code],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
        late = late_extras(path.read_text(encoding="utf-8"))
        failed += run.returncode != 0 or bool(late)
        if late:
            print(f"{path}: pip wants {', '.join(late)} before the packages that need it")
        print(f"{path}: {count} blocks, {'FAILED' if run.returncode else 'ran'}")
        if run.returncode:
            print(run.stdout + run.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
