"""The pinned contract, and how communicators are found."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fl_dist as dist
import fl_memory.contract as pinned
from fl_dist import contract
from fl_dist.registry import REGISTRY

#: The digest of every frozen version, by file: ``python -m fl_dist.contract --freeze`` prints it.
FROZEN = {"dist-1.0.json": "807814c7957c68d7"}


def test_the_pinned_contract_is_what_the_code_says():
    contract.PINNED.check()


def test_frozen_versions_are_what_they_were():
    found = {f"dist-{body['version']}.json": body for body in contract.PINNED.versions()}
    frozen = {name: body["digest"] for name, body in found.items() if body["status"] == "frozen"}
    assert frozen == FROZEN


def test_an_author_must_write_three_methods():
    body = pinned.read(contract.PINNED.path())
    members = body["classes"]["Transport"]
    required = {name for name, member in members.items() if member.get("required")}
    assert required == {"join", "do_send", "do_recv"}
    assert body["version"] == "1.0"
    assert body["reductions"] == ["sum", "mean", "max", "min", "prod"]


def test_a_change_of_the_contract_is_noticed(monkeypatch):
    def all_reduce(self, x, op="sum"):
        """Without async_op."""

    monkeypatch.setattr(dist.Communicator, "all_reduce", all_reduce)
    with pytest.raises(dist.FlError, match="all_reduce"):
        contract.PINNED.check()


def test_built_in_communicators_are_known_by_name():
    assert {"local", "threads"} <= set(dist.communicators())
    assert dist.load("local") is dist.LocalCommunicator
    assert dist.load("threads") is dist.ThreadsCommunicator


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(LookupError, match="(?s)no communicator.*'carrier-pigeon'.*threads"):
        dist.load("carrier-pigeon")


class Future(dist.ThreadsCommunicator):
    CONTRACT = (1, 9)
    name = "future"


class Silent(dist.ThreadsCommunicator):
    name = "silent"


@pytest.mark.parametrize(
    "kind, text",
    [(Future, r"1\.9.*1\.0.*upgrade fl-dist"), (Silent, "only inherits CONTRACT")],
    ids=["too new", "no number of its own"],
)
def test_a_communicator_for_another_contract_is_refused(kind, text):
    REGISTRY.register("acme-test", kind)
    try:
        with pytest.raises(ImportError, match=text):
            dist.load("acme-test")
    finally:
        REGISTRY.unregister("acme-test")


def test_import_is_light():
    """No array library, no test library, no metadata of other distributions."""
    code = "import fl_dist, sys; print(*sorted(m.partition('.')[0] for m in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(found.stdout.split())
    assert "fl_dist" in loaded
    assert not loaded & {"numpy", "pytest", "torch", "mpi4py", "cupy", "asyncio", "concurrent"}
