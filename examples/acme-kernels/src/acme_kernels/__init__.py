"""Two operations of language models, with gradients, and kernels for deferred execution."""

from acme_kernels.operations import rms_norm as rms_norm
from acme_kernels.operations import swiglu as swiglu
