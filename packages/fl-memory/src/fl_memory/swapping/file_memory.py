"""Host memory in an unlinked file, whose pages can leave memory and keep their bytes.

Each allocation is a shared mapping of a part of the file. ``MADV_DONTNEED`` on such a mapping drops
the pages from the process; the bytes stay in the file, and a later access reads them. This is safe
while other threads read and write. Disk space is reserved with each allocation: a full file system
is an ``OutOfMemoryError``, not a bus error in the middle of a kernel.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import tempfile
import threading
import weakref
from bisect import bisect_right

from fl_memory.argument_checks import checked_limit
from fl_memory.errors import AllocationError, DeviceError, OutOfMemoryError
from fl_memory.forks import free_after_fork
from fl_memory.manager import DeviceMemory

__all__ = ["FileMemory"]

# Of <sys/mman.h> and <linux/falloc.h>.
_PROT_READ_WRITE = 1 | 2
_MAP_SHARED, _MAP_PRIVATE, _MAP_FIXED, _MAP_ANONYMOUS = 0x01, 0x02, 0x10, 0x20
_MADV_WILLNEED, _MADV_DONTNEED, _MADV_REMOVE = 3, 4, 9
_FALLOC_KEEP_SIZE, _FALLOC_ZERO_RANGE = 0x01, 0x10
_MAP_FAILED = ctypes.c_void_p(-1).value


class FileMemory(DeviceMemory):
    """The "cpu" device in a file of ``folder``. ``limit`` bounds the bytes that are out (None: no
    bound but the disk).

    The file has no name: the system removes it with the process. A forked child gets a private copy
    in plain memory, which cannot be swapped; the fork waits for it.

    Raises DeviceError outside Linux, and where ``folder`` cannot hold files.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int | None = None) -> None:
        if sys.platform != "linux":
            raise DeviceError(
                f"FileMemory needs Linux (this is {sys.platform}): other systems do not drop the "
                f"pages of a shared mapping on request"
            )
        self.limit = checked_limit(limit)
        try:
            self._file = tempfile.TemporaryFile(dir=folder)
        except OSError as error:
            raise DeviceError(f"FileMemory({os.fspath(folder)!r}): {error.strerror}") from error
        self.device = "cpu"
        self.folder = os.fspath(folder)
        self._c = _library()
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._length = 0  # of the file
        self._out = 0
        self._mappings: dict[int, tuple[int, int, int]] = {}  # address: begin, size, offset in file
        self._begins: list[int] = []  # sorted addresses
        self._is_copy = False  # in a forked child
        self._lock = free_after_fork(threading.RLock())
        weakref.finalize(self, self._file.close)
        _memories.add(self)

    def allocate(self, nbytes: int, alignment: int) -> int:
        page = self._page
        size = -(-max(nbytes, 1) // page) * page + (alignment if alignment > page else 0)
        with self._lock:
            if self.limit is not None and self._out + nbytes > self.limit:
                raise OutOfMemoryError(nbytes, self.device, limit=self.limit)
            offset = self._length
            begin = self._mapped(nbytes, size, offset)
            self._length += size
            self._out += nbytes
            address = (begin + alignment - 1) & -alignment
            self._mappings[address] = begin, size, offset
            self._begins.insert(bisect_right(self._begins, address), address)
        return address

    def release(self, address: int, nbytes: int) -> None:
        with self._lock:
            begin, size, _ = self._mappings.pop(address)
            del self._begins[bisect_right(self._begins, address) - 1]
            self._out -= nbytes
            if not self._is_copy:
                self._c.madvise(begin, size, _MADV_REMOVE)  # frees the disk space, too
            self._c.munmap(begin, size)

    def capacity(self) -> int | None:
        if self.limit is not None:
            return self.limit
        free = self._free_bytes()
        return None if free is None else self._out + free

    def advise(self, address: int, nbytes: int, advice: str) -> bool:
        """ "cold": the pages leave memory and keep their bytes. "free": they leave memory, their
        bytes are lost, and nothing is written to disk. "willneed": they are read ahead.

        Only whole pages within the range are affected. False in a forked child, and where the file
        system cannot do it.
        """
        page = self._page
        begin, end = -(-address // page) * page, (address + nbytes) // page * page
        if self._is_copy or end <= begin:
            return False
        if advice == "cold":
            return bool(self._c.madvise(begin, end - begin, _MADV_DONTNEED) == 0)
        if advice == "willneed":
            return bool(self._c.madvise(begin, end - begin, _MADV_WILLNEED) == 0)
        if advice == "free":
            return self._zero(begin, end)
        raise AllocationError(f"advise({advice!r}): one of 'willneed', 'cold', 'free'")

    def write_back(self) -> None:
        """Write dirty pages to disk and drop the system's copies of them: for a budget that counts
        the page cache, such as that of a cgroup. Takes as long as the disk does."""
        os.fdatasync(self._file.fileno())
        os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    # ------------------------------------------------------------------ inside

    def _free_bytes(self) -> int | None:
        """Of the file system; None where it states no size, as ramfs."""
        found = os.fstatvfs(self._file.fileno())
        return found.f_bavail * found.f_frsize if found.f_blocks else None

    def _mapped(self, nbytes: int, size: int, offset: int) -> int:
        if self._is_copy:
            flags, descriptor = _MAP_PRIVATE | _MAP_ANONYMOUS, -1
            offset = 0
        else:
            flags, descriptor = _MAP_SHARED, self._file.fileno()
            try:
                # A reservation that fails takes all that is left first, and others run out of it.
                if (free := self._free_bytes()) is not None and size > free:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.posix_fallocate(descriptor, offset, size)
            except (OSError, OverflowError) as error:
                if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                    os.ftruncate(descriptor, self._length)  # what of it was reserved
                raise OutOfMemoryError(
                    nbytes,
                    self.device,
                    live_bytes=self._out,
                    limit=self.limit,
                    hint=f"the file system of {self.folder} has no room for it; free space there, "
                    f"or give FileMemory another folder",
                ) from error
        begin = self._c.mmap(None, size, _PROT_READ_WRITE, flags, descriptor, offset)
        if begin in (None, _MAP_FAILED):
            raise OutOfMemoryError(nbytes, self.device, live_bytes=self._out, limit=self.limit)
        return int(begin)

    def _zero(self, begin: int, end: int) -> bool:
        # Zeroing keeps the disk space reserved, unlike a hole: a later write cannot fail.
        with self._lock:
            place = bisect_right(self._begins, begin) - 1
            while begin < end:
                if place < 0:
                    return False
                start, size, offset = self._mappings[self._begins[place]]
                upto = min(end, start + size)
                if not start <= begin < upto:
                    return False
                mode = _FALLOC_KEEP_SIZE | _FALLOC_ZERO_RANGE
                failed = self._c.fallocate(
                    self._file.fileno(), mode, offset + begin - start, upto - begin
                )
                if failed:
                    return bool(self._c.madvise(begin, end - begin, _MADV_DONTNEED) == 0)
                begin = upto
                place += 1
        return True

    def _copy(self) -> None:
        """In a forked child: replace the shared pages by private copies at the same addresses."""
        self._is_copy = True
        flags = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_FIXED
        for begin, size, offset in self._mappings.values():
            # What the file holds is what the mapping shows: both are the page cache.
            if self._c.mmap(begin, size, _PROT_READ_WRITE, flags, -1, 0) != begin:
                os._exit(os.EX_OSERR)  # without memory of its own it would write to its parent's
            content = (ctypes.c_char * size).from_address(begin)
            done = 0
            while done < size:
                part = memoryview(content)[done : done + _COPY_BYTES]
                done += os.preadv(self._file.fileno(), [part], offset + done)


#: Bytes of one read of a forked child.
_COPY_BYTES = 64 << 20
_memories: weakref.WeakSet[FileMemory] = weakref.WeakSet()
_pipes: list[tuple[int, int]] = []


def _before_fork() -> None:
    if _memories:
        _pipes.append(os.pipe())


def _wait_for_child() -> None:
    # The end of the pipe closes when the child has copied, or has died.
    if _pipes:
        read, write = _pipes.pop()
        os.close(write)
        os.read(read, 1)
        os.close(read)


def _copy_all() -> None:
    if _pipes:
        read, write = _pipes.pop()
        os.close(read)
        for memory in list(_memories):
            memory._copy()
        os.close(write)


def _library() -> ctypes.CDLL:
    c = ctypes.CDLL(None, use_errno=True)
    pointer, size, number, offset = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int64
    )  # fmt: skip
    c.mmap.argtypes = [pointer, size, number, number, number, offset]
    c.mmap.restype = pointer
    c.munmap.argtypes = [pointer, size]
    c.madvise.argtypes = [pointer, size, number]
    c.fallocate.argtypes = [number, number, offset, offset]
    return c


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_wait_for_child, after_in_child=_copy_all
    )
