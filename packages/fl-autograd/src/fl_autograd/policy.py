"""Mixed-precision policies: the levels O1, O2 and O3, and changes to them.

An operation belongs to a family, and a level says for each family what its floating operands are
cast to. Operations of no family take their operands as they come: in their common dtype.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from fl_autograd.errors import PolicyError
from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.extend import operation_names

#: What the floating operands of an operation become: the policy's ``compute``, float32, or their
#: common dtype, as without a policy.
Computed: TypeAlias = Literal["compute", "float32", "promoted"]

FAMILIES: dict[str, frozenset[str]] = {
    name: frozenset(operations.split())
    for name, operations in {
        # Many products per result, summed in float32: these are what half precision makes faster.
        "product": "matmul linear conv conv_data_gradient conv_weight_gradient attention recurrent "
        "dot inner outer kron vecdot tensordot einsum",
        # Their results leave the range of half precision, or lose too many digits in it.
        "sensitive": "exp exp2 expm1 log log2 log10 log1p power square reciprocal rsqrt erf gelu "
        "softplus logit tan sinh cosh acos asin acosh asinh atanh hypot logaddexp lgamma digamma "
        "polygamma erfinv "
        "sum prod mean var std norm average trace logsumexp "
        "nansum nanprod nanmean nanvar nanstd "
        "cumulative_sum cumulative_prod cumulative_logsumexp softmax log_softmax cross_entropy",
        "normalisation": "batch_norm batch_norm_training layer_norm",
        # Libraries have no half precision for these.
        "decomposition": "cholesky qr svd svdvals eigh eigvalsh eig eigvals solve slogdet det inv "
        "pinv lstsq matrix_norm matrix_power fft ifft rfft irfft fftn ifftn rfftn irfftn hfft "
        "ihfft",
    }.items()
}

LEVELS: dict[str, dict[str, Computed]] = {
    "DEFAULT": {},
    "O1": {
        "product": "compute",
        "sensitive": "float32",
        "normalisation": "float32",
        "decomposition": "float32",
    },
    "O2": {
        "product": "compute",
        "sensitive": "compute",
        "normalisation": "float32",
        "decomposition": "float32",
    },
    "O3": {
        "product": "compute",
        "sensitive": "compute",
        "normalisation": "compute",
        "decomposition": "float32",
    },
}

_FAMILY = {operation: name for name, members in FAMILIES.items() for operation in members}

#: Operations of others, and the operation of the contract that each is like (None: like no other).
_OTHERS: dict[str, str | None] = {}


def register(operation: str, like: str | None) -> None:
    """Let policies know an operation that is not in the contract: computed as ``like``, unless a
    policy says otherwise. PolicyError if ``like`` is no operation."""
    if like is not None:
        _check_known(like)
    _OTHERS[operation] = like


@dataclass(frozen=True)
class Policy:
    """Dtypes of mixed precision, for ``autocast`` and for modules.

    level       "DEFAULT" casts nothing; "O1" computes products in ``compute``, and in float32 what
                does not bear it; "O2" keeps float32 for batch and layer normalisation alone; "O3"
                for nothing. Decompositions and Fourier transforms are always in float32
    compute     "float16" or "bfloat16"
    param       what parameters are kept in (modules convert to it)
    output      what modules give; None: float32, of O3 ``compute``, of DEFAULT what comes
    operations  changes to the level, by name of operation: "compute", "float32" or "promoted" (the
                common dtype of the operands). Names are those of the tensor contract, of
                ``extend.defop`` and of ``as_operation``

    float64 operands are never cast. Raises PolicyError for unknown levels, names and dtypes that
    make no sense. (Levels as in Flashlight's ``OptimLevel`` and NVIDIA's Apex; P. Micikevicius et
    al., "Mixed precision training", 2018.)
    """

    level: str = "O1"
    compute: DType = dtypes.float16
    param: DType = dtypes.float32
    output: DType | None = None
    operations: Mapping[str, Computed] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.level, str) or self.level not in LEVELS:
            raise PolicyError(
                f"[Policy] there is no level {self.level!r}: expected one of {', '.join(LEVELS)}"
            )
        compute = self._settle("compute", self.compute)
        if compute not in dtypes.HALF:
            raise PolicyError(f"[Policy] compute={compute}: expected float16 or bfloat16")
        self._settle("param", self.param)
        if self.output is not None:
            self._settle("output", self.output)
        for name, computed in self.operations.items():
            _check_known(name)
            if computed not in get_args(Computed):
                raise PolicyError(
                    f"[Policy] {name}={computed!r}: expected one of {', '.join(get_args(Computed))}"
                )
        object.__setattr__(self, "operations", dict(self.operations))

    def _settle(self, name: str, value: object) -> DType:
        found = dtypes.dtype(value)
        if not found.is_floating:
            raise PolicyError(f"[Policy] {name}={found}: expected a floating dtype")
        object.__setattr__(self, name, found)
        return found

    @property
    def results(self) -> DType | None:
        """What modules give, ``output`` or that of the level; None: whatever comes."""
        if self.output is not None or self.level == "DEFAULT":
            return self.output
        return self.compute if self.level == "O3" else dtypes.float32

    @property
    def casts(self) -> bool:
        """Whether any operation casts at all."""
        return self.level != "DEFAULT" or bool(self.operations)

    def dtype_of(self, operation: str) -> DType | None:
        """What the floating operands of an operation are cast to; None: they stay as they are."""
        computed = self.operations.get(operation)
        if computed is None:
            operation = _OTHERS.get(operation) or operation
            computed = self.operations.get(operation)
        if computed is None:
            computed = LEVELS[self.level].get(_FAMILY.get(operation, ""), "promoted")
        return {"compute": self.compute, "float32": dtypes.float32}.get(computed)


def policy_of(precision: Policy | str) -> Policy:
    """A policy, or the one of a level. PolicyError for anything else."""
    if isinstance(precision, Policy):
        return precision
    if isinstance(precision, str):
        return Policy(precision)
    raise PolicyError(
        f"[Policy] {precision!r} is no precision: expected a Policy or one of {', '.join(LEVELS)}"
    )


def _check_known(name: str) -> None:
    known = operation_names() | _OTHERS.keys()
    if name not in known:
        near = difflib.get_close_matches(name, known, 3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise PolicyError(
            f"[Policy] there is no operation {name!r}{hint} (operations of extend.defop and "
            f"as_operation have to be defined before a policy names them)"
        )
