"""Train with less memory than the model needs: blocks in a file, cold ones out of memory.

    memory = FileMemory("/var/tmp")
    with Swapper(memory, budget=2 << 30) as swapper, mem.use(CachingManager(memory)) as manager:
        swapper.watch(manager)
        train()

Linux only. Addresses stay valid, so arrays and kernels need not know: the kernel reads a page from
the file when a program touches it.
"""

from fl_memory.swapping.file_memory import FileMemory
from fl_memory.swapping.swapper import Swapper, resident_bytes

__all__ = ["FileMemory", "Swapper", "resident_bytes"]
