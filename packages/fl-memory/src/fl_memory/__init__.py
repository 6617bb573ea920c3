"""Memory managers: allocation, caching, statistics.

import fl_memory as mem

block = mem.current().alloc(1 << 20, tag="weights")
with mem.use("system"):
    ...                     # every tensor made here is a native allocation
mem.current().stats()
"""

from fl_memory._version import __version__ as __version__
from fl_memory.account import Account as Account
from fl_memory.accounting import AccountingManager as AccountingManager
from fl_memory.block import Block as Block
from fl_memory.device import device_memory as device_memory
from fl_memory.device import register_device as register_device
from fl_memory.errors import AllocationError as AllocationError
from fl_memory.errors import BlockError as BlockError
from fl_memory.errors import ContractError as ContractError
from fl_memory.errors import DeviceError as DeviceError
from fl_memory.errors import DoubleFreeError as DoubleFreeError
from fl_memory.errors import FlError as FlError
from fl_memory.errors import OutOfMemoryError as OutOfMemoryError
from fl_memory.errors import PluginError as PluginError
from fl_memory.errors import UseAfterFreeError as UseAfterFreeError
from fl_memory.errors import WrongManagerError as WrongManagerError
from fl_memory.manager import HOST as HOST
from fl_memory.manager import DeviceMemory as DeviceMemory
from fl_memory.manager import Event as Event
from fl_memory.manager import MemoryManager as MemoryManager
from fl_memory.manager import Stats as Stats
from fl_memory.plugins import Registry as Registry
from fl_memory.selection import REGISTRY as REGISTRY
from fl_memory.selection import available as available
from fl_memory.selection import current as current
from fl_memory.selection import get as get
from fl_memory.selection import use as use
