"""The command ``fl-tensor``: what is installed, how large it is, the pinned contract."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fl_tensor as ft
from fl_memory import contract as pinned
from fl_tensor import contract
from fl_tensor.backends.delegate import DelegatingBackend
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.cli import COMMANDS, lines, main
from fl_tensor.cli.survey import implementations, survey, surveys
from fl_tensor.dispatch import registry


class Inherits(NumpyBackend):
    CONTRACT = (1, 0)
    name = "inherits"

    def add(self, x: Any, y: Any) -> Any:
        return super().add(x, y)


class Broken(DelegatingBackend):
    CONTRACT = (1, 0)
    name = "broken"

    def devices(self) -> list[ft.Device]:
        raise OSError("no driver for the moon")


@pytest.fixture
def offered() -> Any:
    """Two more backends, as if they were installed."""
    providers = {"inherits": Inherits, "broken": Broken, "lost": "no_such_module:Backend"}
    for name, provider in providers.items():
        registry.REGISTRY.register(name, provider)
    surveys.cache_clear()
    yield
    surveys.cache_clear()
    for name in providers:
        registry.REGISTRY.unregister(name)
        registry._instances.pop(name, None)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def test_help_lists_the_commands() -> None:
    for arguments in ([], ["--help"], ["backends", "--help"]):
        command = [sys.executable, "-m", "fl_tensor", *arguments]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        assert found.stdout.startswith("usage: fl-tensor")
    listed = subprocess.run(
        [sys.executable, "-m", "fl_tensor"], capture_output=True, text=True, check=True
    )
    assert all(name in listed.stdout for name in COMMANDS)


def test_backends_say_what_they_offer_or_why_not(
    offered: None, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, "backends")
    assert "numpy        fl-tensor" in text and "float32" in text
    assert "cannot be used: no driver for the moon" in text
    assert "no_such_module" in text
    found = {b["name"]: b for b in json.loads(printed(capsys, "backends", "--json"))["backends"]}
    assert found["numpy"]["devices"] == ["cpu"] and found["numpy"]["contract"] == "1.1"
    assert set(found["numpy"]["own_derived"]) >= {"slice_update"}
    assert found["null"]["own_derived"] == [] and "linalg" in found["null"]["capabilities"]
    assert found["broken"]["error"] == "no driver for the moon"
    assert "dtypes" not in found["lost"]


def test_info_counts_from_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "info")
    assert "add 1, conv 1, sum 1" in text
    required = len(contract.PRIMITIVES)
    assert required <= 64
    assert f"{required}  required" in text
    assert "ICML 2022" in text and "from memory" not in text
    for row in (
        r"operators +2,100 +1,425 +60 +\d+ \(",
        r"lines of code +1,798,292 +1,306,159 +27,173 +\d",
        r"size of the binary, MB +527 +768 +10 +none",
    ):
        assert re.search(row, text), row
    assert "Default backend:" in text and "Threads of an operation:" in text
    figures = json.loads(printed(capsys, "info", "--json"))
    assert figures["operations"]["total"] == len(contract.OPERATIONS)
    assert figures["threads"]["per_operation"] == ft.get_num_threads()
    assert sum(figures["operations"]["of_capability"].values()) == len(contract.OPTIONAL)
    for backend in ("numpy", "null"):
        counted = figures["implementations"][backend]
        assert {op: len(found) for op, found in counted.items()} == dict(add=1, conv=1, sum=1)
    assert sum(figures["parts_of_fl_tensor"].values()) == figures["lines"]["fl_tensor"]
    assert figures["lines"]["fl_memory"] > 500


@pytest.fixture
def kelp(tmp_path: Path) -> dict[str, str]:
    """The environment of a process in which a third party's distribution is installed. One of its
    two modules is missing."""
    about = tmp_path / "kelp_backend-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: kelp-backend\nVersion: 1.2\n")
    points = "[fl.tensor.v1]\nkelp = kelp.backend:Kelp\nwrack = wrack:Wrack\n"
    (about / "entry_points.txt").write_text(points)
    (tmp_path / "kelp").mkdir()
    (tmp_path / "kelp/__init__.py").write_text('"""Kelp."""\n')
    (tmp_path / "kelp/backend.py").write_text(
        "from fl_tensor.backends.delegate import DelegatingBackend\n"
        "class Kelp(DelegatingBackend):\n    CONTRACT = (1, 0)\n    name = 'kelp'\n"
    )
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def test_info_counts_a_third_partys_backend_and_names_its_distribution(
    kelp: dict[str, str],
) -> None:
    command = [sys.executable, "-m", "fl_tensor", "info"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=kelp)
    assert "  kelp-backend 1.2: kelp, wrack\n" in done.stdout
    assert "       4  kelp\n" in done.stdout
    done = subprocess.run([*command, "--json"], capture_output=True, check=True, env=kelp)
    figures = json.loads(done.stdout)
    assert figures["distributions"]["kelp-backend 1.2"] == {"kelp": "kelp", "wrack": "wrack"}
    assert figures["lines"]["kelp"] == 4 and "wrack" not in figures["lines"]
    assert figures["lines"]["total"] == sum(figures["lines"].values()) / 2


def test_implementations_are_counted_along_the_classes() -> None:
    assert len(implementations(NumpyBackend, "add")) == 1
    assert len(implementations(Inherits, "add")) == 2
    assert implementations(Inherits, "add")[0].endswith(":Inherits")
    assert implementations(ft.TensorBackend, "add") == []
    assert implementations(Broken, "scatter") == []

    class OwnAdd(Broken):
        def add(self, x: Any, y: Any) -> Any:
            return super().add(x, y)

    assert len(implementations(OwnAdd, "add")) == 1


class Starter(DelegatingBackend):
    CONTRACT = (1, 0)
    name = "starter"


@pytest.fixture
def borrower() -> Any:
    registry.REGISTRY.register("starter", Starter)
    surveys.cache_clear()
    yield
    surveys.cache_clear()
    registry.REGISTRY.unregister("starter")
    registry._instances.pop("starter", None)


def test_borrowed_operations_show(borrower: None) -> None:
    facts = survey("starter")
    assert len(facts["borrowed"]) == len(contract.PRIMITIVES)
    assert facts["implementations"] == {"add": [], "conv": [], "sum": []}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", 0),
        ("# only a comment\n\n", 0),
        ('"""A docstring\nof two lines."""\n\nx = 1  # one\n', 1),
        ('def f():\n    """Doc."""\n    # why\n    return [\n        1,\n\n    ]\n', 4),
        ('x = """text\nof two"""\n', 2),
    ],
)
def test_lines_of_code_are_lines_that_do_something(source: str, expected: int) -> None:
    assert lines.count(source) == expected


def test_conformance_is_the_kit(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "numpy", "-k", "test_operation and add-float32-plain"]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "1 passed, 0 failed"
    assert main(["conformance", "nunpy"]) == 2
    said = capfd.readouterr()
    assert said.out.splitlines()[-1].endswith(": no test ran, nunpy cannot be loaded")
    assert said.err.startswith("no tensor backend named 'nunpy'; there are: ")


def test_conformance_of_a_class_in_this_folder(tmp_path: Path) -> None:
    (tmp_path / "kelp.py").write_text(
        "from fl_tensor.backends.delegate import DelegatingBackend\n"
        "class Kelp(DelegatingBackend):\n    CONTRACT = (1, 0)\n    name = 'kelp'\n"
    )
    script = "import sys; sys.path.remove(''); from fl_tensor.cli import main; sys.exit(main())"
    for name, status in {"kelp:Kelp": 0, "kelp:Whelk": 2, "squid:Squid": 2}.items():
        found = subprocess.run(
            [sys.executable, "-c", script, "conformance", name, "-k", "add-float32-plain"],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert found.returncode == status, found.stdout + found.stderr
        assert ("no test ran" in found.stdout) == (status == 2)


@pytest.mark.parametrize("command", COMMANDS)
def test_helps_are_for_people(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    text = capsys.readouterr().out
    assert left.value.code == 0 and "`" not in text and "fl_tensor." not in text
    if command == "conformance":
        assert all(option in text for option in ("--report", "--under", "--device", "-k"))


def test_conformance_without_pytest_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fl_tensor.testing.__main__.find_spec", lambda name: None)
    assert main(["conformance", "numpy"]) == 2
    assert "install './packages/fl-tensor[testing]'" in capsys.readouterr().err


def test_contract_card_and_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "contract", "card") == contract.PINNED.card()
    assert printed(capsys, "contract", "card", "1.0").startswith("# Contract tensor 1.0\n")
    assert contract.PINNED.path().name in printed(capsys, "contract", "check")
    assert "No difference" in printed(capsys, "contract", "diff")


def test_info_of_a_backend_that_borrows_all(
    borrower: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "add 0, conv 0, sum 0   (add: borrowed)" in printed(capsys, "info")


def test_contract_card_of_a_version_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", "card", "1.9"]) == 1
    assert "no version 1.9 of contract tensor: 1.0" in capsys.readouterr().err


def test_contract_diff_of_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = pinned.read(contract.PINNED.path())
    operations = dict(body["operations"])
    del operations["add"]
    operations["median9"] = {"signature": "(x: F)", "kind": "derived", "since": "1.1"}
    other = pinned.manifest("tensor", (1, 1), {}, **{**_sections(body), "operations": operations})
    path = tmp_path / "other.json"
    path.write_text(pinned.dumps(other))
    assert main(["contract", "diff", "1.0", str(path)]) == 1
    text = capsys.readouterr().out
    assert "# Contract tensor: 1.0 to 1.1" in text and "**Not allowed**" in text
    assert "`operations.median9`" in text and "`operations.add`" in text
    assert main(["contract", "diff", "1.0", str(tmp_path / "none.json")]) == 1
    assert "none.json" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["contract", "check", "1.0"])


def _sections(body: dict[str, Any]) -> dict[str, Any]:
    return {
        k: v
        for k, v in body.items()
        if k not in ("contract", "version", "status", "digest", "classes")
    }


def test_importing_the_package_loads_no_command() -> None:
    code = "import sys, fl_tensor; print([m for m in sys.modules if 'cli' in m or 'delegate' in m])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
