"""Where we differ from PyTorch on purpose, each with its reason.

A test fails when an entry explains no difference any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One set of arguments of an OpInfo entry, in the dtype ``dtype``."""

    number: int
    dtype: str
    theirs: Any

    @property
    def input(self) -> Any:
        return self.theirs.input

    @property
    def args(self) -> tuple[Any, ...]:
        return tuple(self.theirs.args)

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.theirs.kwargs)

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        """An argument after the first, given by position or by name."""
        return self.args[place] if len(self.args) > place else self.options.get(name, default)


@dataclass
class Convention:
    """``reason`` explains the samples of ``operations`` (patterns) for which ``when`` is true."""

    operations: str
    reason: str
    when: Callable[[Sample], bool] = lambda sample: True
    differed: bool = False

    def explains(self, name: str, sample: Sample) -> bool:
        return any(fnmatchcase(name, p) for p in self.operations.split()) and self.when(sample)


def _scalar(sample: Sample) -> bool:
    return getattr(sample.input, "ndim", None) == 0


def _empty_vectors(sample: Sample) -> bool:
    return any(x.shape == (0,) for x in sample.input)


def _batch_of_vectors(sample: Sample) -> bool:
    a, b = sample.input, sample.args[0]
    return b.ndim == a.ndim - 1 and b.ndim > 1


def _even(sample: Sample) -> bool:
    """Whether somewhere an even number of values that are no NaN have a median."""
    axis = sample.argument(0, "dim")
    counts = (~sample.input.isnan()).sum() if axis is None else (~sample.input.isnan()).sum(axis)
    return bool((counts % 2 == 0).any())


def _fewer_queries(sample: Sample) -> bool:
    causal = sample.argument(5, "is_causal", False)
    return bool(causal) and sample.input.shape[-2] < sample.args[0].shape[-2]


def _nothing_left(sample: Sample) -> bool:
    """Whether negative widths cut all of an axis off."""
    widths = sample.args[0]
    cut = [max(-low, 0) + max(-high, 0) for low, high in zip(widths[::2], widths[1::2])]
    return any(n >= size for n, size in zip(cut, reversed(sample.input.shape)))


CONVENTIONS = [
    Convention(
        "all amax amin aminmax any argmax argmin argsort count_nonzero kthvalue logsumexp "
        "log_softmax* max.reduction_with_dim mean median min.reduction_with_dim nanmean nanmedian "
        "nanquantile nansum norm linalg.vector_norm prod quantile softmax* sort sum topk "
        "nn.functional.softmin* nn.functional.cosine_similarity",
        "A scalar has no axis 0, as in NumPy; PyTorch takes it for a vector of one.",
        _scalar,
    ),
    Convention(
        "histc histogram",
        "Counts are integers, as in NumPy; PyTorch counts in the dtype of the values.",
        lambda sample: sample.argument(2, "weight") is None,
    ),
    Convention(
        "bincount",
        "Weights that are integers become the default floating dtype; PyTorch takes float64.",
        lambda sample: sample.argument(0, "weights") is not None,
    ),
    Convention(
        "cat",
        "All operands have the same number of axes; PyTorch passes over vectors of no elements.",
        _empty_vectors,
    ),
    Convention(
        "gather",
        "Indices have as many axes as the array; PyTorch takes others if they are empty.",
        lambda sample: sample.input.ndim != sample.args[1].ndim,
    ),
    Convention(
        "cov",
        "There is no covariance with weights.",
        lambda sample: any(
            sample.options.get(name) is not None for name in ("fweights", "aweights")
        ),
    ),
    Convention(
        "index_put",
        "Assignment with indices does not accumulate: that is scatter with mode='add'.",
        lambda sample: bool(sample.argument(2, "accumulate", False)),
    ),
    Convention(
        "linalg.matrix_rank linalg.pinv",
        "Tolerances are relative to the largest singular value; there is no absolute one.",
        lambda sample: sample.options.get("atol") is not None,
    ),
    Convention(
        "linalg.solve",
        "Only a right side of one axis is a vector (array API); PyTorch guesses from the shapes.",
        _batch_of_vectors,
    ),
    Convention(
        "linalg.svd",
        "The vectors that complete U and Vh are arbitrary: they have no gradient here.",
        lambda sample: bool(sample.options.get("full_matrices", True)),
    ),
    Convention(
        "linalg.pinv.hermitian",
        "The value is that of one triangle; PyTorch's gradient is right for Hermitian matrices "
        "alone, and these samples are none.",
        lambda sample: sample.input.requires_grad,
    ),
    Convention(
        "logcumsumexp",
        "PyTorch's gradient in float32 is off by 4e-4; ours by 3e-7 from float64.",
        lambda sample: sample.dtype == "float32",
    ),
    Convention(
        "linalg.eigvals",
        "The eigenvalues of a general matrix have no gradient.",
        lambda sample: sample.input.requires_grad,
    ),
    Convention(
        "nonzero",
        "A scalar has no places, as in NumPy.",
        _scalar,
    ),
    Convention(
        "nextafter",
        "A neighbouring number has no gradient; PyTorch passes that of the first operand on.",
    ),
    Convention(
        "tensordot",
        "Summed axes have equal sizes, as in NumPy; PyTorch broadcasts those of size 1.",
        lambda sample: 1 in sample.input.shape,
    ),
    Convention(
        "nn.functional.avg_pool*",
        "The divisor of an average cannot be replaced.",
        lambda sample: sample.argument(5, "divisor_override") is not None,
    ),
    Convention(
        "nn.functional.batch_norm*",
        "A batch has an axis of samples and one of features.",
        lambda sample: sample.input.ndim < 2,
    ),
    Convention(
        "nn.functional.cross_entropy",
        "Targets are numbers of classes; of probabilities it is a product with log_softmax.",
        lambda sample: sample.args[0].is_floating_point(),
    ),
    Convention(
        "nn.functional.hardsigmoid",
        "PyTorch's gradient in float64 has a sixth of float32 in it: it is off by 3e-8.",
        lambda sample: sample.dtype == "float64",
    ),
    Convention(
        "nn.functional.pad.replicate_negative",
        "Negative widths cut first: an axis of which nothing is left has no edge to repeat.",
        _nothing_left,
    ),
    Convention(
        "nn.functional.hardtanh",
        "An empty range is refused.",
        lambda sample: sample.options.get("min_val") == sample.options.get("max_val"),
    ),
    Convention(
        "nn.functional.normalize",
        "A norm has p > 0.",
        lambda sample: sample.options.get("p", 2.0) <= 0,
    ),
    Convention(
        "nn.functional.scaled_dot_product_attention",
        "Causal attention with fewer queries than keys is aligned at the end, as a cache of keys "
        "needs it; PyTorch aligns at the start.",
        _fewer_queries,
    ),
    Convention(
        "nn.functional.scaled_dot_product_attention",
        "Which elements dropout keeps is drawn by another generator.",
        lambda sample: bool(sample.argument(3, "dropout_p", 0.0)),
    ),
    Convention(
        "median nanmedian",
        "The median of an even number is the mean of the two middle values, as in NumPy; PyTorch "
        "takes the lower one.",
        _even,
    ),
]
