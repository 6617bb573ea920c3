"""Run the Python in READMEs and docs: a block that does not run is documentation that lies.

    python tools/run_readmes.py [FILE ...]

The blocks of one file run in order in one process, in a temporary folder. A block that begins with
```python notest shows something that needs more than the packages, and is only parsed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```python( notest)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path: Path) -> tuple[str, int]:
    """The runnable code of a file and how many blocks it has; raises SyntaxError for bad ones."""
    code, count = [], 0
    for match in BLOCK.finditer(path.read_text(encoding="utf-8")):
        compile(match.group(2), str(path), "exec")
        count += 1
        if not match.group(1):
            code.append(match.group(2))
    return "\n".join(code), count


def main(names: list[str]) -> int:
    found = sorted(
        [ROOT / "README.md", *ROOT.glob("packages/*/README.md"), *ROOT.glob("docs/**/*.md")]
    )
    failed = 0
    for path in [Path(n) for n in names] or found:
        code, count = blocks(path)
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(
                [sys.executable, "-W", "error", "-c", code],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
        failed += run.returncode != 0
        print(f"{path}: {count} blocks, {'FAILED' if run.returncode else 'ran'}")
        if run.returncode:
            print(run.stdout + run.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
