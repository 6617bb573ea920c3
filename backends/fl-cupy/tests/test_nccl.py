"""``nccl`` over an imitation of CuPy and NCCL: a rank is a thread with tensors on ``cuda:RANK``."""

from __future__ import annotations

import contextvars
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fl_tensor as ft
import nccl_imitation
from fl_cupy.nccl import NcclCommunicator
from fl_cupy.streams import StreamWork
from fl_dist import Communicator, DistError, DistTimeoutError, PeerError, RankInfo, launch
from fl_dist.errors import one_line
from fl_dist.testing import CommunicatorSuite
from fl_tensor.backends.delegate import DelegatingAdapter, DelegatingBackend

_rank: contextvars.ContextVar[int] = contextvars.ContextVar("rank", default=0)


class CudaOnHost(DelegatingBackend):
    """A backend with CUDA devices, as far as a communicator sees it: work is queued on a stream per
    device, and reading a value waits for that stream."""

    CONTRACT = (1, 1)
    name = "cuda-on-host"

    def __init__(self) -> None:
        self.dtypes = self.lender.dtypes  # type: ignore[misc]
        self._streams = [nccl_imitation.Stream() for _ in range(nccl_imitation.DEVICES)]

    def devices(self) -> list[ft.Device]:
        count = nccl_imitation.DEVICES
        return [ft.Device("cuda", (_rank.get() + i) % count) for i in range(count)]

    def stream(self, device: ft.Device) -> Any:
        return self._streams[device.index]

    def evaluate(self, values: Any) -> None:
        """Its operations are launched when they are called."""

    def lend(self, x: Any) -> Any:
        self._streams[x.device.index].synchronize()
        return x.inner

    def to_dlpack(self, x: Any, *arguments: Any, **options: Any) -> Any:
        return self.lender.to_dlpack(x.inner)

    def from_dlpack(self, source: Any, device: ft.Device) -> Any:
        host = getattr(source, "host", source)
        return DelegatingAdapter(ft.from_dlpack(host, backend="numpy").adapter, device)


class ImitatedNccl(NcclCommunicator):
    """Ranks in threads that join by files, as processes would."""

    CONTRACT = (1, 0)

    @classmethod
    def run(
        cls, world_size: int, fn: Callable[..., Any], *args: Any, timeout: float | None = None
    ) -> list[Any]:
        launch.check(cls, world_size, timeout)
        folder = tempfile.mkdtemp(prefix="fl_dist-")
        joined: dict[int, Communicator] = {}

        def body(rank: int) -> Any:
            _rank.set(rank)
            info = RankInfo(rank, world_size, rank, world_size, store=f"file:{folder}")
            comm = joined[rank] = cls.join(info, timeout=30.0)
            comm.timeout = timeout or cls.timeout
            result = fn(comm, *args)
            comm.close()
            return result

        def failed(rank: int, error: BaseException) -> None:
            for r in [rank] if rank >= 0 else list(joined):
                if r in joined:
                    joined[r].abort(one_line(error))

        try:
            return launch.in_threads(world_size, body, failed)
        finally:
            shutil.rmtree(folder)


@pytest.fixture(autouse=True, scope="module")
def imitated() -> Iterator[None]:
    before = sys.modules.get("cupy"), sys.modules.get("cupy.cuda")
    module = nccl_imitation.imitation()
    sys.modules["cupy"], sys.modules["cupy.cuda"] = module, module.cuda
    yield
    for name, old in zip(("cupy", "cupy.cuda"), before):
        del sys.modules[name]
        if old is not None:
            sys.modules[name] = old


@pytest.fixture(autouse=True)
def on_device() -> Iterator[None]:
    with ft.use(CudaOnHost()):
        yield
    nccl_imitation.pool.clear()


class TestNccl(CommunicatorSuite):
    communicator = ImitatedNccl
    outside_store = ""


def operand(comm: Communicator, count: int = 6, dtype: str = "float32") -> ft.Tensor:
    assert str(ft.zeros(1).device) == f"cuda:{comm.rank}"
    return (ft.arange(count) + comm.rank).astype(ft.dtype(dtype))


def flat_forms(comm: Communicator, counts: list[int]) -> tuple[Any, ...]:
    x = ft.reshape(operand(comm, 2 * sum(counts)), (sum(counts), 2))
    mine = ft.ones((counts[comm.rank], 2)) * float(comm.rank)
    gathered = comm.all_gather_tensor(mine)
    share = comm.reduce_scatter_tensor(x, counts=counts)
    assert str(gathered.device) == str(share.device) == f"cuda:{comm.rank}"
    return gathered.tolist(), share.tolist()


@pytest.mark.parametrize("counts", [[2, 2], [3, 1], [0, 2], [1, 2, 4]])
def test_flat_forms_with_even_and_uneven_shares(counts: list[int]) -> None:
    n = len(counts)
    total = sum(np.arange(2 * sum(counts)).reshape(-1, 2) + float(r) for r in range(n))
    shares = np.split(total, np.cumsum(counts)[:-1])
    for rank, (gathered, share) in enumerate(ImitatedNccl.run(n, flat_forms, counts)):
        assert gathered == [[float(r)] * 2 for r, count in enumerate(counts) for _ in range(count)]
        assert share == shares[rank].tolist()


def sum_of_ranks(comm: Communicator, dtype: str) -> tuple[Any, str]:
    y = comm.all_reduce(operand(comm, 4, dtype), "sum")
    return y.tolist(), str(y.dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "int16", "uint64"])
def test_every_kind_of_dtype(dtype: str) -> None:
    assert ImitatedNccl.run(2, sum_of_ranks, dtype) == [([1, 3, 5, 7], dtype)] * 2


def float16_sum(comm: Communicator) -> Any:
    return comm.all_reduce(
        ft.asarray([2048.0, 1.0, 1.0][comm.rank : comm.rank + 1]).astype("float16")
    ).tolist()


def test_half_precision_is_summed_in_float32() -> None:
    """2048 + 1 is 2048 in float16; 2048 + (1 + 1) in float32 is 2050."""
    assert ImitatedNccl.run(3, float16_sum) == [[2050.0]] * 3


def overlapped(comm: Communicator) -> tuple[bool, bool, Any]:
    """The stream of the caller is busy: the call returns, and waits in the stream."""
    x = operand(comm)
    gate = threading.Event()
    stream = x.backend.stream(x.device)
    stream.put(lambda: gate.wait(10.0) or None)
    work = comm.all_reduce(x, async_op=True)
    assert isinstance(work, StreamWork)
    work.wait()  # does not block the host
    before = comm._watchdog._under_way != []
    threading.Timer(0.1, gate.set).start()
    started = time.monotonic()
    y = work.synchronize()
    return before, time.monotonic() - started > 0.05, y.tolist()


def test_work_is_ordered_by_streams_and_synchronize_blocks() -> None:
    want = [2.0 * i + 1.0 for i in range(6)]
    assert ImitatedNccl.run(2, overlapped) == [(True, True, want)] * 2


def stuck(comm: Communicator) -> str:
    """Rank 1 never calls NCCL: the kernel of rank 0 would run for ever."""
    comm.check_consistency = False
    if comm.rank == 0:
        work = comm.all_reduce(operand(comm), async_op=True, timeout=0.3)
        with pytest.raises(DistTimeoutError, match="all_reduce"):
            work.synchronize()
        with pytest.raises(DistError, match="cannot go on"):
            comm.barrier()
        comm.abort("it was stuck")
        return "given up"
    with pytest.raises(PeerError):
        comm.recv(0)
    return "told"


def test_the_watchdog_aborts_what_takes_too_long() -> None:
    assert ImitatedNccl.run(2, stuck) == ["given up", "told"]


def foreign(comm: Communicator) -> Any:
    x = operand(comm).to("cuda:3")
    y = comm.all_reduce(x)
    return str(y.device), y.tolist()


def test_tensors_of_another_device_are_moved_and_brought_back() -> None:
    want = [2.0 * i + 1.0 for i in range(6)]
    assert ImitatedNccl.run(2, foreign) == [("cuda:3", want)] * 2


def test_more_ranks_than_devices_are_refused() -> None:
    with pytest.raises(Exception, match="one rank per device"):
        NcclCommunicator.join(RankInfo(4, 5, 4, 5, store="file:/nowhere"))


def test_without_cupy_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DistError, match=r"fl-cupy\[cuda12,nccl\]"):
        NcclCommunicator.join(RankInfo(0, 2, 0, 2, store="file:/nowhere"))
