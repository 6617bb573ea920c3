"""Contract versions: their meaning, negotiation, and pinning in files.

Three contracts use this package (memory, tensor, communicator). A contract has two numbers:

* the *major* is part of the entry-point group (``fl.tensor.v1``): a break is a new group;
* the *minor* counts additions. An implementation states ``CONTRACT = (major, minor)`` in its own
  class body, and is accepted iff the majors are equal and its minor is not newer than the host's.

A contract is pinned as JSON: its public members with their signatures, and a digest. While its
status is ``draft`` the file may be written anew; once ``frozen`` it never changes.

``fl_memory.contract.series.Contract`` keeps the files of one contract, ``cards`` shows one as
Markdown, ``changes`` compares two. ``python -m fl_memory.contract --check`` compares the memory
contract with its file.
"""

from fl_memory.contract.pinning import (
    DRAFT,
    FROZEN,
    check,
    compare,
    describe,
    digest,
    dumps,
    manifest,
    pin,
    read,
    signature_text,
    write,
)
from fl_memory.contract.versions import ContractError, Version, negotiate, stated_version

__all__ = [
    "ContractError",
    "DRAFT",
    "FROZEN",
    "Version",
    "check",
    "compare",
    "describe",
    "digest",
    "dumps",
    "manifest",
    "negotiate",
    "pin",
    "read",
    "signature_text",
    "stated_version",
    "write",
]
