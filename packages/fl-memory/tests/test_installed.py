"""Entry points are read as ``importlib.metadata`` reads them, without its cost."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from fl_memory import installed

Install = Callable[..., None]
GROUP = "fl.test.v1"


@pytest.mark.parametrize("group", ["console_scripts", "pytest11", "no.such.group"])
def test_as_importlib_reads_this_environment(group: str) -> None:
    expected = {(p.name, p.value, p.dist.version) for p in entry_points(group=group) if p.dist}
    assert {(o.name, o.value, o.version) for o in installed.offers(group)} == expected
    assert installed._are_in_folders(), "and not by asking it"


def test_what_the_metadata_says(install: Install) -> None:
    ours = {"acme": "acme:Acme [fast]", "two": "a.b [fast]"}
    points = {"other.group": {"acme": "no:No"}, GROUP: ours}
    install("acme-backend", "1.2", points, keywords="one, fl.test.v1.0,\n two\n\tthree")
    about = ("acme-backend", "1.2", ("one", "fl.test.v1.0", "two", "three"))
    expected = [("acme", "acme:Acme [fast]", *about), ("two", "a.b [fast]", *about)]
    assert installed.offers(GROUP) == expected
    assert list(installed._from_importlib(GROUP)) == expected
    assert [offer.module for offer in installed.offers(GROUP)] == ["acme", "a.b"]
    assert str(installed.offers(GROUP)[0]) == "acme-backend 1.2"


def test_the_first_distribution_of_a_name_counts(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("Acme.Backend", "1.0", {GROUP: {"acme": "old:Acme"}})
    newer = tmp_path / "newer" / "acme_backend-2.0.dist-info"
    newer.mkdir(parents=True)
    (newer / "METADATA").write_text("Name: acme-backend\nVersion: 2.0\n\nKeywords: of the body\n")
    (newer / "entry_points.txt").write_text(f"# comment\n[{GROUP}]\n# a = b\nacme = new:Acme\n")
    monkeypatch.syspath_prepend(str(newer.parent))
    assert installed.offers(GROUP) == [("acme", "new:Acme", "acme-backend", "2.0", ())]


def test_an_archive_is_read_by_importlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "acme.zip", "w") as archive:
        archive.writestr("acme-1.0.dist-info/METADATA", "Name: acme\nVersion: 1.0\nKeywords: k\n")
        archive.writestr("acme-1.0.dist-info/entry_points.txt", f"[{GROUP}]\nacme = acme:Acme\n")
    monkeypatch.syspath_prepend(str(tmp_path / "acme.zip"))
    assert installed.offers(GROUP) == [("acme", "acme:Acme", "acme", "1.0", ("k",))]


def test_importlib_metadata_is_not_loaded() -> None:
    code = (
        "import sys\nbefore = set(sys.modules)\nfrom fl_memory import Registry\n"
        "Registry('fl.memory.v1', 'manager', (1, 0)).names()\n"
        "assert 'importlib.metadata' not in set(sys.modules) - before"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
