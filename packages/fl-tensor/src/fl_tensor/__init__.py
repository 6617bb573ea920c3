"""Tensors over replaceable backends.

    import fl_tensor as ft

    x = ft.asarray([[1.0, 2.0], [3.0, 4.0]])
    (x @ x + 1).sum(axis=0)
    with ft.override(add=my_add):      # every addition, wherever it is
        ...

Functions work on any array: tensors, and what other packages derive from ``Array``. Importing this
package loads no array library; a backend is loaded when the first tensor is made.
"""

from typing import TYPE_CHECKING

from fl_tensor._version import __version__ as __version__
from fl_tensor.arrays.array import Array as Array
from fl_tensor.arrays.tensor import Tensor as Tensor
from fl_tensor.backend import TensorAdapter as TensorAdapter
from fl_tensor.backend import TensorBackend as TensorBackend
from fl_tensor.derived_ops import DerivedOps as DerivedOps
from fl_tensor.device import CPU as CPU
from fl_tensor.device import Device as Device
from fl_tensor.dispatch import causes as _causes  # noqa: F401 - registers itself
from fl_tensor.dispatch.registry import available_backends as available_backends
from fl_tensor.dispatch.registry import current_backend as current_backend
from fl_tensor.dispatch.registry import eval as eval
from fl_tensor.dispatch.registry import get_backend as get_backend
from fl_tensor.dispatch.registry import is_ready as is_ready
from fl_tensor.dispatch.registry import synchronize as synchronize
from fl_tensor.dispatch.registry import use as use
from fl_tensor.dispatch.stack import Operation as Operation
from fl_tensor.dispatch.stack import Wrapper as Wrapper
from fl_tensor.dispatch.stack import ops_for as ops_for
from fl_tensor.dispatch.stack import override as override
from fl_tensor.dtypes import DType as DType
from fl_tensor.dtypes import bfloat16 as bfloat16
from fl_tensor.dtypes import bool as bool
from fl_tensor.dtypes import complex64 as complex64
from fl_tensor.dtypes import complex128 as complex128
from fl_tensor.dtypes import dtype as dtype
from fl_tensor.dtypes import float16 as float16
from fl_tensor.dtypes import float32 as float32
from fl_tensor.dtypes import float64 as float64
from fl_tensor.dtypes import int8 as int8
from fl_tensor.dtypes import int16 as int16
from fl_tensor.dtypes import int32 as int32
from fl_tensor.dtypes import int64 as int64
from fl_tensor.dtypes import promote as promote
from fl_tensor.dtypes import uint8 as uint8
from fl_tensor.dtypes import uint16 as uint16
from fl_tensor.dtypes import uint32 as uint32
from fl_tensor.dtypes import uint64 as uint64
from fl_tensor.errors import ArgumentError as ArgumentError
from fl_tensor.errors import AxisError as AxisError
from fl_tensor.errors import BackendError as BackendError
from fl_tensor.errors import CapabilityError as CapabilityError
from fl_tensor.errors import CaptureError as CaptureError
from fl_tensor.errors import ChainedAssignmentWarning as ChainedAssignmentWarning
from fl_tensor.errors import DTypeError as DTypeError
from fl_tensor.errors import FileError as FileError
from fl_tensor.errors import FlError as FlError
from fl_tensor.errors import IndexingError as IndexingError
from fl_tensor.errors import KernelArithmeticError as KernelArithmeticError
from fl_tensor.errors import KernelCompilerWarning as KernelCompilerWarning
from fl_tensor.errors import KernelError as KernelError
from fl_tensor.errors import LinAlgError as LinAlgError
from fl_tensor.errors import MissingError as MissingError
from fl_tensor.errors import NonFiniteError as NonFiniteError
from fl_tensor.errors import ShapeError as ShapeError
from fl_tensor.functions import *  # noqa: F403 - generated, with an explicit __all__
from fl_tensor.functions.creation import arange as arange
from fl_tensor.functions.creation import asarray as asarray
from fl_tensor.functions.creation import empty as empty
from fl_tensor.functions.creation import empty_like as empty_like
from fl_tensor.functions.creation import from_dlpack as from_dlpack
from fl_tensor.functions.creation import frombytes as frombytes
from fl_tensor.functions.creation import full as full
from fl_tensor.functions.creation import full_like as full_like
from fl_tensor.functions.creation import ones as ones
from fl_tensor.functions.creation import ones_like as ones_like
from fl_tensor.functions.creation import zeros as zeros
from fl_tensor.functions.creation import zeros_like as zeros_like
from fl_tensor.functions.elementwise import angle as angle
from fl_tensor.functions.elementwise import cast as cast
from fl_tensor.functions.elementwise import conj as conj
from fl_tensor.functions.elementwise import imag as imag
from fl_tensor.functions.elementwise import positive as positive
from fl_tensor.functions.elementwise import real as real
from fl_tensor.functions.elementwise import round as round
from fl_tensor.functions.elementwise import where as where
from fl_tensor.functions.gathering import embedding as embedding
from fl_tensor.functions.gathering import gather as gather
from fl_tensor.functions.gathering import nonzero as nonzero
from fl_tensor.functions.gathering import one_hot as one_hot
from fl_tensor.functions.gathering import scatter as scatter
from fl_tensor.functions.gathering import take_along_axis as take_along_axis
from fl_tensor.functions.grids import eye as eye
from fl_tensor.functions.grids import geomspace as geomspace
from fl_tensor.functions.grids import linspace as linspace
from fl_tensor.functions.grids import logspace as logspace
from fl_tensor.functions.grids import meshgrid as meshgrid
from fl_tensor.functions.grids import tril_indices as tril_indices
from fl_tensor.functions.grids import triu_indices as triu_indices
from fl_tensor.functions.losses import cross_entropy as cross_entropy
from fl_tensor.functions.losses import nll_loss as nll_loss
from fl_tensor.functions.pooling import avg_pool as avg_pool
from fl_tensor.functions.pooling import avg_pool_gradient as avg_pool_gradient
from fl_tensor.functions.pooling import max_pool as max_pool
from fl_tensor.functions.pooling import max_pool_gradient as max_pool_gradient
from fl_tensor.functions.products import conv as conv
from fl_tensor.functions.products import conv_data_gradient as conv_data_gradient
from fl_tensor.functions.products import conv_weight_gradient as conv_weight_gradient
from fl_tensor.functions.products import cross as cross
from fl_tensor.functions.products import einsum as einsum
from fl_tensor.functions.products import matmul as matmul
from fl_tensor.functions.products import tensordot as tensordot
from fl_tensor.functions.products import vecdot as vecdot
from fl_tensor.functions.reducing import average as average
from fl_tensor.functions.reducing import cumulative_prod as cumulative_prod
from fl_tensor.functions.reducing import cumulative_sum as cumulative_sum
from fl_tensor.functions.reducing import diff as diff
from fl_tensor.functions.reducing import norm as norm
from fl_tensor.functions.reducing import prod as prod
from fl_tensor.functions.reducing import sum as sum
from fl_tensor.functions.searching import argmax as argmax
from fl_tensor.functions.searching import argmin as argmin
from fl_tensor.functions.searching import bincount as bincount
from fl_tensor.functions.searching import histogram as histogram
from fl_tensor.functions.searching import max_with_index as max_with_index
from fl_tensor.functions.searching import min_with_index as min_with_index
from fl_tensor.functions.searching import searchsorted as searchsorted
from fl_tensor.functions.searching import take as take
from fl_tensor.functions.sequence import attention as attention
from fl_tensor.functions.sequence import recurrent as recurrent
from fl_tensor.functions.shaping import broadcast_arrays as broadcast_arrays
from fl_tensor.functions.shaping import broadcast_shapes as broadcast_shapes
from fl_tensor.functions.shaping import expand_dims as expand_dims
from fl_tensor.functions.shaping import flip as flip
from fl_tensor.functions.shaping import moveaxis as moveaxis
from fl_tensor.functions.shaping import pad as pad
from fl_tensor.functions.shaping import permute as permute
from fl_tensor.functions.shaping import repeat as repeat
from fl_tensor.functions.shaping import reshape as reshape
from fl_tensor.functions.shaping import roll as roll
from fl_tensor.functions.shaping import split as split
from fl_tensor.functions.shaping import squeeze as squeeze
from fl_tensor.limits import finfo as finfo
from fl_tensor.limits import iinfo as iinfo
from fl_tensor.reproducible import reproducible as reproducible
from fl_tensor.threads import get_num_threads as get_num_threads
from fl_tensor.threads import set_num_threads as set_num_threads

if TYPE_CHECKING:
    from fl_tensor import fft as fft
    from fl_tensor import graph as graph
    from fl_tensor import linalg as linalg
    from fl_tensor import random as random
    from fl_tensor.dtype_setting import default_dtype as default_dtype
    from fl_tensor.dtype_setting import get_default_dtype as get_default_dtype
    from fl_tensor.dtype_setting import set_default_dtype as set_default_dtype
    from fl_tensor.functions.control import cond as cond
    from fl_tensor.functions.control import scan as scan
    from fl_tensor.functions.control import while_loop as while_loop
    from fl_tensor.functions.distances import cdist as cdist
    from fl_tensor.functions.quantiles import nanpercentile as nanpercentile
    from fl_tensor.functions.quantiles import nanquantile as nanquantile
    from fl_tensor.functions.quantiles import percentile as percentile
    from fl_tensor.functions.quantiles import quantile as quantile
    from fl_tensor.functions.scans import cummax as cummax
    from fl_tensor.functions.scans import cummin as cummin
    from fl_tensor.functions.scans import logcumsumexp as logcumsumexp
    from fl_tensor.functions.segments import segment_max as segment_max
    from fl_tensor.functions.segments import segment_mean as segment_mean
    from fl_tensor.functions.segments import segment_min as segment_min
    from fl_tensor.functions.segments import segment_softmax as segment_softmax
    from fl_tensor.functions.segments import segment_sum as segment_sum
    from fl_tensor.functions.sets import unique as unique
    from fl_tensor.functions.sets import unique_all as unique_all
    from fl_tensor.functions.sets import unique_counts as unique_counts
    from fl_tensor.functions.sets import unique_inverse as unique_inverse
    from fl_tensor.functions.sets import unique_values as unique_values
    from fl_tensor.functions.special import polygamma as polygamma
    from fl_tensor.functions.special import xlogy as xlogy
    from fl_tensor.graph.compiled import compile as compile
    from fl_tensor.graph.loaded import load_graph as load_graph
    from fl_tensor.graph.naming import named as named
    from fl_tensor.kernels.kernel import kernel as kernel
    from fl_tensor.numpy_functions.creating import *  # noqa: F403
    from fl_tensor.numpy_functions.data_types import *  # noqa: F403
    from fl_tensor.numpy_functions.elementwise import *  # noqa: F403
    from fl_tensor.numpy_functions.grids import *  # noqa: F403
    from fl_tensor.numpy_functions.indexing import *  # noqa: F403
    from fl_tensor.numpy_functions.joining import *  # noqa: F403
    from fl_tensor.numpy_functions.ordering import *  # noqa: F403
    from fl_tensor.numpy_functions.polynomials import *  # noqa: F403
    from fl_tensor.numpy_functions.products import *  # noqa: F403
    from fl_tensor.numpy_functions.shaping import *  # noqa: F403
    from fl_tensor.numpy_functions.signals import *  # noqa: F403
    from fl_tensor.numpy_functions.statistics import *  # noqa: F403
    from fl_tensor.numpy_functions.synonyms import *  # noqa: F403
    from fl_tensor.numpy_functions.windows import *  # noqa: F403
    from fl_tensor.printing import get_printoptions as get_printoptions
    from fl_tensor.printing import printoptions as printoptions
    from fl_tensor.printing import set_printoptions as set_printoptions
    from fl_tensor.random import Generator as Generator
    from fl_tensor.random import default_generator as default_generator
    from fl_tensor.random import rand as rand
    from fl_tensor.random import randn as randn
    from fl_tensor.random import seed as seed
    from fl_tensor.random import set_default_generator as set_default_generator
    from fl_tensor.wrappers.check import check as check
    from fl_tensor.wrappers.count import count as count
    from fl_tensor.wrappers.profile import profile as profile
    from fl_tensor.wrappers.trace import per_step as per_step
    from fl_tensor.wrappers.trace import trace as trace
    from fl_tensor.wrappers.wrapped import wrapped as wrapped

#: Names that are loaded when they are first asked for, by the module that defines them.
_LATER = {
    name: module
    for module, names in {
        "dtype_setting": "default_dtype get_default_dtype set_default_dtype",
        "functions.control": "cond scan while_loop",
        "functions.distances": "cdist",
        "functions.quantiles": "nanpercentile nanquantile percentile quantile",
        "functions.scans": "cummax cummin logcumsumexp",
        "functions.segments": "segment_max segment_mean segment_min segment_softmax segment_sum",
        "functions.sets": "unique unique_all unique_counts unique_inverse unique_values",
        "functions.special": "polygamma xlogy",
        "graph.compiled": "compile",
        "graph.loaded": "load_graph",
        "graph.naming": "named",
        "kernels.kernel": "kernel",
        "numpy_functions.creating": (
            "array asarray_chkfinite copy diag_indices diag_indices_from diagflat frombuffer "
            "fromfunction fromiter identity indices ix_ mask_indices tri tril_indices_from "
            "triu_indices_from vander"
        ),
        "numpy_functions.data_types": (
            "array_equiv astype can_cast common_type iscomplex iscomplexobj isdtype isreal "
            "isrealobj isscalar iterable ndim result_type shape size"
        ),
        "numpy_functions.elementwise": (
            "bitwise_count divmod fabs float_power fmod frexp gcd heaviside i0 lcm ldexp "
            "logaddexp2 modf real_if_close rint sinc spacing unwrap"
        ),
        "numpy_functions.grids": "c_ index_exp mgrid ogrid r_ s_",
        "numpy_functions.indexing": (
            "apply_along_axis apply_over_axes choose compress extract fill_diagonal "
            "flatnonzero piecewise place put put_along_axis putmask ravel_multi_index select "
            "unravel_index"
        ),
        "numpy_functions.joining": (
            "append array_split block column_stack concat delete dsplit dstack ediff1d hsplit "
            "hstack insert row_stack vsplit vstack"
        ),
        "numpy_functions.ordering": (
            "argpartition digitize intersect1d lexsort partition setdiff1d setxor1d "
            "sort_complex union1d"
        ),
        "numpy_functions.polynomials": (
            "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots"
        ),
        "numpy_functions.products": "einsum_path matvec packbits unpackbits vdot vecmat",
        "numpy_functions.shaping": (
            "atleast_1d atleast_2d atleast_3d fliplr flipud ravel resize rollaxis rot90 "
            "transpose trim_zeros"
        ),
        "numpy_functions.signals": "convolve correlate gradient interp trapezoid",
        "numpy_functions.statistics": (
            "corrcoef cov cumprod cumsum histogram2d histogram_bin_edges histogramdd "
            "nancumprod nancumsum ptp"
        ),
        "numpy_functions.synonyms": (
            "abs amax amin arccos arccosh arcsin arcsinh arctan arctan2 arctanh around "
            "asanyarray ascontiguousarray bitwise_not bool_ byte cdouble conjugate csingle "
            "degrees double e euler_gamma fix half inf int_ intc intp invert left_shift "
            "longlong matrix_transpose mod nan newaxis permute_dims pi pow promote_types "
            "radians right_shift short single true_divide ubyte uint uintc uintp "
            "ulonglong ushort"
        ),
        "numpy_functions.windows": "bartlett blackman hamming hanning kaiser",
        "printing": "get_printoptions printoptions set_printoptions",
        "random": "Generator default_generator rand randn seed set_default_generator",
        "wrappers.check": "check",
        "wrappers.count": "count",
        "wrappers.profile": "profile",
        "wrappers.trace": "per_step trace",
        "wrappers.wrapped": "wrapped",
    }.items()
    for name in names.split()
}
#: Modules that are loaded when they are first asked for.
_MODULES = frozenset(("array_api", "backends", "fft", "graph", "linalg", "random"))


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"{__name__}.{name}")  # which makes it an attribute
    if name in _LATER:
        found = globals()[name] = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
        return found
    if not name.startswith("_"):
        from fl_tensor.dispatch.registry import module_of

        backend = module_of(name)
        if backend is not None:
            return backend
        from fl_tensor.foreign_names import tables

        row = tables.find(name, *tables.FUNCTIONS)
        if row is not None and row.section == "synonyms":
            return getattr(import_module(__name__), row.text)
        raise tables.missing_attribute(f"module {__name__!r}", name, *tables.FUNCTIONS)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    from fl_tensor.public_names import public_names

    return public_names(globals(), *_MODULES, *_LATER)
