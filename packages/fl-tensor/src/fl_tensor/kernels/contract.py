"""The contract of compilers of kernels as data, pinned in ``contracts/kernel-compilers-1.0.json``.

python -m fl_tensor.kernels.contract [--check | --write | --freeze | --card]
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from fl_memory import contract as pinned
from fl_memory.contract.cards import meanings
from fl_memory.contract.series import Contract
from fl_tensor.kernels.calls import BUILTINS, FUNCTIONS
from fl_tensor.kernels.compilers import REGISTRY, KernelCompiler
from fl_tensor.kernels.definition import Definition, Parameter
from fl_tensor.kernels.expressions import COMPARISONS, OPERATORS
from fl_tensor.kernels.types import DTYPES, ArrayType, RecordType, Scalar

__all__ = ["PINNED"]

#: What ``Definition.tree`` consists of, beside operators.
STATEMENTS = (
    ast.Assign, ast.If, ast.While, ast.For, ast.Return, ast.Break, ast.Continue, ast.Expr, ast.Pass
)  # fmt: skip
EXPRESSIONS = (
    ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.UnaryOp, ast.BinOp, ast.BoolOp,
    ast.Compare, ast.IfExp, ast.Call,
)  # fmt: skip
UNARY = (ast.Not, ast.USub, ast.Invert)


def manifest() -> dict[str, Any]:
    """What the contract promises, generated from the code."""
    return pinned.manifest(
        "kernel-compilers",
        (REGISTRY.host.major, REGISTRY.host.minor),
        {
            KernelCompiler: ("CONTRACT", "name"),
            Definition: [*(f.name for f in fields(Definition) if f.name != "types"), "digest"],
            Parameter: ("name", "type"),
            Scalar: ("name",),
            ArrayType: ("dtype",),
            RecordType: ("name", "fields"),
        },
        apart=("__init__",),  # compilers make none of them
        group=REGISTRY.group,
        dtypes=[str(dtype) for dtype in DTYPES],
        scalars=["int64", "float64", "bool"],
        statements=_names(STATEMENTS),
        expressions=_names(EXPRESSIONS),
        operators=_names((*UNARY, *OPERATORS, *COMPARISONS, ast.And, ast.Or)),
        functions=[*sorted({f.__name__ for f in BUILTINS} - {"bool"}), "range"],
        functions_of_math=[f.__name__ for f in FUNCTIONS],
    )


def _names(kinds: Iterable[type]) -> list[str]:
    return [kind.__name__ for kind in kinds]


def descriptions() -> dict[str, str]:
    """What the card says: the docstrings."""
    classes = (KernelCompiler, Definition, Parameter, Scalar, ArrayType, RecordType)
    return {"": "What kernels mean is in [kernels](../kernels.md).", **meanings(classes)}


PINNED = Contract(
    name="kernel-compilers",
    folder=Path(__file__).resolve().parent.parent / "contracts",
    build=manifest,
    descriptions=descriptions,
    module="fl_tensor.kernels.contract",
    version_location="the host of REGISTRY (kernels/compilers.py)",
)

if __name__ == "__main__":
    sys.exit(PINNED.main())
