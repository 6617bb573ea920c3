"""A contract over time: drafts, frozen versions, what a minor may change, and its card."""

from __future__ import annotations

import dataclasses
import json
import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import pytest

from fl_memory import contract
from fl_memory.contract import ContractError
from fl_memory.contract.cards import card, meanings, whole
from fl_memory.contract.changes import changes
from fl_memory.contract.series import Contract

ADD = {"signature": "(x, y)", "kind": "required", "capability": None, "since": "1.0"}
MEAN = {"signature": "(x, axis=0)", "kind": "derived", "capability": None, "since": "1.0"}
QR = {"signature": "(x) -> tuple[A, A]", "kind": "optional", "capability": "linalg", "since": "1.0"}
TABLE = {"add": ADD, "mean": MEAN, "qr": QR}


def shop(
    version: tuple[int, int] = (1, 0), operations: dict[str, Any] = TABLE, **sections: Any
) -> dict[str, Any]:
    sections = {"group": "fl.shop.v1", "limits": {"depth": 3}, "events": ["buy"], **sections}
    return contract.manifest("shop", version, {}, operations=operations, **sections)


class Shelf:
    """The contract as its author edits it."""

    def __init__(self, folder: Path) -> None:
        self.body = shop()
        self.files = Contract(
            "shop",
            folder,
            lambda: self.body,
            lambda: {"add": "The sum."},
            "acme.contract",
            "HOST in acme.py",
            "mark them {version}",
        )


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "acme"\n')
    folder = tmp_path / "src" / "acme" / "contracts"
    folder.mkdir(parents=True)
    return Shelf(folder)


def test_a_draft_follows_the_code(shelf: Shelf) -> None:
    with pytest.raises(ContractError, match="shop-1.0.json is missing.*acme.contract --write"):
        shelf.files.check()
    shelf.files.write()
    shelf.files.check()
    shelf.body = shop(operations={"add": ADD})
    with pytest.raises(ContractError, match="operations.mean: removed"):
        shelf.files.check()
    shelf.files.write()
    assert set(contract.read(shelf.files.path())["operations"]) == {"add"}


def test_a_draft_that_a_merge_has_damaged_is_written_anew_and_a_frozen_version_is_not(
    shelf: Shelf,
) -> None:
    shelf.files.write()
    path = shelf.files.path()
    path.write_text("<<<<<<< here\n" + path.read_text())
    shelf.files.write()
    shelf.files.check()
    shelf.files.freeze()
    path.write_text(path.read_text().replace("(x, y)", "(x, z)"))
    with pytest.raises(ContractError, match="the digest does not fit the content"):
        shelf.files.write()


def test_a_frozen_version_never_changes_and_says_how_to_go_on(shelf: Shelf) -> None:
    shelf.files.write()
    digest = shelf.files.freeze()
    path = shelf.files.path()
    text = path.read_text()
    assert contract.read(path)["status"] == "frozen" and json.loads(text)["digest"] == digest
    shelf.files.write()
    assert shelf.files.freeze() == digest and path.read_text() == text
    shelf.body = shop(operations={**TABLE, "median": {**MEAN, "since": "1.1"}})
    for attempt in (shelf.files.write, shelf.files.check, shelf.files.freeze):
        with pytest.raises(ContractError) as caught:
            attempt()
        for words in (
            "shop-1.0.json is frozen and never changes",
            "operations.median: added",
            "state 1.1 in HOST in acme.py",
            "mark them 1.1",
            "makes shop-1.1.json",
        ):
            assert words in str(caught.value)
    assert path.read_text() == text


def test_a_stale_draft_cannot_be_frozen(shelf: Shelf) -> None:
    shelf.files.write()
    shelf.body = shop(operations={"add": ADD})
    with pytest.raises(ContractError, match="differs from the code"):
        shelf.files.freeze()


def test_the_next_minor_gets_a_file_of_its_own(shelf: Shelf) -> None:
    shelf.files.write()
    shelf.files.freeze()
    text = shelf.files.path().read_text()
    fft = {**QR, "capability": "fft", "since": "1.1"}
    shelf.body = shop((1, 1), {**TABLE, "median": {**MEAN, "since": "1.1"}, "fft": fft})
    shelf.files.write()
    shelf.files.check()
    assert [body["version"] for body in shelf.files.versions()] == ["1.0", "1.1"]
    assert [body["status"] for body in shelf.files.versions()] == ["frozen", "draft"]
    assert shelf.files.path("1.0").read_text() == text
    shelf.files.freeze()
    assert [body["status"] for body in shelf.files.versions()] == ["frozen", "frozen"]


def test_a_minor_waits_until_its_predecessor_is_frozen(shelf: Shelf) -> None:
    shelf.files.write()
    shelf.body = shop((1, 1))
    with pytest.raises(ContractError, match="shop 1.0 is still a draft: freeze it before 1.1"):
        shelf.files.write()


NEW = {**MEAN, "since": "1.1"}
REFUSED = {
    "required": ({**TABLE, "sub": {**ADD, "since": "1.1"}}, "operations.sub added: no provider"),
    "unmarked": ({**TABLE, "median": MEAN}, "operations.median added: its since is 1.0"),
    "removed": ({"add": ADD, "mean": MEAN}, "operations.qr removed: 1.0 promises it"),
    "changed": ({**TABLE, "mean": {**MEAN, "signature": "(x)"}}, "operations.mean changed"),
    "demanded": ({**TABLE, "mean": {**MEAN, "kind": "required"}}, "operations.mean changed"),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_minor_that_would_break_providers_is_refused(shelf: Shelf, mistake: str) -> None:
    operations, words = REFUSED[mistake]
    shelf.files.write()
    shelf.files.freeze()
    shelf.body = shop((1, 1), operations)
    with pytest.raises(ContractError, match="shop 1.1 may not follow 1.0") as caught:
        shelf.files.write()
    assert words in str(caught.value)
    assert [p.name for p in shelf.files.folder.iterdir()] == ["shop-1.0.json"]


def test_the_command(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    assert shelf.files.main(["--check"]) == 1
    assert shelf.files.main(["--write"]) == 0
    assert shelf.files.main([]) == 0
    assert "(draft)" in capsys.readouterr().out
    assert shelf.files.main(["--freeze"]) == 0
    assert shelf.body["digest"] in capsys.readouterr().out
    shelf.body = shop(operations={})
    assert shelf.files.main(["--write"]) == 1
    assert "frozen and never changes" in capsys.readouterr().err
    assert shelf.files.main(["--card"]) == 0
    assert capsys.readouterr().out == shelf.files.card()


@pytest.mark.parametrize("where", ["installed", "another project", "no project"])
def test_the_command_writes_in_a_source_tree_only(
    shelf: Shelf, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf.files.write()
    if where == "installed":
        place = tmp_path / "lib" / "acme" / "contracts"
        shutil.copytree(shelf.files.folder, place)
        shelf.files = dataclasses.replace(shelf.files, folder=place)
    elif where == "another project":
        (tmp_path / "pyproject.toml").write_text('[project]\nname = "acme-two"\n')
    else:
        (tmp_path / "pyproject.toml").unlink()
    shelf.body = shop(operations={})
    before = shelf.files.path().read_text()
    for option in ("--write", "--freeze"):
        assert shelf.files.main([option]) == 2
        assert "is an installed package" in capsys.readouterr().err
    assert shelf.files.path().read_text() == before


def test_a_version_that_is_not_there_is_named_with_those_that_are(shelf: Shelf) -> None:
    shelf.files.write()
    with pytest.raises(ContractError, match="no version 1.1 of contract shop: 1.0"):
        shelf.files.card("1.1")


def test_changes_list_what_is_new_and_what_is_refused() -> None:
    new = shop((1, 1), {"add": ADD, "qr": {**QR, "capability": "fft"}, "median": NEW}, events=[])
    found = changes(shop(), new)
    assert [(c.kind, c.place, bool(c.objection)) for c in found.entries] == [
        ("removed", "events.buy", True),
        ("removed", "operations.mean", True),
        ("added", "operations.median", False),
        ("changed", "operations.qr", True),
    ]
    assert not found.allowed
    text = found.markdown()
    assert "# Contract shop: 1.0 to 1.1" in text and "**Not allowed**" in text
    assert "| `operations.median` |  | derived `(x, axis=0)` | yes |" in text
    assert "capability `linalg` | capability `fft` | no: 1.0 promises it as it was |" in text


def test_an_addition_is_allowed() -> None:
    found = changes(shop(), shop((1, 1), {**TABLE, "median": NEW}, events=["buy", "sell"]))
    assert found.allowed and len(found.entries) == 2
    assert "Allowed" in found.markdown() and "No difference" in changes(shop(), shop()).markdown()


def test_members_of_classes_and_constants_count_too() -> None:
    pay = {"kind": "method", "signature": "()", "required": True}
    old = {**shop(), "classes": {"Till": {"pay": pay}}}
    till = {"pay": pay, "open": {**pay, "required": False}, "close": pay}
    found = changes(old, {**shop((1, 1), limits={"depth": 4}), "classes": {"Till": till}})
    assert {c.place: c.kind for c in found.entries} == {
        "classes.Till.close": "added",
        "classes.Till.open": "added",
        "limits.depth": "changed",
    }
    assert {c.place for c in found.objections} == {"classes.Till.close", "limits.depth"}


def test_a_new_major_may_change_anything_and_a_draft_itself() -> None:
    assert changes(shop(), shop((2, 0), {})).allowed
    assert "new major version" in changes(shop(), shop((2, 0), {})).markdown()
    assert changes(shop(), shop(operations={})).allowed
    frozen = {**shop(), "status": "frozen"}
    assert [c.objection for c in changes(frozen, shop(operations={})).entries] == [
        "1.0 is frozen"
    ] * 3


def test_changes_of_two_files_on_disk(shelf: Shelf, tmp_path: Path) -> None:
    shelf.files.write()
    other = tmp_path / "elsewhere.json"
    contract.write(other, shop((1, 1), {**TABLE, "median": NEW}))
    assert shelf.files.changes("1.0", str(other)).allowed
    shelf.body = shop(operations={})
    assert len(shelf.files.changes().entries) == 3
    with pytest.raises(ContractError, match="older"):
        changes(shop((1, 1)), shop())
    with pytest.raises(ContractError, match="different contracts"):
        changes(shop(), contract.manifest("bank", (1, 0), {}))


def test_a_card_shows_operations_by_kind_with_meanings() -> None:
    text = card(shop(), {"add": "The sum | total.", "": "How to read it."})
    assert text.startswith("# Contract shop 1.0\n") and "\n\nHow to read it.\n\n" in text
    assert "## Required operations (1)" in text and "## Derived operations (1)" in text
    assert "## Optional operations, capability `linalg` (1)" in text
    assert "| `add` | `(x, y)` | The sum \\| total. | 1.0 |" in text
    assert "- **group**: `fl.shop.v1`" in text and "- **events**: `buy`" in text
    assert "## Limits" in text and "| `depth` | `3` |" in text


def test_meanings_are_whole_docstrings_and_no_part_of_the_pinned_file() -> None:
    class Till:
        """Takes money. And gives it back."""

        #: Coins in it, of
        #: any kind. Counted.
        coins: int = 0

        def pay(self) -> None:
            """``start + i`` for i in 0 .. 9.
            More of it.

            * cash
            * cards,
              too

            Last words.
            """

        def close(self) -> None: ...

    class Desk(Till):
        def pay(self) -> None: ...

    said = "`start + i` for i in 0 .. 9. More of it.<br>* cash<br>* cards, too<br>Last words."
    assert meanings([Till, Desk]) == {
        "Till": "Takes money. And gives it back.",
        "Till.coins": "Coins in it, of any kind. Counted.",
        "Till.pay": said,
        "Till.close": "",
        "Desk": "",
        "Desk.pay": "As `Till.pay`.",
    }
    assert whole(None) == ""
    before = contract.manifest("shop", (1, 0), {Till: ()})["digest"]
    Till.pay.__doc__ = "Better words."
    assert contract.manifest("shop", (1, 0), {Till: ()})["digest"] == before


@pytest.mark.defect("B1", "item 9")
def test_a_draft_that_may_not_be_written_stays(shelf: Shelf) -> None:
    shelf.files.write()
    shelf.files.freeze()
    shelf.body = shop((1, 1))
    shelf.files.write()
    path = shelf.files.path()
    before = path.read_bytes()
    shelf.body = shop((1, 1), {**TABLE, "sum": {**MEAN, "since": "1.0"}})
    with pytest.raises(ContractError, match="its since is 1.0, it is new in 1.1\nmark them 1.1"):
        shelf.files.write()
    assert path.read_bytes() == before


class Device:
    def work(self, stream: int) -> None:
        """Works."""

    def rest(self) -> None:
        """Does not."""


def device(version: tuple[int, int], cls: type = Device, *provisional: str) -> dict[str, Any]:
    return contract.manifest("device", version, {cls: ()}, provisional=provisional)


def test_provisional_members_may_change_or_become_final() -> None:
    class Changed:
        def work(self, stream: str) -> None: ...

        def rest(self) -> None: ...

    class Fewer:
        def rest(self) -> None: ...

    Changed.__name__ = Fewer.__name__ = "Device"
    old = device((1, 0), Device, "Device.work")
    assert old["classes"]["Device"]["work"]["provisional"] is True
    assert changes(old, device((1, 1), Device)).allowed, "final at last"
    assert changes(old, device((1, 1), Changed, "Device.work")).allowed
    assert changes(old, device((1, 1), Fewer)).allowed
    final = device((1, 0), Device)
    assert not changes(final, device((1, 1), Changed)).allowed
    assert not changes(final, device((1, 1), Fewer)).allowed
    assert not changes(final, device((1, 1), Device, "Device.work")).allowed
    assert "| `work` | method, provisional |" in card(old, {})
    assert "| `rest` | method |" in card(old, {})
    with pytest.raises(ContractError, match="Device.play"):
        device((1, 0), Device, "Device.play")


def test_a_provisional_member_may_not_become_required() -> None:
    class Required(ABC):
        @abstractmethod
        def work(self, stream: int) -> None: ...

        rest = Device.rest

    Required.__name__ = "Device"
    old = device((1, 0), Device, "Device.work")
    assert not changes(old, device((1, 1), Required)).allowed
