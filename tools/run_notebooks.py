"""Run the notebooks of docs/tutorials.

    python tools/run_notebooks.py [FILE ...] [--pictures FOLDER]
    python tools/run_notebooks.py --strip [FILE ...]

A notebook is committed without outputs, so that changes of it can be read. The first command
refuses one that has any, runs its cells in order in a temporary folder, and fails at the first
error or warning. With ``--pictures`` it writes every picture that a cell shows as a file. The
second command removes outputs.

Needs nbclient and ipykernel; ``nox -s notebooks`` has them.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: Seconds that a cell may take.
LIMIT = 300


def is_stripped(notebook: dict[str, Any]) -> bool:
    """Whether no cell has an output or the number of a run."""
    return notebook == stripped(notebook)


def stripped(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook without outputs, numbers of runs and metadata of cells."""
    cells = [{**cell, "metadata": {}} for cell in notebook["cells"]]
    cells = [c | {"outputs": [], "execution_count": None} if is_code(c) else c for c in cells]
    return {**notebook, "cells": cells}


def notebook_of(sources: list[str]) -> dict[str, Any]:
    """A notebook of these cells."""
    fresh: dict[str, Any] = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
    }
    return {
        "cells": [{**fresh, "id": f"cell-{i}", "source": s} for i, s in enumerate(sources)],
        "metadata": {"kernelspec": {"display_name": "Python 3", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def is_code(cell: dict[str, Any]) -> bool:
    """Whether a cell is run."""
    return bool(cell["cell_type"] == "code")


def written(notebook: dict[str, Any]) -> str:
    """The text of the file, as Jupyter writes it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def warnings_in(notebook: dict[str, Any]) -> list[str]:
    """Warnings that cells gave."""
    found = []
    for cell in filter(is_code, notebook["cells"]):
        for output in cell["outputs"]:
            text = output.get("text", "") if output.get("name") == "stderr" else ""
            found += [line for line in text.splitlines() if "Warning" in line]
    return found


def pictures_in(notebook: dict[str, Any]) -> Iterator[bytes]:
    """The pictures that cells show, as PNG."""
    for cell in filter(is_code, notebook["cells"]):
        for output in cell["outputs"]:
            if "image/png" in output.get("data", {}):
                yield base64.b64decode(output["data"]["image/png"])


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with its outputs. CellExecutionError where a cell fails."""
    import nbformat
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory(prefix="fl-notebook-") as folder:
        resources = {"metadata": {"path": folder}}
        made = nbformat.reads(written(notebook), as_version=4)
        done = NotebookClient(made, timeout=LIMIT, resources=resources).execute()
    found: dict[str, Any] = json.loads(nbformat.writes(done))
    return found


def problem_of(path: Path, pictures: Path | None) -> str:
    """What is wrong with a notebook; "" if nothing is. Pictures are written to a folder."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    if not is_stripped(notebook):
        return f"it has outputs: python tools/run_notebooks.py --strip {path}"
    from nbclient.exceptions import CellExecutionError

    try:
        done = run(notebook)
    except CellExecutionError as error:
        return str(error)
    if pictures is not None:
        for number, picture in enumerate(pictures_in(done)):
            (pictures / f"{path.stem}-{number}.png").write_bytes(picture)
    return "\n".join(warnings_in(done))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--strip", action="store_true", help="remove outputs, run nothing")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write pictures there")
    options = parser.parse_args()
    files = options.files or sorted(ROOT.glob("docs/tutorials/*.ipynb"))
    failed = 0
    for path in files:
        if options.strip:
            notebook = json.loads(path.read_text(encoding="utf-8"))
            path.write_text(written(stripped(notebook)), encoding="utf-8")
            continue
        problem = problem_of(path, options.pictures)
        failed += bool(problem)
        print(f"{path}: {problem or 'ran'}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
