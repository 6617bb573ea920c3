"""How large and how quick to change we are, beside PyTorch and what the Flashlight paper says of
PyTorch, TensorFlow and Flashlight (Kahn et al., 2022, tables 1 and 2).

No claim. Operators are those of an interface: our contract, PyTorch's registry of its dispatcher
(overloads counted once). An operator performs add, conv or sum if that is a word of its name, such
as `_foreach_add_` or `conv2d`. What an author writes for one of them: in ours the method of one
backend; the other places are the declaration, the shape rule and the gradient. Lines of code are
lines with code, without blanks, comments and docstrings; of PyTorch only its Python, as the rest is
not in the package. Sizes are of all files as installed, with all dependencies. An edit is a changed
formula of one operation in a copy; it ends with the verdict of a test, in a process of its own.

    python benchmarks/complexity.py [--rounds 5] [--json FILE] [--markdown]
"""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import importlib.util
import io
import itertools
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from _measure import environment, options, report
from _peers import require
from packaging.requirements import Requirement

import fl_autograd as ag
import fl_tensor as ft
from fl_tensor import contract
from fl_tensor.backend import TensorBackend

OURS = "fl_memory fl_tensor fl_autograd fl_dist fl_data fl_nn fl_speech fl_vision fl_text".split()
#: What the paper says: PyTorch, TensorFlow, Flashlight.
PAPER: dict[str, tuple[float, float, float]] = {
    "operators": (2100, 1425, 60),
    "operators that perform add": (55, 20, 1),
    "operators that perform conv": (85, 30, 2),
    "operators that perform sum": (25, 10, 1),
    "lines of code": (1_798_292, 1_306_159, 27_173),
    "size, MB": (527, 768, 10),
    "from an edit to a build, CPU minutes": (132, 371, 0.6),
}
#: Tokens that are no code.
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}

# ---- operators -----------------------------------------------------------------------------------


#: In a name: operators that prepare or describe.
_NO_ARITHMETIC = set("pack prepack unpack reorder stride padding dilation groups sizes".split())


def performs(name: str, word: str) -> bool:
    """Whether ``word`` is one of the words of an operator's name, but for digits behind it, and
    none of the others says that it does something else."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    named = any(re.fullmatch(rf"{word}(\dd)?", each) for each in words)
    return named and not _NO_ARITHMETIC.intersection(words)


def torch_operators() -> list[str]:
    import torch

    return sorted({name.split(".")[0] for name in torch._C._dispatch_get_all_op_names()})


def places(name: str) -> list[str]:
    """Where our own code says something of an operation."""
    found = ["contract"] if name in vars(TensorBackend) else []
    for backend in ("null", "numpy", "jit"):
        home = "fl_jit" if backend == "jit" else f"fl_tensor.backends.{backend}"
        classes = type(ft.get_backend(backend)).__mro__
        if any(name in vars(each) for each in classes if each.__module__.startswith(home)):
            found.append("shape rule" if backend == "null" else backend)
    return found + (["gradient"] if name in ag.RULES else [])


# ---- lines and bytes -----------------------------------------------------------------------------


def sources(package: str) -> list[Path]:
    """The Python files of an installed package."""
    require([package], f"python -m pip install ./packages/{package.replace('_', '-')} in a clone")
    spec = importlib.util.find_spec(package)
    assert spec and spec.submodule_search_locations
    return sorted(Path(spec.submodule_search_locations[0]).rglob("*.py"))


def code_lines(text: str) -> int:
    """Lines with code. SyntaxError where this Python is too old for it."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {
        line
        for token in tokens
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - set(_docstring_lines(ast.parse(text))))


def _docstring_lines(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            if isinstance(first.value.value, str):
                yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def lines_of(packages: Iterable[str]) -> int:
    """All lines of packages, but for files that this Python cannot read."""
    total = 0
    for path in itertools.chain.from_iterable(map(sources, packages)):
        with contextlib.suppress(SyntaxError):
            total += code_lines(path.read_text())
    return total


def needed(distributions: Iterable[str]) -> set[str]:
    """These distributions and all that they need here, without extras."""
    found: set[str] = set()
    waiting = list(distributions)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        found.add(name)
        for text in importlib.metadata.requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found


def megabytes(distribution: str) -> float:
    """The files of an installed distribution; of ours, which may be a checkout, its package."""
    package = distribution.replace("-", "_")
    if package in OURS:
        folder = sources(package)[0].parent
        files = [p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    else:
        listed = importlib.metadata.files(distribution) or ()
        files = [Path(str(p.locate())) for p in listed if "__pycache__" not in p.parts]
    return sum(path.stat().st_size for path in files if path.exists()) / 1e6


def size_of(*distributions: str) -> float | str:
    """MB of these with all that they need; "" where one is not installed."""
    try:
        return sum(map(megabytes, needed(distributions)))
    except importlib.metadata.PackageNotFoundError:
        return ""


# ---- from an edit to a test ----------------------------------------------------------------------

_EDITED = "return ops.multiply(x, x)"
_TEST = """
import fl_tensor as ft

def test_edited():
    assert ft.square(ft.asarray([3.0])).tolist() == [{wanted}]
"""


def seconds_from_edit_to_test(rounds: int) -> float:
    """Change what ``square`` computes, in a copy, and test it: the median of several edits."""
    with tempfile.TemporaryDirectory(prefix="fl-edit-") as text:
        folder = Path(text)
        for package in ("fl_memory", "fl_tensor"):
            original = sources(package)[0].parent
            shutil.copytree(
                original, folder / package, ignore=shutil.ignore_patterns("__pycache__")
            )
        file = folder / "fl_tensor" / "derived" / "elementwise.py"
        original_text = file.read_text()
        assert _EDITED in original_text
        times, start_time = [], int(time.time())
        for number in range(rounds + 1):  # the first one compiles all files
            (folder / "test_edited.py").write_text(_TEST.format(wanted=9.0 + number))
            start = time.perf_counter()
            added = f"return ops.add(ops.multiply(x, x), ops.constant({number}.0, x))"
            file.write_text(original_text.replace(_EDITED, added))
            # Python compares times in seconds, and an edit may follow the last within one.
            os.utime(file, (start_time + number, start_time + number))
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder]
            subprocess.run(command, check=True, capture_output=True, cwd=folder, env=_alone(folder))
            times.append(time.perf_counter() - start)
        return statistics.median(times[1:])


def _alone(folder: Path) -> dict[str, str]:
    writing = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**writing, "PYTHONPATH": str(folder)}


# ---- the table -----------------------------------------------------------------------------------


def our_figures(rounds: int) -> dict[str, Any]:
    operations = [op.name for op in contract.OPERATIONS]
    required = sum(op.kind == "required" for op in contract.OPERATIONS)
    found: dict[str, Any] = {
        "operators": len(operations),
        "of them, what a backend must write": required,
    }
    for word in ("add", "conv", "sum"):
        performing = [name for name in operations if performs(name, word)]
        found[f"operators that perform {word}"] = len(performing)
        found[f"places that define {word}"] = ", ".join(places(word))
    for package in OURS:
        found[f"lines of code, {package.replace('_', '-')}"] = lines_of([package])
    found["lines of code"] = lines_of(OURS)
    found["size, MB"] = size_of("fl-nn")
    found["size without NumPy, MB"] = sum(megabytes(name) for name in needed(["fl-nn"]) - {"numpy"})
    found["size with llvmlite, MB"] = size_of("fl-nn", "llvmlite")
    found["from an edit to a tested result, s"] = seconds_from_edit_to_test(rounds)
    return found


def torch_figures() -> dict[str, Any]:
    operators = torch_operators()
    found: dict[str, Any] = {"operators": len(operators)}
    for word in ("add", "conv", "sum"):
        performing = [name for name in operators if performs(name, word)]
        found[f"operators that perform {word}"] = len(performing)
    return {
        **found,
        "lines of code": f"{lines_of(['torch']):,} of Python",
        "size, MB": size_of("torch"),
    }


def main() -> None:
    given = options(__doc__, rounds=5)
    if not given.tiny:
        require(["torch"], "python -m pip install torch, or --tiny for our own figures alone")
    ours = our_figures(given.rounds)
    theirs = {} if given.tiny else torch_figures()
    rows = [
        {
            "of": name,
            "ours": ours.get(name, ""),
            "PyTorch here": theirs.get(name, ""),
            **dict(
                zip(
                    ("paper: PyTorch", "TensorFlow", "Flashlight"),
                    PAPER.get(name, ("", "", "")),
                    strict=True,
                )
            ),
        }
        for name in dict.fromkeys([*ours, *theirs, *PAPER])
    ]
    report(given, environment("torch", "numpy", "llvmlite", "fl-tensor"), rows)


if __name__ == "__main__":
    main()
