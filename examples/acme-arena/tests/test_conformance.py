from acme_arena import ArenaManager
from fl_memory.testing import MemoryManagerSuite


class TestArena(MemoryManagerSuite):
    manager = ArenaManager
