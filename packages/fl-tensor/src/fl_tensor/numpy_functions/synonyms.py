"""Other names of functions, dtypes and constants: NumPy's, and those of the array API standard."""

from __future__ import annotations

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi

from fl_tensor.dtypes import bool as bool_
from fl_tensor.dtypes import complex64 as csingle
from fl_tensor.dtypes import complex128 as cdouble
from fl_tensor.dtypes import float16 as half
from fl_tensor.dtypes import float32 as single
from fl_tensor.dtypes import float64 as double
from fl_tensor.dtypes import int8 as byte
from fl_tensor.dtypes import int16 as short
from fl_tensor.dtypes import int32 as intc
from fl_tensor.dtypes import int64 as int_
from fl_tensor.dtypes import int64 as intp
from fl_tensor.dtypes import int64 as longlong
from fl_tensor.dtypes import promote as promote_types
from fl_tensor.dtypes import uint8 as ubyte
from fl_tensor.dtypes import uint16 as ushort
from fl_tensor.dtypes import uint32 as uintc
from fl_tensor.dtypes import uint64 as uint
from fl_tensor.dtypes import uint64 as uintp
from fl_tensor.dtypes import uint64 as ulonglong
from fl_tensor.functions import absolute as abs
from fl_tensor.functions import acos as arccos
from fl_tensor.functions import acosh as arccosh
from fl_tensor.functions import asin as arcsin
from fl_tensor.functions import asinh as arcsinh
from fl_tensor.functions import atan as arctan
from fl_tensor.functions import atan2 as arctan2
from fl_tensor.functions import atanh as arctanh
from fl_tensor.functions import bitwise_invert as bitwise_not
from fl_tensor.functions import bitwise_invert as invert
from fl_tensor.functions import bitwise_left_shift as left_shift
from fl_tensor.functions import bitwise_right_shift as right_shift
from fl_tensor.functions import deg2rad as radians
from fl_tensor.functions import divide as true_divide
from fl_tensor.functions import max as amax
from fl_tensor.functions import min as amin
from fl_tensor.functions import power as pow
from fl_tensor.functions import rad2deg as degrees
from fl_tensor.functions import remainder as mod
from fl_tensor.functions import trunc as fix
from fl_tensor.functions.creation import asarray as asanyarray
from fl_tensor.functions.creation import asarray as ascontiguousarray
from fl_tensor.functions.elementwise import conj as conjugate
from fl_tensor.functions.elementwise import round as around
from fl_tensor.functions.shaping import permute as permute_dims
from fl_tensor.linalg import matrix_transpose as matrix_transpose

__all__ = [
    "abs",
    "amax",
    "amin",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "around",
    "asanyarray",
    "ascontiguousarray",
    "bitwise_not",
    "bool_",
    "byte",
    "cdouble",
    "conjugate",
    "csingle",
    "degrees",
    "double",
    "e",
    "euler_gamma",
    "fix",
    "half",
    "inf",
    "int_",
    "intc",
    "intp",
    "invert",
    "left_shift",
    "longlong",
    "matrix_transpose",
    "mod",
    "nan",
    "newaxis",
    "permute_dims",
    "pi",
    "pow",
    "promote_types",
    "radians",
    "right_shift",
    "short",
    "single",
    "true_divide",
    "ubyte",
    "uint",
    "uintc",
    "uintp",
    "ulonglong",
    "ushort",
]

#: Euler's constant, the limit of the sum of 1/k for k up to n, less log(n).
euler_gamma = 0.5772156649015329
#: An index that makes a new axis.
newaxis = None
