"""Shape rules of derived operations, for backends that compute these operations themselves.

The rules of the required operations are in ``fl_tensor.rules``. All of them take shapes as tuples
of ints and raise ShapeError, whose message begins with the name of the operation.
"""

from fl_tensor.derived.conv_gradient import check_conv_gradient
from fl_tensor.derived.pooling import pool_output_sizes
from fl_tensor.derived.pooling_gradient import check_pool_gradient
from fl_tensor.derived.sequence import check_recurrent

__all__ = ["check_conv_gradient", "check_pool_gradient", "check_recurrent", "pool_output_sizes"]
