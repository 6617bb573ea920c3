"""An imitation of CuPy for the operations on tensors: NumPy in its place, arrays of the host.

It shows that the backend calls the right functions with the right arguments. What CuPy and the
device make of them only a GPU shows: where there is one, ``CupyBackend`` runs on CuPy itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from fl_tensor import complex64, dtype, float16, get_backend
from fl_tensor.dtypes import REQUIRED


class Function:
    """A function of NumPy that returns arrays only, as CuPy's do."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        if hasattr(function, "at"):
            self.at = function.at

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        found = self.function(*arguments, **options)
        return np.asarray(found) if isinstance(found, np.generic) else found


class Module(ModuleType):
    """``cupy``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(np, name)
        is_function = callable(found) and not isinstance(found, type)
        return Function(found) if is_function else found


class PhiloxKernel:
    """The one kernel in CUDA C++ is replaced by the words of backend ``numpy``."""

    def __init__(self, inputs: str, outputs: str, body: str, name: str) -> None:
        assert name == "fl_cupy_philox"

    def __call__(self, seed: Any, offset: Any, words: Any) -> None:
        numpy = get_backend("numpy")
        made = numpy.random_bits(int(seed), int(offset), words.shape, numpy.devices()[0])
        words[...] = np.frombuffer(numpy.to_host(made), words.dtype).reshape(words.shape)


def using_allocator(allocator: Callable[[int], Any]) -> AbstractContextManager[Any]:
    """Within it, operations give NaN and infinities without a warning, as on a device."""
    return np.errstate(all="ignore")


def imitation() -> tuple[Module, ModuleType, ModuleType]:
    """``cupy``, ``cupyx`` and ``cupyx.scipy``."""
    module, extended, science = Module("cupy"), ModuleType("cupyx"), ModuleType("cupyx.scipy")
    contents: dict[str, Any] = {
        "ElementwiseKernel": PhiloxKernel,
        "array": lambda host, blocking: np.array(host),
        "asnumpy": lambda array, order: np.array(array, order=order),
        "cuda": SimpleNamespace(
            Device=lambda index: Device(),
            get_current_stream=lambda device=-1: SimpleNamespace(ptr=0, done=True),
            runtime=SimpleNamespace(
                CUDARuntimeError=CUDARuntimeError,
                getDeviceCount=lambda: 1,
            ),
            using_allocator=using_allocator,
        ),
    }
    vars(module).update(contents)
    numpy = get_backend("numpy")

    def erf(array: Any) -> Any:
        data = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        (device,) = numpy.devices()
        x = numpy.from_host(data, array.shape, dtype(array.dtype), device)
        found = np.frombuffer(numpy.to_host(numpy.erf(x)), array.dtype)
        return found.reshape(array.shape)

    vars(science)["special"] = SimpleNamespace(erf=erf)
    vars(extended).update(scipy=science, errstate=lambda linalg: nullcontext())
    return module, extended, science


class Device:
    """``cupy.cuda.Device``."""

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def synchronize(self) -> None:
        pass


class CUDARuntimeError(RuntimeError):
    """``cupy.cuda.runtime.CUDARuntimeError``."""


def _has_device() -> bool:
    try:
        import cupy

        return bool(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # no CuPy, or no driver
        return False


#: Whether the tests run on a GPU.
ON_DEVICE = _has_device()

if ON_DEVICE:
    from fl_cupy.tensors import CupyBackend
else:
    names = ("cupy", "cupyx", "cupyx.scipy")
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update(zip(names, imitation()))
    from fl_cupy.tensors import CupyBackend as _CupyBackend

    for name, module in before.items():
        del sys.modules[name]
        if module is not None:
            sys.modules[name] = module

    class CupyBackend(_CupyBackend):  # type: ignore[no-redef]
        """NumPy allocates, so there are no blocks. A sample of the dtypes: a device tests all."""

        CONTRACT = (1, 1)
        capabilities = _CupyBackend.capabilities - {"memory"}
        dtypes = REQUIRED | {float16, complex64}


__all__ = ["ON_DEVICE", "CupyBackend"]
