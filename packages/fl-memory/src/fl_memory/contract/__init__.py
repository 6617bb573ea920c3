"""Contract versions: their meaning, negotiation, and pinning in files.

Three contracts use this package (memory, tensor, communicator). A contract has two numbers:

* the *major* is part of the entry-point group (``fl.tensor.v1``): a break is a new group;
* the *minor* counts additions. A provider states ``CONTRACT = (major, minor)`` in its own class
  body, and is accepted iff the majors are equal and its minor is not newer than the host's.

A contract is pinned as JSON: its public members with their signatures, and a digest. While its
status is ``draft`` the file may be written anew; once ``frozen`` it never changes.

``fl_memory.contract.series.Contract`` keeps the files of one contract, ``cards`` shows one as
Markdown, ``changes`` compares two. ``python -m fl_memory.contract --check`` compares the memory
contract with its file.
"""

from fl_memory.contract.pinning import DRAFT as DRAFT
from fl_memory.contract.pinning import FROZEN as FROZEN
from fl_memory.contract.pinning import check as check
from fl_memory.contract.pinning import compare as compare
from fl_memory.contract.pinning import describe as describe
from fl_memory.contract.pinning import digest as digest
from fl_memory.contract.pinning import dumps as dumps
from fl_memory.contract.pinning import manifest as manifest
from fl_memory.contract.pinning import pin as pin
from fl_memory.contract.pinning import read as read
from fl_memory.contract.pinning import signature_text as signature_text
from fl_memory.contract.pinning import write as write
from fl_memory.contract.versions import ContractError as ContractError
from fl_memory.contract.versions import Version as Version
from fl_memory.contract.versions import negotiate as negotiate
from fl_memory.contract.versions import stated_version as stated_version
