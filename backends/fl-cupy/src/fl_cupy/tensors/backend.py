"""``CupyBackend``: eager operations on CUDA devices, through CuPy."""

from __future__ import annotations

from typing import Any, ClassVar

import cupy
import numpy as np

from fl_cupy.tensors.adapter import FROM_CUPY, TO_CUPY, CupyAdapter, cuda_device
from fl_cupy.tensors.capabilities import Capabilities
from fl_cupy.tensors.elementwise import Elementwise
from fl_cupy.tensors.placement import on_device
from fl_cupy.tensors.products import Products
from fl_cupy.tensors.random_bits import philox
from fl_cupy.tensors.reductions import Reductions
from fl_cupy.tensors.shape_ops import ShapeOps
from fl_tensor import Device, rules
from fl_tensor.dtypes import DType, uint64
from fl_tensor.errors import BackendError

__all__ = ["CupyBackend"]

Value = CupyAdapter
Shape = tuple[int, ...]
#: What DLPack calls a CUDA device, and the host.
_DLPACK_CUDA, _DLPACK_HOST = 2, 1
_MODULUS = 1 << 64
_MOST_SCALARS = 4096


class CupyBackend(Elementwise, Reductions, ShapeOps, Products, Capabilities):
    """Work goes to CuPy's current stream of the calling thread. Results of at least ``small_bytes``
    lie in blocks of the memory manager, smaller ones in CuPy's pool."""

    CONTRACT = (1, 1)
    name = "cupy"
    dtypes: ClassVar[frozenset[DType]] = frozenset(TO_CUPY)
    capabilities = frozenset({"complex", "fft", "linalg", "memory"})
    checks_shapes = True
    max_ndim = 32  # of arguments of CuPy's kernels

    def __init__(self) -> None:
        self._devices: list[Device] = []
        self._scalars: dict[Any, Any] = {}

    def devices(self) -> list[Device]:
        """Raises BackendError where there is none."""
        if not self._devices:
            try:
                count = cupy.cuda.runtime.getDeviceCount()
            except cupy.cuda.runtime.CUDARuntimeError as error:
                raise BackendError(
                    f"backend 'cupy' finds no CUDA device: {error}; is a driver installed that "
                    "fits CuPy's CUDA?"
                ) from error
            self._devices = [cuda_device(index) for index in range(count)]
        return self._devices

    def synchronize(self, device: Device) -> None:
        cupy.cuda.Device(device.index).synchronize()

    def stream(self, device: Device) -> Any:
        """CuPy's current stream."""
        with cupy.cuda.Device(device.index):
            return cupy.cuda.get_current_stream()

    def is_ready(self, x: Value) -> bool:
        return bool(self.stream(x.device).done)

    def scalar(self, value: Any, dtype: DType, device: Device) -> Value:
        """A 0-d value, made once for each stream: another stream would not wait for it."""
        stream = cupy.cuda.get_current_stream(device.index).ptr
        key = (value or repr(value), type(value), dtype, device, stream)
        found = self._scalars.get(key)
        if found is None:
            if len(self._scalars) > _MOST_SCALARS:
                self._scalars.clear()
            found = self._scalars[key] = self.full((), value, dtype, device)
        return found

    # creation and transfer

    @on_device
    def full(self, shape: Shape, value: Any, dtype: DType, device: Device) -> Value:
        return Value(cupy.full(shape, value, TO_CUPY[dtype]), device)

    @on_device
    def arange(self, start: Any, stop: Any, step: Any, dtype: DType, device: Device) -> Value:
        count = rules.arange(start, stop, step, dtype, device).shape[0]
        if isinstance(start, int) and isinstance(step, int):  # modulo 2^64
            places = cupy.arange(count, dtype="uint64")
            found = places * cupy.uint64(step % _MODULUS) + cupy.uint64(start % _MODULUS)
            found = found if dtype is uint64 else found.view("int64")
        else:
            found = cupy.arange(count, dtype="float64") * step + start
        return Value(found.astype(TO_CUPY[dtype], copy=False), device)

    @on_device
    def from_host(
        self, data: memoryview, shape: Shape, dtype: DType, device: Device, blocking: bool = True
    ) -> Value:
        host = np.frombuffer(data, TO_CUPY[dtype]).reshape(shape)
        return Value(cupy.array(host, blocking=blocking), device)

    @on_device
    def to_host(self, x: Value, blocking: bool = True) -> memoryview:
        array = cupy.asnumpy(x.array, order="C")
        if not array.size:
            return memoryview(b"")
        return memoryview(array.reshape(-1).view(np.uint8)).toreadonly()

    @on_device
    def random_bits(self, seed: int, offset: int, shape: Shape, device: Device) -> Value:
        return Value(philox(seed, offset, shape), device)

    # DLPack

    def dlpack_device(self, x: Value) -> tuple[int, int]:
        return (_DLPACK_CUDA, x.device.index)

    @on_device
    def to_dlpack(
        self, x: Value, stream: Any = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:  # fmt: skip
        """As inherited, but for the flag: CuPy's capsules cannot be flagged read-only."""
        if dl_device is not None and int(dl_device[0]) == _DLPACK_HOST:
            if copy is False:
                raise BufferError(f"DLPack: a tensor on {x.device} is copied to reach the host")
            return super().to_dlpack(x, stream, max_version, dl_device, copy)
        return x.array.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    @on_device
    def from_dlpack(self, source: Any, device: Device) -> Value | None:
        kind, index = source.__dlpack_device__()
        if (int(kind), int(index)) != (_DLPACK_CUDA, device.index):
            return None
        try:
            array = cupy.from_dlpack(source)
        except (BufferError, RuntimeError, TypeError, ValueError):  # a dtype that CuPy lacks
            return None
        return Value(array, device) if array.dtype in FROM_CUPY else None
