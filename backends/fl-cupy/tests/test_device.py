"""What only a GPU shows: device memory, streams, NCCL, exchange with PyTorch, a training."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import pytest

from cupy_imitation import ON_DEVICE, CupyBackend

if not ON_DEVICE:
    pytest.skip("no CUDA device", allow_module_level=True)

import cupy

import fl_memory as mem
import fl_tensor as ft
from fl_cupy import CudaMemory
from fl_memory import DeviceMemory
from fl_memory.managers.caching import CachingManager
from fl_memory.testing import DeviceMemorySuite

MIB = 1 << 20
#: cudaMemcpyDefault: the addresses say which memory they are of.
_BY_ADDRESS = 4


class TestCudaMemory(DeviceMemorySuite):
    memory = CudaMemory

    def write(self, memory: DeviceMemory, address: int, data: bytes) -> None:
        source = ctypes.create_string_buffer(data, len(data) or 1)
        cupy.cuda.runtime.memcpy(address, ctypes.addressof(source), len(data), _BY_ADDRESS)

    def read(self, memory: DeviceMemory, address: int, nbytes: int) -> bytes:
        target = ctypes.create_string_buffer(nbytes or 1)
        cupy.cuda.runtime.memcpy(ctypes.addressof(target), address, nbytes, _BY_ADDRESS)
        return target.raw[:nbytes]


class TestPinnedHostMemory(DeviceMemorySuite):
    memory = CudaMemory

    def make(self, limit: int | None = None) -> DeviceMemory:
        if limit is not None:
            pytest.skip("no limit of its own")
        return CudaMemory().pinned_host_memory()


def busy(stream: Any) -> None:
    """Put some tenths of a second of work on a stream."""
    with stream:
        x = cupy.ones((4096, 4096), "float64")
        for _ in range(64):
            cupy.matmul(x, x, out=x)


def test_memory_of_a_busy_stream_is_not_given_away() -> None:
    manager = CachingManager(CudaMemory())
    copy = cupy.cuda.Stream(non_blocking=True)
    block = manager.alloc(3 * MIB, device="cuda:0")
    address = block.address
    busy(copy)
    manager.record_stream(block, copy)
    block.free()
    other = manager.alloc(3 * MIB, device="cuda:0")
    assert other.address != address
    copy.synchronize()
    manager.stats("cuda:0")
    again = manager.alloc(3 * MIB, device="cuda:0")
    assert again.address == address
    del other, again
    manager.release_cached()


def test_an_exhausted_device_is_an_error_with_figures() -> None:
    with pytest.raises(mem.OutOfMemoryError, match="on cuda:0.*capacity"):
        CudaMemory().allocate(1 << 50, 64)
    address = CudaMemory().allocate(100, 64)  # the runtime goes on
    CudaMemory().release(address, 100)


def test_operations_go_to_the_current_stream() -> None:
    backend = ft.get_backend(CupyBackend)
    x = ft.ones((256, 256), backend=backend)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        assert x.backend.stream(x.device) == stream
        busy(stream)  # kernels are loaded
        assert (x @ x).sum().item() == 256.0**3
        busy(stream)
        y = x @ x
        assert not ft.is_ready(y)
        assert y.sum().item() == 256.0**3
        assert ft.is_ready(y)


def test_values_of_threads_and_streams_are_their_own() -> None:
    from concurrent.futures import ThreadPoolExecutor

    backend = ft.get_backend(CupyBackend)

    def work(seed: int) -> float:
        with cupy.cuda.Stream(non_blocking=True), ft.use(backend):
            x = ft.full((1000, 1000), float(seed))
            for _ in range(50):
                x = x + 1.0
            return (x - seed).mean().item()

    with mem.use("caching"), ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(32))) == [50.0] * 32


def test_pytorch_shares_the_memory() -> None:
    torch = pytest.importorskip("torch")
    backend = ft.get_backend(CupyBackend)
    x = ft.arange(6, backend=backend).reshape(2, 3)
    theirs = torch.from_dlpack(x)
    assert theirs.is_cuda and theirs.tolist() == x.tolist()
    assert theirs.data_ptr() == x.adapter.array.data.ptr
    ours = ft.from_dlpack(theirs, backend=backend)
    assert ours.adapter.array.data.ptr == theirs.data_ptr()
    assert (ours + 1).tolist() == [[1, 2, 3], [4, 5, 6]]
    host = ft.from_dlpack(torch.ones(3), backend=backend)
    assert str(host.device) == "cuda:0" and host.tolist() == [1.0, 1.0, 1.0]


def test_digits_train_as_on_the_reference_backend(tmp_path: Path) -> None:
    cli = pytest.importorskip("fl_vision.cli")
    pytest.importorskip("sklearn")

    def losses(backend: str) -> list[float]:
        out = tmp_path / backend
        options = ["--epochs", "1", "--backend", backend, "--out", str(out), "--quiet"]
        assert cli.main(["train", "--dataset", "digits", *options]) == 0
        log = map(json.loads, (out / "log.jsonl").read_text().splitlines())
        return [record["loss"] for record in log if record["event"] == "step"][:20]

    ours, theirs = losses("cupy"), losses("numpy")
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < 1e-4


# ---- NCCL: a communicator of one rank, which is all that one device allows


def alone(comm: Any) -> dict[str, Any]:
    """Every call of NCCL. Of one rank they return what they are given."""
    backend = ft.get_backend(CupyBackend)
    found: dict[str, Any] = {}
    with ft.use(backend):
        x = ft.arange(6).reshape(3, 2)
        for dtype in ("float32", "float64", "float16", "int8", "int32", "int64", "uint8"):
            for op in ("sum", "mean", "max", "min", "prod"):
                if op == "mean" and not dtype.startswith("float"):
                    continue
                total = comm.all_reduce(x.astype(ft.dtype(dtype)), op)
                found[f"{dtype} {op}"] = (str(total.dtype), str(total.device), total.tolist())
        found["reduce"] = comm.reduce(x, "sum", 0).tolist()
        found["broadcast"] = comm.broadcast(x, 0).tolist()
        found["all_gather"] = [each.tolist() for each in comm.all_gather(x)]
        found["all_gather_tensor"] = comm.all_gather_tensor(x).tolist()
        found["reduce_scatter"] = comm.reduce_scatter([x]).tolist()
        found["reduce_scatter_tensor"] = comm.reduce_scatter_tensor(x, counts=[3]).tolist()
        work = comm.all_reduce(x, async_op=True)
        work.wait()
        found["asynchronous"] = work.synchronize().tolist()
        found["many"] = [each.tolist() for each in comm.all_reduce_many([x, x + 1])]
    return found


def test_nccl_of_one_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fl_dist")
    from fl_cupy.nccl import NcclCommunicator
    from fl_dist import RankInfo

    # Of one rank nothing would be sent: here NCCL is asked all the same.
    monkeypatch.setattr(NcclCommunicator, "_is_here", lambda self, x: x.device.kind == "cuda")
    comm = NcclCommunicator.join(RankInfo(0, 1, 0, 1, store=f"file:{tmp_path}"), timeout=60.0)
    found = alone(comm)
    comm.close()
    want = [[0, 1], [2, 3], [4, 5]]
    for name, value in found.items():
        if " " in name:
            assert value == (name.split()[0], "cuda:0", want), name
    assert found["all_gather"] == [want]
    assert found["many"] == [want, [[1, 2], [3, 4], [5, 6]]]
    for name in ("reduce", "broadcast", "all_gather_tensor", "reduce_scatter", "asynchronous"):
        assert found[name] == want, name
    assert found["reduce_scatter_tensor"] == want
