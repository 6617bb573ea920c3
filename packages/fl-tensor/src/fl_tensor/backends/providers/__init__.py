"""Providers of matrix products, convolutions, pooling and batch normalisation for `jit`.

`jit` describes a problem (``problems.py``), a provider (``provider.py``) answers with a kernel that
takes addresses, or says that it has none, and `jit` falls back on NumPy.
"""

from fl_tensor.backends.providers.choose import current as current
from fl_tensor.backends.providers.layout import Layout as Layout
from fl_tensor.backends.providers.layout import Packed as Packed
from fl_tensor.backends.providers.layout import Placement as Placement
from fl_tensor.backends.providers.layout import channels_last as channels_last
from fl_tensor.backends.providers.layout import chosen as chosen
from fl_tensor.backends.providers.layout import row_major as row_major
from fl_tensor.backends.providers.problems import BatchNorm as BatchNorm
from fl_tensor.backends.providers.problems import BatchNormGradient as BatchNormGradient
from fl_tensor.backends.providers.problems import Convolution as Convolution
from fl_tensor.backends.providers.problems import ConvolutionData as ConvolutionData
from fl_tensor.backends.providers.problems import ConvolutionWeights as ConvolutionWeights
from fl_tensor.backends.providers.problems import Epilogue as Epilogue
from fl_tensor.backends.providers.problems import Matmul as Matmul
from fl_tensor.backends.providers.problems import Pooling as Pooling
from fl_tensor.backends.providers.problems import PoolingGradient as PoolingGradient
from fl_tensor.backends.providers.problems import Problem as Problem
from fl_tensor.backends.providers.problems import Reorder as Reorder
from fl_tensor.backends.providers.provider import Kernel as Kernel
from fl_tensor.backends.providers.provider import Provider as Provider
from fl_tensor.backends.providers.provider import ProviderError as ProviderError
from fl_tensor.backends.providers.provider import UnsupportedError as UnsupportedError
