"""Thread pools that run jobs of kernels: libgomp's and fl-jit's own.

A *job* is an address of a header of ``HEADER`` fields, followed by a kernel's arguments. The header
has two phases, with a function and an item count each. The second phase may be 0 and 0. It begins
when all of the first is done.

Thread k of n runs items ``count * k // n`` to ``count * (k + 1) // n``. If field ``REVERSED`` is
not 0, functions of the first phase run these items in descending order.

Between a call and its return only machine code runs, without Python.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Protocol

from fl_jit.kernels.codegen import compile, target

#: Fields before the arguments: two functions with their counts, and fields of the pool.
HEADER = 8
#: The last of them, which no pool uses.
REVERSED = HEADER - 1


class Pool(Protocol):
    """Threads that run jobs."""

    name: str
    #: Fields 4 and up of every job's header.
    header: tuple[int, ...]

    def run(self, job: int, workers: int) -> None:
        """Run the job on ``workers`` threads, including the calling one."""


# part(job, phase, number of the thread, number of threads)
_PART = f"""
define internal void @part(ptr %job, i64 %phase, i64 %number, i64 %threads) {{
  %twice = shl i64 %phase, 1
  %first = getelementptr i64, ptr %job, i64 %twice
  %second = getelementptr i64, ptr %first, i64 1
  %address = load i64, ptr %first
  %count = load i64, ptr %second
  %next = add i64 %number, 1
  %before = mul i64 %count, %number
  %after = mul i64 %count, %next
  %begin = sdiv i64 %before, %threads
  %end = sdiv i64 %after, %threads
  %any = icmp slt i64 %begin, %end
  %turned_at = getelementptr i64, ptr %job, i64 {REVERSED}
  %turned = load i64, ptr %turned_at
  %is_turned = icmp ne i64 %turned, 0
  %is_first = icmp eq i64 %phase, 0
  %turns = and i1 %is_turned, %is_first
  %from = select i1 %turns, i64 %end, i64 %begin
  %to = select i1 %turns, i64 %begin, i64 %end
  br i1 %any, label %work, label %done
work:
  %function = inttoptr i64 %address to ptr
  %arguments = getelementptr i64, ptr %job, i64 {HEADER}
  call void %function(ptr %arguments, i64 %from, i64 %to, i64 %number)
  br label %done
done:
  ret void
}}
"""

_GOMP = """
define void @share(ptr %job) {
  %number_at = getelementptr ptr, ptr %job, i64 4
  %threads_at = getelementptr ptr, ptr %job, i64 5
  %barrier_at = getelementptr ptr, ptr %job, i64 6
  %omp_get_thread_num = load ptr, ptr %number_at
  %omp_get_num_threads = load ptr, ptr %threads_at
  %number32 = call i32 %omp_get_thread_num()
  %threads32 = call i32 %omp_get_num_threads()
  %number = sext i32 %number32 to i64
  %threads = sext i32 %threads32 to i64
  call void @part(ptr %job, i64 0, i64 %number, i64 %threads)
  %second_at = getelementptr i64, ptr %job, i64 2
  %second = load i64, ptr %second_at
  %more = icmp ne i64 %second, 0
  br i1 %more, label %finish, label %done
finish:
  %GOMP_barrier = load ptr, ptr %barrier_at
  call void %GOMP_barrier()
  call void @part(ptr %job, i64 1, i64 %number, i64 %threads)
  br label %done
done:
  ret void
}
"""


def _load(text: str) -> compile.Code:
    module = f'target triple = "{target.triple()}"\n{_PART}{text}'
    return compile.load(module, lambda: module, target.host(), compile.Effort.LEAST)


def _addresses(*functions: Any) -> tuple[int, ...]:
    return tuple(ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions)


class Gomp:
    """Threads of libgomp. Compilers translate ``#pragma omp parallel`` to ``GOMP_parallel``."""

    name = "libgomp"

    def __init__(self) -> None:
        gomp = ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL)
        self.header = _addresses(
            gomp.omp_get_thread_num, gomp.omp_get_num_threads, gomp.GOMP_barrier
        )
        self._code = _load(_GOMP)
        self._share = self._code.address("share")
        self._parallel = gomp.GOMP_parallel
        self._parallel.restype = None
        self._parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]

    def run(self, job: int, workers: int) -> None:
        """Run the job on ``workers`` threads, including the calling one."""
        self._parallel(self._share, job, workers, 0)


# A helper's fields: job, phase, its number, the number of threads, and four addresses. These are
# the semaphores that it waits for and posts, sem_wait and sem_post. A job of 0 ends the helper.
# A signal handler may interrupt a wait, which is then repeated.
_OWN = """
define internal void @call_with(ptr %words, i64 %function, i64 %operand) {
  %function_at = getelementptr ptr, ptr %words, i64 %function
  %operand_at = getelementptr ptr, ptr %words, i64 %operand
  %callee = load ptr, ptr %function_at
  %semaphore = load ptr, ptr %operand_at
  br label %try
try:
  %failed = call i32 %callee(ptr %semaphore)
  %interrupted = icmp ne i32 %failed, 0
  br i1 %interrupted, label %try, label %done
done:
  ret void
}
define internal i64 @word(ptr %words, i64 %index) {
  %at = getelementptr i64, ptr %words, i64 %index
  %found = load i64, ptr %at
  ret i64 %found
}
define void @help(ptr %words) {
  br label %again
again:
  call void @call_with(ptr %words, i64 6, i64 4)
  %address = call i64 @word(ptr %words, i64 0)
  %none = icmp eq i64 %address, 0
  br i1 %none, label %done, label %work
work:
  %job = inttoptr i64 %address to ptr
  %phase = call i64 @word(ptr %words, i64 1)
  %number = call i64 @word(ptr %words, i64 2)
  %threads = call i64 @word(ptr %words, i64 3)
  call void @part(ptr %job, i64 %phase, i64 %number, i64 %threads)
  call void @call_with(ptr %words, i64 7, i64 5)
  br label %again
done:
  ret void
}
define void @lead(ptr %helpers, i64 %threads, ptr %job, i64 %phase) {
  br label %start
start:
  %i = phi i64 [1, %0], [%i2, %post]
  %waking = icmp slt i64 %i, %threads
  br i1 %waking, label %post, label %work
post:
  %at = getelementptr ptr, ptr %helpers, i64 %i
  %helper = load ptr, ptr %at
  call void @call_with(ptr %helper, i64 7, i64 4)
  %i2 = add i64 %i, 1
  br label %start
work:
  call void @part(ptr %job, i64 %phase, i64 0, i64 %threads)
  br label %wait
wait:
  %j = phi i64 [1, %work], [%j2, %waited]
  %waiting = icmp slt i64 %j, %threads
  br i1 %waiting, label %waited, label %done
waited:
  %at2 = getelementptr ptr, ptr %helpers, i64 %j
  %helper2 = load ptr, ptr %at2
  call void @call_with(ptr %helper2, i64 6, i64 5)
  %j2 = add i64 %j, 1
  br label %wait
done:
  ret void
}
"""


#: Pools with threads. These never end, and need their code and semaphores.
_alive: list[OwnThreads] = []


class OwnThreads:
    """Thread pool for processes without libgomp.

    Each thread sleeps on a semaphore of the C library, inside one call that never returns. It holds
    no Python objects or locks.
    """

    name = "own threads"
    header: tuple[int, ...] = ()

    def __init__(self) -> None:
        c = ctypes.CDLL(None)
        self._init = c.sem_init
        self._init.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint]
        self._semaphore_functions = _addresses(c.sem_wait, c.sem_post)
        self._code = _load(_OWN)
        ptr, i64 = ctypes.c_void_p, ctypes.c_int64
        self._help = ctypes.CFUNCTYPE(None, ptr)(self._code.address("help"))
        self._lead = ctypes.CFUNCTYPE(None, ptr, i64, ptr, i64)(self._code.address("lead"))
        self._busy = threading.Lock()
        self._helpers: list[Any] = [None]  # number 0 is the calling thread
        self._listed: Any = None
        self._semaphores: list[Any] = []
        self._semaphore()  # raises if the platform has none

    def run(self, job: int, workers: int) -> None:
        """Run the job on ``workers`` threads; serially while another thread's job uses the pool."""
        free = self._busy.acquire(blocking=False)
        try:
            threads = workers if free else 1
            self._grow(threads)
            arguments = ctypes.c_int64.from_address(job + 16)
            for phase in (0, 1) if arguments.value else (0,):
                for number in range(1, threads):
                    self._helpers[number][:4] = [job, phase, number, threads]
                self._lead(self._listed, threads, job, phase)
        finally:
            if free:
                self._busy.release()

    def _semaphore(self) -> int:
        memory = ctypes.create_string_buffer(64)
        if self._init(ctypes.addressof(memory), 0, 0):
            raise OSError("the C library has no unnamed semaphores")
        self._semaphores.append(memory)
        return ctypes.addressof(memory)

    def _grow(self, threads: int) -> None:
        if len(self._helpers) >= threads:
            return
        if self not in _alive:
            _alive.append(self)
        while len(self._helpers) < threads:
            pair = self._semaphore(), self._semaphore()
            helper = (ctypes.c_int64 * 8)(0, 0, 0, 0, *pair, *self._semaphore_functions)
            self._helpers.append(helper)
            threading.Thread(
                target=self._help, args=(ctypes.addressof(helper),), daemon=True, name="fl kernel"
            ).start()
        addresses = [0, *(ctypes.addressof(helper) for helper in self._helpers[1:])]
        self._listed = (ctypes.c_int64 * len(addresses))(*addresses)
