"""The contract as a file: what is pinned, and the files generated from the list of operations.

    python -m fl_tensor.contract --check     compare the generated files with the code
    python -m fl_tensor.contract --write     write them
    python -m fl_tensor.contract --freeze    make this version of the contract final
    python -m fl_tensor.contract --card      print the contract as Markdown

Generated are ``functions/generated.py`` (public functions), ``derived_ops.py`` (the derived
operations as methods) and ``contracts/tensor-MAJOR.MINOR.json`` (the pinned contract of this
version). ``--write`` writes all of them, or none where the contract may not change so.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from fl_memory.contract.cards import meanings, whole
from fl_memory.contract.series import Contract
from fl_tensor import _generate, operations
from fl_tensor.capabilities import CAPABILITIES
from fl_tensor.operations import OpSpec as OpSpec
from fl_tensor.operations import is_sequence as is_sequence
from fl_tensor.operations import role as role

__all__ = ["DERIVED", "OPERATIONS", "OPTIONAL", "OpSpec", "PINNED", "is_sequence"]  # noqa: F822

FOLDER = Path(__file__).parent

#: What a provider may import: these names stay as long as the contract's major version.
PROVIDER_NAMES = {
    "fl_tensor": (
        "ArgumentError BackendError CPU CapabilityError DType DTypeError Device FlError "
        "IndexingError LinAlgError ShapeError Tensor TensorAdapter TensorBackend dtype per_step "
        "trace bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 "
        "float64 complex64 complex128"
    ).split(),
    "fl_tensor.backend": ["TensorAdapter", "TensorBackend"],
    "fl_tensor.dtypes": ["ALL", "sum_dtype"],
    "fl_tensor.rules": (
        "Spec arange broadcast_to cast concatenate conv from_host full gather matmul pad permute "
        "random_bits reshape scatter slice where"
    ).split(),
    "fl_tensor.capability_rules": (
        "cholesky eig eigh fft ifft irfft qr rfft slogdet solve svd"
    ).split(),
    "fl_tensor.backends.delegate": ["DelegatingAdapter", "DelegatingBackend"],
    "fl_tensor.graph": ["Constant", "Fixed", "Graph", "Node", "Value"],
    "fl_tensor.testing": ["TensorBackendSuite"],
    "fl_memory": ["current"],
}
#: How providers call those that belong to no class of the contract.
PROVIDER_CALLS = {
    "fl_tensor": ["Tensor", "per_step", "trace"],
    "fl_tensor.graph": [
        "Graph",
        *(f"Graph.{name}" for name in ("from_json", "prune", "replace", "run", "to_json")),
        "Node",
        "Value",
    ],
}


def __getattr__(name: str) -> Any:
    if name in ("DERIVED", "OPERATIONS", "OPTIONAL", "PRIMITIVES"):
        return getattr(operations, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def manifest() -> dict[str, Any]:
    """What the contract promises, generated from the code."""
    from fl_memory import contract as pinned
    from fl_tensor import dtypes
    from fl_tensor.backend import TensorAdapter, TensorBackend

    found = {
        op.name: {
            "signature": op.signature,
            "kind": op.kind,
            "capability": op.capability,
            "since": op.since,
        }
        for op in operations.every()
    }
    fields = [name for name in vars(TensorBackend)["__annotations__"] if name[0] != "_"]
    return pinned.manifest(
        "tensor",
        TensorBackend.CONTRACT,
        {TensorAdapter: (), TensorBackend: fields},
        apart=found,
        group=f"fl.tensor.v{TensorBackend.CONTRACT[0]}",
        capabilities=list(CAPABILITIES),
        dtypes={
            name: "required" if dtype in dtypes.REQUIRED else "optional"
            for name, dtype in dtypes.ALL.items()
        },
        provider_names={module: sorted(names) for module, names in PROVIDER_NAMES.items()},
        provider_calls={
            f"{module}.{name}": pinned.signature_text(attrgetter(name)(import_module(module)))
            for module, names in PROVIDER_CALLS.items()
            for name in names
        },
        operations=found,
    )


def summaries() -> dict[str, str]:
    """What every operation means, and in a sentence every member of the contract's classes; under
    "" how to read the signatures."""
    from fl_tensor import roles
    from fl_tensor.backend import TensorAdapter, TensorBackend

    said = meanings((TensorAdapter, TensorBackend))
    meant = {op.name: whole(op.doc) for op in operations.every()}
    return {"": f"```\n{inspect.getdoc(roles)}\n```", **said, **meant}


PINNED = Contract(
    name="tensor",
    folder=FOLDER / "contracts",
    build=manifest,
    descriptions=summaries,
    module="fl_tensor.contract",
    version_location="TensorBackend.CONTRACT (backend.py) and the host of REGISTRY "
    "(dispatch/registry.py)",
    since_hint='say "{version}" at the new operations: SINCE in a derived module, since= of an '
    "optional one, since of the OpCase row; a new required operation needs a new major version",
)


def generated() -> dict[Path, str]:
    """Every generated file and the text it should have."""
    from fl_memory.contract import dumps

    return {
        FOLDER / "derived_ops.py": _generate.derived_ops(operations.DERIVED),
        FOLDER / "functions" / "generated.py": _generate.functions(operations.every()),
        PINNED.path(): dumps(PINNED.generated()),
    }


def main(arguments: list[str] | None = None) -> int:
    """Write or compare the generated files; the exit status is 1 when one is out of date, 2 where
    files may not be written."""
    given = sys.argv[1:] if arguments is None else arguments
    if {"--write", "--freeze"} & set(given) and PINNED.refusal():
        return PINNED.main(given)
    if "--write" in given:
        from fl_memory.contract import ContractError

        try:
            PINNED.check_writable()
        except ContractError as error:
            print(error, file=sys.stderr)
            return 1
        # First the methods: the backend class inherits them.
        (FOLDER / "derived_ops.py").write_text(_generate.derived_ops(operations.DERIVED))
        for path, text in generated().items():
            if path.suffix == ".py":
                path.write_text(text)
    elif "--card" not in given:
        stale = [
            p for p, text in generated().items() if p.suffix == ".py" and p.read_text() != text
        ]
        for path in stale:
            print(f"{path.name} is out of date: run python -m fl_tensor.contract --write")
        if stale:
            return 1
    return PINNED.main(given)


if __name__ == "__main__":
    sys.exit(main())
