"""Versions are negotiated with messages that help; pinned contracts do not change unnoticed."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path

import pytest

from fl_memory import contract
from fl_memory.contract import ContractError, Version, negotiate, stated_version
from fl_memory.contract.memory import PINNED

#: The digest of every frozen version, by file: ``python -m fl_memory.contract --freeze`` prints it.
FROZEN = {"memory-1.0.json": "a1978a23fdcf6694"}


class Shop(ABC):
    """Nothing here is ever called."""

    size: int

    @abstractmethod
    def buy(self, what: str, /, count: int = 1, *rest: int, price: float | None = None) -> bool: ...

    @property
    def owner(self) -> str:
        return "me"

    @classmethod
    def open(cls) -> Shop:
        raise NotImplementedError

    def _private(self) -> None:
        raise NotImplementedError


class OtherShop:
    size: str

    def buy(self, what: str, /, count: int = 2, *rest: int, price: float | None = None) -> bool: ...


OtherShop.__name__ = "Shop"


def pinned_shop(cls: type = Shop, **options: str) -> dict[str, object]:
    return contract.manifest("shop", (1, 0), {cls: ("size",)}, **options)


def test_version_is_a_tuple_with_a_name() -> None:
    assert Version(1, 2) == (1, 2) and Version(1, 2) < (1, 10) < Version(2, 0)
    assert str(Version(1, 2)) == "1.2" and (Version(1, 2).major, Version(1, 2).minor) == (1, 2)


@pytest.mark.parametrize("provider", [(1, 0), (1, 1), (1, 2)])
def test_same_major_and_no_newer_minor_is_accepted(provider: tuple[int, int]) -> None:
    assert negotiate("tensor backend", Version(1, 2), Version(*provider), "acme") == provider


@pytest.mark.parametrize(
    "provider, remedy",
    [((1, 3), "upgrade fl-tensor"), ((2, 0), "upgrade fl-tensor"), ((0, 9), "upgrade acme 0.3")],
)
def test_refusal_names_both_versions_and_the_package_to_upgrade(
    provider: tuple[int, int], remedy: str
) -> None:
    with pytest.raises(ContractError) as caught:
        negotiate("tensor backend", Version(1, 2), Version(*provider), "acme 0.3", "fl-tensor")
    message = str(caught.value)
    assert "1.2" in message and ".".join(map(str, provider)) in message
    assert remedy in message and isinstance(caught.value, ImportError)


def test_a_class_states_its_version_itself() -> None:
    class Host:
        CONTRACT = (1, 1)

    class Inherits(Host): ...

    class Malformed:
        CONTRACT = "1.0"

    class States(Host):
        CONTRACT = (1, 0)

    assert stated_version(States, "thing", "acme") == (1, 0)
    with pytest.raises(ContractError, match="only inherits CONTRACT"):
        stated_version(Inherits, "thing", "acme")
    with pytest.raises(ContractError, match="has no CONTRACT"):
        stated_version(int, "thing", "acme")
    with pytest.raises(ContractError, match="two non-negative integers"):
        stated_version(Malformed, "thing", "acme")


def test_manifest_shows_members_signatures_and_duties() -> None:
    assert pinned_shop()["classes"] == {
        "Shop": {
            "buy": {
                "kind": "method",
                "signature": "(self, what: str, /, count: int = 1, *rest: int, "
                "price: float | None = None) -> bool",
                "required": True,
            },
            "open": {"kind": "method", "signature": "(cls) -> Shop", "required": False},
            "owner": {"kind": "property", "signature": "(self) -> str", "required": False},
            "size": {"kind": "field", "type": "int"},
        }
    }


def test_signature_text_keeps_markers() -> None:
    def f(a, /, b, *, c): ...  # type: ignore[no-untyped-def]

    assert contract.signature_text(f) == "(a, /, b, *, c)"


def test_members_that_another_section_describes_are_left_out() -> None:
    pinned = contract.manifest("shop", (1, 0), {Shop: ()}, apart={"buy", "open"})
    assert set(pinned["classes"]["Shop"]) == {"owner"}


def test_status_is_no_part_of_the_digest() -> None:
    draft, frozen = pinned_shop(), pinned_shop(status=contract.FROZEN)
    assert draft["digest"] == frozen["digest"] and draft != frozen
    assert pinned_shop(OtherShop)["digest"] != draft["digest"]
    with pytest.raises(ContractError, match="status"):
        pinned_shop(status="maybe")


def test_a_table_of_operations_can_be_pinned_too(tmp_path: Path) -> None:
    table = {"add": {"signature": "(x, y)", "kind": "required"}}
    pinned = contract.pin("tensor", (1, 0), table)
    assert pinned["operations"] == table and pinned["status"] == "draft"
    assert json.loads(contract.dumps(pinned)) == pinned


def test_draft_may_be_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "shop-1.0.json"
    contract.write(path, pinned_shop())
    contract.check(path, pinned_shop())
    with pytest.raises(ContractError) as caught:
        contract.check(path, pinned_shop(OtherShop))
    message = str(caught.value)
    assert "classes.Shop.buy.required: True -> False" in message
    assert "classes.Shop.owner: removed" in message and "write it anew" in message
    contract.write(path, pinned_shop(OtherShop))
    contract.check(path, pinned_shop(OtherShop))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_frozen_never_changes(tmp_path: Path) -> None:
    path = tmp_path / "shop-1.0.json"
    contract.write(path, pinned_shop(status=contract.FROZEN))
    text = path.read_text()
    contract.write(path, pinned_shop())
    with pytest.raises(ContractError, match="frozen and never changes"):
        contract.write(path, pinned_shop(OtherShop))
    assert path.read_text() == text


@pytest.mark.parametrize("damage", ["", "[]", "{}", None])
def test_damaged_file_is_an_error(tmp_path: Path, damage: str | None) -> None:
    path = tmp_path / "shop-1.0.json"
    if damage is not None:
        path.write_text(damage)
    with pytest.raises(ContractError, match=path.name):
        contract.read(path)


def test_file_edited_by_hand_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "shop-1.0.json"
    contract.write(path, pinned_shop())
    path.write_text(path.read_text().replace("count: int = 1", "count: int = 3"))
    with pytest.raises(ContractError, match="digest"):
        contract.read(path)


def test_the_memory_contract_is_pinned() -> None:
    PINNED.check()


def test_frozen_versions_are_what_they_were() -> None:
    found = {f"memory-{body['version']}.json": body for body in PINNED.versions()}
    frozen = {name: body["digest"] for name, body in found.items() if body["status"] == "frozen"}
    assert frozen == FROZEN


def test_functions_for_backends_are_part_of_the_memory_contract() -> None:
    functions = PINNED.generated()["functions"]
    assert {"current", "device_memory", "free_after_fork"} <= functions.keys()
    assert functions["free_after_fork"]["signature"] == "(lock: L) -> L"
    assert "| `free_after_fork` | function |" in PINNED.card()
