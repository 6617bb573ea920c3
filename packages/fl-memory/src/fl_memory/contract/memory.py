"""The memory contract and its files."""

from __future__ import annotations

from pathlib import Path

from fl_memory.account import Account
from fl_memory.accounting import AccountingManager
from fl_memory.block import Block
from fl_memory.contract.cards import meanings
from fl_memory.contract.series import Contract
from fl_memory.manager import DeviceMemory, Event, MemoryManager, Stats, contract_manifest

CLASSES = (DeviceMemory, MemoryManager, AccountingManager, Account, Block, Stats, Event)

PINNED = Contract(
    name="memory",
    folder=Path(__file__).resolve().parent.parent / "contracts",
    build=contract_manifest,
    says=lambda: meanings(CLASSES),
    module="fl_memory.contract",
    number="HOST in fl_memory/manager.py",
)
