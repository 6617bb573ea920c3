"""The tensor contract over time: what is frozen stays, and a minor only adds."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import runpy
import shutil
from abc import abstractmethod
from pathlib import Path
from typing import Any

import pytest

from fl_memory import contract as pinned
from fl_memory.contract import ContractError
from fl_memory.contract.series import Contract
from fl_tensor import cli, contract, derived, derived_ops, operations
from fl_tensor.backend import TensorBackend
from fl_tensor.backends.delegate import DelegatingBackend
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.contract import OpSpec
from fl_tensor.derived_ops import DerivedOps
from fl_tensor.dispatch.registry import REGISTRY
from fl_tensor.kernels import contract as kernels
from fl_tensor.testing import CASES

#: The digest of every frozen version, by file: ``python -m fl_tensor.contract --freeze`` prints it.
FROZEN: dict[str, str] = {"tensor-1.0.json": "9ac9c00edac1c7f7"}

MAJOR, MINOR = TensorBackend.CONTRACT
NOW, NEXT = f"{MAJOR}.{MINOR}", f"{MAJOR}.{MINOR + 1}"


def test_frozen_versions_are_what_they_were() -> None:
    found = {f"tensor-{body['version']}.json": body for body in contract.PINNED.versions()}
    frozen = {name: body["digest"] for name, body in found.items() if body["status"] == "frozen"}
    assert frozen == FROZEN


def test_the_contract_of_kernel_compilers_is_pinned() -> None:
    kernels.PINNED.check()
    body = kernels.PINNED.generated()
    assert body["group"] == "fl.kernel_compilers.v1"
    assert set(body["classes"]["KernelCompiler"]) == {"CONTRACT", "compile", "name"}


def test_the_host_accepts_what_the_base_class_states() -> None:
    assert tuple(REGISTRY.host) == TensorBackend.CONTRACT
    assert f"fl.tensor.v{REGISTRY.host.major}" == REGISTRY.group


def test_every_operation_and_its_row_say_the_same_version() -> None:
    operations = {op.name: op for op in contract.OPERATIONS}
    for name, case in CASES.items():
        assert operations[name].since == ".".join(map(str, case.since)), name
        assert operations[name].capability == case.capability, name


def test_signatures_read_like_the_source() -> None:
    table = contract.PINNED.generated()["operations"]
    assert table["add"]["signature"] == "(x: N, y: N)"
    assert ", axis: Axis" in table["softmax"]["signature"]
    assert table["nonzero"]["signature"] == "(x: A) -> tuple[A, ...]"
    assert 'mode: str = "set", donate: bool = False' in table["scatter"]["signature"]


@pytest.mark.parametrize("cls", [TensorBackend, NumpyBackend, DelegatingBackend])
def test_the_help_of_a_backend_says_what_derived_operations_mean(cls: Any) -> None:
    for op in contract.DERIVED:
        assert op.doc
        if vars(DerivedOps)[op.name] is getattr(cls, op.name):
            assert inspect.getdoc(getattr(cls, op.name)) == op.doc


def test_the_card_says_all_of_what_an_operation_means() -> None:
    text = contract.PINNED.card()
    assert "of duplicates the last in C order stays" in text
    assert "// stride + 1" in text and "an empty axis stays empty" in text
    kinds = {p.annotation for op in contract.OPERATIONS for p in op.parameters}
    names = {word for kind in kinds for word in re.findall(r"[A-Z]\w+", str(kind))}
    known = {"Sequence", "None", "Any", "DType", "Device"}
    assert {n for n in names - known if not re.search(rf"^{n} +a", text, re.MULTILINE)} == set()


def test_the_file_holds_no_prose() -> None:
    """A better docstring must not break a frozen contract."""
    text = json.dumps(contract.PINNED.generated())
    for op in contract.OPERATIONS:
        assert op.doc.split("\n")[0] not in text


@pytest.fixture
def copy(tmp_path: Path) -> Contract:
    """The tensor contract with a source tree of its own."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "fl-tensor"\n')
    folder = tmp_path / "src" / "fl_tensor" / "contracts"
    shutil.copytree(contract.PINNED.folder, folder)
    return dataclasses.replace(contract.PINNED, folder=folder)


def median9(ops: Any, x: Any) -> Any:
    """A derived operation that is not there yet."""


def with_derived(monkeypatch: pytest.MonkeyPatch, since: dict[str, str]) -> None:
    """As if a derived module had one more operation."""
    (module, *_) = derived.modules()
    monkeypatch.setattr(module, "median9", median9, raising=False)
    monkeypatch.setattr(module, "__all__", [*module.__all__, "median9"])
    since = {**getattr(module, "SINCE", {}), **since}
    monkeypatch.setattr(module, "SINCE", since, raising=False)
    monkeypatch.setattr(operations, "DERIVED", operations._derived())


def test_a_new_operation_can_be_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generator imports the package, whose generated file does not have it yet."""
    with_derived(monkeypatch, {"median9": NEXT})
    stale = runpy.run_path(derived_ops.__file__)["DerivedOps"]
    assert not hasattr(stale, "median9")


def frozen_copy(copy: Contract) -> str:
    digest = copy.freeze()
    assert pinned.read(copy.path())["status"] == "frozen"
    return digest


def test_freezing_keeps_the_file_from_then_on(
    copy: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = copy.generated()["digest"]
    assert frozen_copy(copy) == before
    text = copy.path().read_text()
    copy.write()
    assert copy.path().read_text() == text
    with_derived(monkeypatch, {"median9": NEXT})
    for attempt in (copy.write, copy.check):
        with pytest.raises(ContractError) as caught:
            attempt()
        assert "operations.median9: added" in str(caught.value)
        assert f"state {NEXT} in TensorBackend.CONTRACT" in str(caught.value)
        assert "SINCE in a derived module" in str(caught.value)
    assert copy.path().read_text() == text


def test_a_minor_adds_marked_operations_in_a_file_of_its_own(
    copy: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen_copy(copy)
    text = copy.path(NOW).read_text()
    monkeypatch.setattr(TensorBackend, "CONTRACT", (MAJOR, MINOR + 1))
    with_derived(monkeypatch, {"median9": NEXT})
    copy.write()
    copy.check()
    assert copy.path().name == f"tensor-{NEXT}.json"
    new = pinned.read(copy.path())["operations"]["median9"]
    assert new == {"signature": "(x: Any)", "kind": "derived", "capability": None, "since": NEXT}
    assert copy.path(NOW).read_text() == text
    assert copy.changes(NOW).allowed
    assert "`operations.median9`" in copy.changes(NOW).markdown()


def test_an_addition_without_its_version_is_refused(
    copy: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen_copy(copy)
    monkeypatch.setattr(TensorBackend, "CONTRACT", (MAJOR, MINOR + 1))
    with_derived(monkeypatch, {})
    with pytest.raises(ContractError, match=f"median9 added: its since is 1.0, .* new in {NEXT}"):
        copy.write()


def test_a_new_required_primitive_is_refused(
    copy: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cube(self: Any, x: Any) -> Any:
        """x * x * x."""

    frozen_copy(copy)
    monkeypatch.setattr(TensorBackend, "CONTRACT", (MAJOR, MINOR + 1))
    monkeypatch.setattr(TensorBackend, "cube", abstractmethod(cube), raising=False)
    with pytest.raises(
        ContractError, match=r"cube added: no provider has it yet: that takes .*2\.0"
    ):
        copy.write()


def test_an_optional_operation_says_its_version_in_its_decorator() -> None:
    from fl_tensor.capabilities import _optional

    def hadamard(self: Any, x: Any) -> Any:
        """Not there yet."""

    marked = _optional("linalg", since="1.1")(hadamard)
    assert (marked.capability, marked.since) == ("linalg", "1.1")
    assert {op.since for op in contract.OPTIONAL} == {"1.0"}
    assert OpSpec("hadamard", "optional", marked, "linalg", "1.1").since == "1.1"


def test_a_provider_of_an_earlier_minor_is_accepted_by_a_later_host() -> None:
    later = pinned.Version(1, 3)
    assert pinned.negotiate("tensor backend", later, pinned.Version(1, 0), "acme") == (1, 0)
    assert NumpyBackend.CONTRACT <= TensorBackend.CONTRACT


@pytest.mark.parametrize("action", ["write", "freeze"])
def test_an_installed_package_is_not_written_to(
    copy: Contract, action: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = copy.folder.parents[2] / "lib" / "fl_tensor" / "contracts"
    shutil.copytree(copy.folder, place)
    monkeypatch.setattr(contract, "PINNED", dataclasses.replace(copy, folder=place))
    monkeypatch.setattr(contract, "FOLDER", place.parent)
    assert cli.main(["contract", action]) == 2
    assert "is an installed package" in capsys.readouterr().err
    assert [path.name for path in place.parent.iterdir()] == ["contracts"]
    assert pinned.read(place / "tensor-1.0.json") == pinned.read(copy.path("1.0"))


def test_the_command_freezes_and_shows(capsys: pytest.CaptureFixture[str], copy: Contract) -> None:
    assert copy.main(["--card"]) == 0
    assert capsys.readouterr().out.startswith(f"# Contract tensor {NOW}")
    assert copy.main(["--freeze"]) == 0
    assert copy.generated()["digest"] in capsys.readouterr().out


@pytest.mark.defect("B1", "item 9")
def test_what_may_not_be_written_leaves_every_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new operation that does not say its version: no file is made anew, none deleted."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "fl-tensor"\n')
    package = tmp_path / "src" / "fl_tensor"
    shutil.copytree(contract.FOLDER / "contracts", package / "contracts")
    (package / "functions").mkdir()
    for name in ("derived_ops.py", "functions/generated.py"):
        shutil.copy(contract.FOLDER / name, package / name)
    files = dataclasses.replace(contract.PINNED, folder=package / "contracts")
    monkeypatch.setattr(contract, "FOLDER", package)
    monkeypatch.setattr(contract, "PINNED", files)
    before = {path: path.read_bytes() for path in package.rglob("*.*") if path.is_file()}
    with_derived(monkeypatch, {})
    assert contract.main(["--write"]) == 1
    assert {path: path.read_bytes() for path in package.rglob("*.*") if path.is_file()} == before
    told = capsys.readouterr().err
    assert f"median9 added: its since is 1.0, it is new in {NOW}" in told
    assert f'say "{NOW}" at the new operations: SINCE in a derived module' in told
