"""``ForeignMethods``: the names of methods in NumPy and PyTorch that arrays do not have.

``x.view`` raises AttributeError with our way, and ``hasattr(x, "view")`` is False. A method
``__getattr__`` would do the same, but makes every attribute of every array slower.
"""

from __future__ import annotations

from typing import Any, NoReturn

#: The names of ``foreign_names/methods.txt``: reading that file would slow the import down.
NAMES = """
H abs_ absolute absolute_ acos acos_ acosh acosh_ add add_ addbmm addbmm_ addcdiv addcdiv_ addcmul
addcmul_ addmm addmm_ addmv addmv_ addr addr_ adjoint allclose amax amin aminmax angle apply_
arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_ arctan_
arctanh arctanh_ argpartition argwhere as_strided as_strided_ as_strided_scatter as_subclass asin
asin_ asinh asinh_ atan atan2 atan2_ atan_ atanh atanh_ backward baddbmm baddbmm_ base bernoulli
bernoulli_ bfloat16 bincount bitwise_and bitwise_and_ bitwise_left_shift bitwise_left_shift_
bitwise_not bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_
bitwise_xor bitwise_xor_ bmm bool broadcast_to byte byteswap cauchy_ ccol_indices cdouble ceil
ceil_ cfloat chalf char cholesky cholesky_inverse cholesky_solve choose chunk clamp clamp_
clamp_max clamp_max_ clamp_min clamp_min_ clip_ clone coalesce col_indices compress conj_physical
conj_physical_ const_data_ptr contiguous copy_ copysign copysign_ corrcoef cos cos_ cosh cosh_
count_nonzero cov cpu cross crow_indices ctypes cuda cummax cummin cumprod_ cumsum_ data data_ptr
deg2rad deg2rad_ dense_dim dequantize det detach_ diag diag_embed diagflat diagonal_scatter diff
digamma digamma_ dim dim_order dist div div_ divide divide_ double dsplit dump dumps eig
element_size eq eq_ equal erf erf_ erfc erfc_ erfinv erfinv_ exp2 exp2_ exp_ expand expand_as
expm1 expm1_ exponential_ fill fill_ fill_diagonal_ fix fix_ flags flat flip fliplr flipud float
float_power float_power_ floor floor_ floor_divide floor_divide_ fmax fmin fmod fmod_ frac frac_
frexp gather gcd gcd_ ge ge_ geometric_ geqrf ger get_device getfield grad grad_dtype grad_fn
greater greater_ greater_equal greater_equal_ gt gt_ half hardshrink hash_tensor heaviside
heaviside_ histc histogram hsplit hypot hypot_ i0 i0_ igamma igamma_ igammac igammac_ index
index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_
index_reduce index_reduce_ index_select indices inner int int_repr inverse ipu is_coalesced
is_complex is_conj is_contiguous is_cpu is_cuda is_distributed is_floating_point is_inference
is_ipu is_leaf is_maia is_meta is_mkldnn is_mps is_mtia is_neg is_nested is_nonzero is_pinned
is_quantized is_same_size is_set_to is_shared is_signed is_sparse is_sparse_csr is_vulkan is_xla
is_xpu isclose isfinite isinf isnan isneginf isposinf isreal istft kron kthvalue layout lcm lcm_
ldexp ldexp_ le le_ lerp lerp_ less less_ less_equal less_equal_ lgamma lgamma_ log10 log10_ log1p
log1p_ log2 log2_ log_ log_normal_ log_softmax logaddexp logaddexp2 logcumsumexp logdet
logical_and logical_and_ logical_not logical_not_ logical_or logical_or_ logical_xor logical_xor_
logit logit_ logsumexp long lstsq lt lt_ lu lu_solve mH map2_ map_ masked_fill masked_fill_
masked_scatter masked_scatter_ masked_select matmul matrix_exp matrix_power maximum median minimum
mm mode module_load moveaxis movedim msort mtia mul mul_ multinomial multiply multiply_ mv
mvlgamma mvlgamma_ name nan_to_num nan_to_num_ nanmean nanmedian nanquantile nansum narrow
narrow_copy ndimension ne ne_ neg neg_ negative negative_ nelement new new_empty new_empty_strided
new_full new_ones new_tensor new_zeros nextafter nextafter_ nonzero_static norm normal_ not_equal
not_equal_ orgqr ormqr outer output_nr partition pin_memory pinverse polygamma polygamma_ positive
pow_ prelu put put_ q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale
q_zero_point qr qscheme quantile rad2deg rad2deg_ random_ reciprocal reciprocal_ record_stream
register_hook register_post_accumulate_grad_hook reinforce relu_ remainder remainder_ renorm
renorm_ repeat_interleave requires_grad requires_grad_ reshape_as resize resize_ resize_as
resize_as_ resize_as_sparse_ resolve_conj resolve_neg retain_grad retains_grad roll rot90 round_
row_indices rsqrt rsqrt_ scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_
select select_scatter set_ setfield setflags sgn sgn_ share_memory_ short sigmoid_ sign sign_
signbit sin sin_ sinc sinc_ sinh sinh_ slice_inverse slice_scatter slogdet smm softmax solve
sparse_dim sparse_mask sparse_resize_ sparse_resize_and_clear_ split split_with_sizes sqrt_ square
square_ squeeze_ sspaddmm stft storage storage_offset storage_type stride strides sub sub_
subtract subtract_ sum_to_size svd swapaxes_ swapdims swapdims_ symeig t t_ take_along_dim tan
tan_ tanh_ tensor tensor_split tile to_dense to_mkldnn to_padded_tensor to_sparse to_sparse_bsc
to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr tofile topk transpose_ triangular_solve
tril tril_ triu triu_ true_divide true_divide_ trunc trunc_ type type_as unbind unflatten unfold
uniform_ unique unique_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze
unsqueeze_ untyped_storage values vdot view view_as volatile vsplit where xlogy xlogy_ xpu zero_
zero_grad
"""


class ForeignMethod:
    """An attribute that is not there; the table says what to write."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, x: Any, kind: type[Any]) -> NoReturn:
        from fl_tensor.foreign_names import tables

        raise tables.missing_attribute(f"{kind.__name__!r} object", self.name, tables.METHODS)


class ForeignMethods:
    """Inherited by all arrays; the methods that they have come before these."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if not self._is_foreign(name)]

    @classmethod
    def _is_foreign(cls, name: str) -> bool:
        for base in cls.__mro__:
            if name in base.__dict__:
                return isinstance(base.__dict__[name], ForeignMethod)
        return False


for _name in NAMES.split():
    setattr(ForeignMethods, _name, ForeignMethod(_name))
