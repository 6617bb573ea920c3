"""ctypes binding of oneDNN's C interface: functions, owned handles, status codes as errors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from fl_jit.kernels import KernelLibraryError, UnsupportedError
from onednn_kernels.shared_library import Library

_POINTER, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int, ctypes.c_float
_SIZE, _LONG, _CHAR = ctypes.c_size_t, ctypes.c_int64, ctypes.c_char
_DIMS = _LONG * 12

#: Argument types of the functions. They return a status, except those in _RETURNS.
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "dnnl_engine_create": (_POINTER, _INT, _SIZE),
    "dnnl_stream_create": (_POINTER, _POINTER, _INT),
    "dnnl_stream_destroy": (_POINTER,),
    "dnnl_memory_create": (_POINTER, _POINTER, _POINTER, _POINTER),
    "dnnl_memory_destroy": (_POINTER,),
    "dnnl_memory_set_data_handle": (_POINTER, _POINTER),
    "dnnl_memory_desc_create_with_strides": (_POINTER, _INT, _DIMS, _INT, _DIMS),
    "dnnl_memory_desc_create_with_tag": (_POINTER, _INT, _DIMS, _INT, _INT),
    "dnnl_memory_desc_clone": (_POINTER, _POINTER),
    "dnnl_memory_desc_destroy": (_POINTER,),
    "dnnl_memory_desc_equal": (_POINTER, _POINTER),
    "dnnl_memory_desc_get_size": (_POINTER,),
    "dnnl_primitive_attr_create": (_POINTER,),
    "dnnl_primitive_attr_destroy": (_POINTER,),
    "dnnl_primitive_attr_set_scratchpad_mode": (_POINTER, _INT),
    "dnnl_primitive_attr_set_post_ops": (_POINTER, _POINTER),
    "dnnl_post_ops_create": (_POINTER,),
    "dnnl_post_ops_destroy": (_POINTER,),
    "dnnl_post_ops_append_sum": (_POINTER, _FLOAT, ctypes.c_int32, _INT),
    "dnnl_primitive_desc_destroy": (_POINTER,),
    "dnnl_primitive_desc_query": (_POINTER, _INT, _INT, _POINTER),
    "dnnl_primitive_desc_query_md": (_POINTER, _INT, _INT),
    "dnnl_primitive_create": (_POINTER, _POINTER),
    "dnnl_primitive_destroy": (_POINTER,),
    "dnnl_primitive_execute": (_POINTER, _POINTER, _INT, _POINTER),
    "dnnl_reorder_primitive_desc_create": (_POINTER,) * 6,
    "dnnl_matmul_primitive_desc_create": (_POINTER,) * 7,
    "dnnl_convolution_forward_primitive_desc_create": (
        *(_POINTER, _POINTER, _INT, _INT, _POINTER, _POINTER, _POINTER, _POINTER),
        *(_DIMS, _DIMS, _DIMS, _DIMS, _POINTER),
    ),
    "dnnl_convolution_backward_data_primitive_desc_create": (
        *(_POINTER, _POINTER, _INT, _POINTER, _POINTER, _POINTER),
        *(_DIMS, _DIMS, _DIMS, _DIMS, _POINTER, _POINTER),
    ),
    "dnnl_convolution_backward_weights_primitive_desc_create": (
        *(_POINTER, _POINTER, _INT, _POINTER, _POINTER, _POINTER, _POINTER),
        *(_DIMS, _DIMS, _DIMS, _DIMS, _POINTER, _POINTER),
    ),
    "dnnl_sgemm": (
        *(_CHAR, _CHAR, _LONG, _LONG, _LONG, _FLOAT, _POINTER, _LONG),
        *(_POINTER, _LONG, _FLOAT, _POINTER, _LONG),
    ),
    "dnnl_get_effective_cpu_isa": (),
}
_RETURNS: dict[str, Any] = {
    "dnnl_memory_desc_get_size": _SIZE,
    "dnnl_primitive_desc_query_md": _POINTER,
}
_STATUS = {
    1: "out of memory",
    2: "invalid arguments",
    3: "unimplemented",
    4: "no more implementations",
    5: "an error at run time",
    6: "not required",
}
_INVALID, _UNIMPLEMENTED = 2, 3


class Handle:
    """An owned object of the library, destroyed with this one. ctypes passes it as its address."""

    __slots__ = ("_as_parameter_", "_destroy")

    def __init__(self, address: int, destroy: Callable[[int], object]) -> None:
        self._as_parameter_ = address
        self._destroy = destroy

    @property
    def address(self) -> int:
        return self._as_parameter_

    def __del__(self) -> None:
        self._destroy(self._as_parameter_)


class Binding:
    """The library's functions.

    Functions of ``c`` release the interpreter lock while they run. Those of ``brief`` do not, which
    is cheaper for calls of less than a microsecond.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.c = library.c
        self.brief = ctypes.PyDLL(library.path)
        for handle in (self.c, self.brief):
            for name, arguments in _ARGUMENTS.items():
                function = getattr(handle, name)
                function.argtypes = arguments
                function.restype = _RETURNS.get(name, ctypes.c_int)
        # From the OpenMP that the library uses. The process may contain another one (PyTorch's).
        self._set_threads = getattr(self.brief, "omp_set_num_threads", None)
        self._get_threads = getattr(self.brief, "omp_get_max_threads", lambda: 0)
        if self._set_threads is not None:
            self._set_threads.argtypes = [ctypes.c_int]
            self._set_threads.restype = None
        self.engine = self._engine()

    def _engine(self) -> int:
        # One engine per process, never destroyed.
        place = _POINTER()
        self.check("dnnl_engine_create", self.c.dnnl_engine_create(ctypes.byref(place), 1, 0))
        return place.value or 0

    def call(self, name: str, *arguments: Any) -> None:
        """Call ``name``; raises like ``check``."""
        self.check(name, getattr(self.c, name)(*arguments))

    def create(self, name: str, *arguments: Any, destroy: str) -> Handle:
        """Call ``name``, whose first argument receives the new object, and own that object."""
        place = _POINTER()
        self.call(name, ctypes.byref(place), *arguments)
        return Handle(place.value or 0, getattr(self.brief, destroy))

    def check(self, name: str, status: int) -> None:
        """Raise the error for ``status``, returned by the function ``name``; 0 is success.

        UnsupportedError for unimplemented operations, and for descriptors that the library rejects
        (it reports its limits as "invalid"). Otherwise KernelLibraryError.
        """
        if status:
            meaning = _STATUS.get(status, f"status {status}")
            refused = status == _INVALID and name.endswith("_desc_create")
            error = UnsupportedError if refused or status == _UNIMPLEMENTED else KernelLibraryError
            raise error(f"[{name}] oneDNN {self.library.version}: {meaning}")

    def use_threads(self, count: int) -> None:
        """Set the number of threads for this thread's next calls, if the runtime is OpenMP."""
        if self._set_threads is not None:
            self._set_threads(count)

    def used_threads(self) -> int:
        """The number of threads of this thread's calls; 0 if OpenMP does not determine it."""
        return int(self._get_threads())


def dims(values: Sequence[int]) -> Any:
    """``values`` as a dimension array of the library."""
    return _DIMS(*values)
