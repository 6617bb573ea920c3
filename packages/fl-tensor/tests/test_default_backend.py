"""Which backend is the default, and why; backends as attributes of the package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fl_tensor as ft
from fl_tensor.cli import main
from fl_tensor.cli.survey import surveys
from fl_tensor.dispatch import defaults
from fl_tensor.dispatch.registry import REGISTRY

MODULE = """
from fl_tensor.backends.delegate import DelegatingBackend

class Backend(DelegatingBackend):
    CONTRACT = (1, 0)
    name = {name!r}

def plans():
    return ["a plan"]
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """``install("acme", keywords="fl.tensor.default.acme.60")``: a distribution ``fl-acme`` that
    offers the backend ``acme``."""
    before = set(sys.modules)

    def add(name: str, *, keywords: str = "", code: str = MODULE, project: str = "") -> None:
        project = project or f"fl-{name}"
        info = tmp_path / f"{project.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        lines = f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\nKeywords: {keywords}\n"
        (info / "METADATA").write_text(lines)
        (info / "entry_points.txt").write_text(f"[fl.tensor.v1]\n{name} = {name}_module:Backend\n")
        (tmp_path / f"{name}_module.py").write_text(code.format(name=name))
        REGISTRY.refresh()

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # of the programs that tests start
    monkeypatch.delenv("FL_TENSOR_BACKEND")
    surveys.cache_clear()
    yield add
    surveys.cache_clear()
    REGISTRY.refresh()
    for module in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return done.stdout + done.stderr


def default() -> str:
    return run("import fl_tensor as ft; print(ft.zeros(2).backend.name)").strip()


def first() -> str:
    return defaults.candidates(REGISTRY)[0].name


def test_the_highest_number_is_the_default(install: Install) -> None:
    install("acme", keywords="tensors,fl.tensor.v1.0,fl.tensor.default.acme.100")
    assert default() == "acme"


def test_a_backend_without_a_number_changes_nothing(install: Install) -> None:
    install("nothing", code="raise RuntimeError('imported')")
    before = first()
    install("acme", keywords="fl.tensor.v1.0")
    assert first() == before and default() == before
    assert "acme" in ft.available_backends() and "acme_module" not in sys.modules


def test_a_lower_number_than_that_of_numpy(install: Install) -> None:
    before = first()
    install("acme", keywords="fl.tensor.default.acme.9")
    assert first() == before
    assert ("acme", 9, "fl-acme 1.0") in defaults.candidates(REGISTRY)


def test_of_equal_numbers_the_first_name_counts(install: Install) -> None:
    install("zebra", keywords="fl.tensor.default.zebra.90")
    install("acme", keywords="fl.tensor.default.acme.90")
    assert [each.name for each in defaults.candidates(REGISTRY)][:2] == ["acme", "zebra"]
    assert default() == "acme"


def test_two_distributions_with_one_name_are_both_named(install: Install) -> None:
    for project in ("fl-zebra", "fl-acme"):
        install("acme", keywords="fl.tensor.default.acme.90", project=project)
    assert [each.name for each in defaults.candidates(REGISTRY)][:2] == ["acme", "acme"]
    said = default()
    assert "the default backend 'acme'" in said and "FL_TENSOR_BACKEND" in said
    assert "fl-acme" in said and "fl-zebra" in said


@pytest.mark.parametrize(
    ("keyword", "why"),
    [
        ("fl.tensor.default.acme.101", "expected fl.tensor.default.NAME.NUMBER, an integer from 0"),
        ("fl.tensor.default.acme.-1", "an integer from 0 to 100"),
        ("fl.tensor.default.acme.high", "an integer from 0 to 100"),
        ("fl.tensor.default.acme", "an integer from 0 to 100"),
        ("fl.tensor.default.90", "an integer from 0 to 100"),
        ("fl.tensor.default.numpy.90", "fl-acme offers no backend 'numpy'"),
    ],
)
def test_keywords_that_say_nothing_are_told(
    install: Install, capsys: pytest.CaptureFixture[str], keyword: str, why: str
) -> None:
    before = defaults.candidates(REGISTRY)
    install("acme", keywords=keyword)
    assert defaults.candidates(REGISTRY) == before
    (line,) = defaults.problems(REGISTRY)
    assert line.startswith(f"keyword '{keyword}' of fl-acme 1.0 is ignored: ") and why in line
    assert main(["info"]) == 0 and line in capsys.readouterr().out


def test_two_numbers_for_one_backend(install: Install) -> None:
    install("acme", keywords="fl.tensor.default.acme.3,fl.tensor.default.acme.90")
    assert ("acme", 3, "fl-acme 1.0") in defaults.candidates(REGISTRY)
    (line,) = defaults.problems(REGISTRY)
    assert "acme.90'" in line and "has the number 3 by another keyword" in line


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("import no_such_driver", "No module named 'no_such_driver'"),
        (MODULE + "    CONTRACT = (1, 999)\n".replace("    ", "Backend."), "1.999"),
        (MODULE + "def broken(self):\n    raise OSError('no device')\nBackend.__init__ = broken\n",
         "no device"),
    ],
)  # fmt: skip
def test_a_default_that_cannot_be_loaded(install: Install, code: str, cause: str) -> None:
    install("acme", keywords="fl.tensor.default.acme.100", code=code)
    said = default().splitlines()[-1]
    assert "BackendError: the default backend 'acme' (fl-acme 1.0 states 100)" in said
    assert cause in said and "set FL_TENSOR_BACKEND to another one: " in said and "numpy" in said
    assert run("import fl_tensor as ft; ft.use('numpy'); ft.zeros(2)") == ""


def test_info_says_which_and_why(
    install: Install, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install("acme", keywords="fl.tensor.default.acme.100")
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Default backend: acme (the highest number)"
    assert lines[1].split() == ["acme", "100", "fl-acme", "1.0"]
    assert "  numpy         10  built in" in lines
    monkeypatch.setenv("FL_TENSOR_BACKEND", "null")
    assert main(["info"]) == 0
    assert "Default backend: null (named by FL_TENSOR_BACKEND)\n" in capsys.readouterr().out


def test_an_installed_backend_is_an_attribute(install: Install) -> None:
    names = dir(ft)
    install("acme")
    assert ft.acme.plans() == ["a plan"] and ft.acme.__name__ == "acme_module"
    assert dir(ft) == names


@pytest.mark.parametrize("name", ["null", "numpy", "acme", "__wrapped__"])
def test_nothing_else_is_one(install: Install, name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'fl_tensor' has no attribute '{name}'"):
        getattr(ft, name)


def test_an_attribute_of_a_broken_backend_says_what_is_wrong(install: Install) -> None:
    install("acme", code="import no_such_driver")
    with pytest.raises(ft.FlError, match="'acme' from fl-acme 1.0 cannot be imported.*no_such"):
        ft.acme.plans()


def test_a_misspelt_function_is_suggested() -> None:
    said = run("import fl_tensor as ft; ft.sofmax").splitlines()[-1]
    assert "module 'fl_tensor' has no attribute 'sofmax'. Did you mean: 'softmax'?" in said
