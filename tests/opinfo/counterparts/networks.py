"""``torch.nn.functional``: activations, losses, normalisation, convolution, pooling, attention."""

from __future__ import annotations

import math
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from counterparts.calls import Function


def _pairs(value: Any, n: int) -> list[int]:
    return [value] * n if isinstance(value, int) else list(value) * (n if len(value) == 1 else 1)


def _convolution(n: int) -> Function:
    def call(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        single = x.ndim == n + 1
        x = x[None] if single else x
        stride, dilation = _pairs(stride, n), _pairs(dilation, n)
        if padding == "same":
            padding = [
                nn.derive_padding(size, k, 1, "same", d)
                for size, k, d in zip(x.shape[2:], weight.shape[2:], dilation)
            ]
        elif padding == "valid":
            padding = 0
        else:
            padding = [(p, p) for p in _pairs(padding, n)]
        y = ft.conv(x, weight, stride, padding, 1, dilation, groups)
        y = y if bias is None else y + bias.reshape((-1, *(1,) * n))
        return y[0] if single else y

    return call


def _transposed_convolution(n: int) -> Function:
    def call(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        single = x.ndim == n + 1
        x = x[None] if single else x
        stride, dilation, padding, more = (
            _pairs(v, n) for v in (stride, dilation, padding, output_padding)
        )
        inputs, outputs, *kernel = weight.shape
        w = weight.reshape((groups, inputs // groups, outputs, *kernel))
        w = ft.swapaxes(w, 1, 2).reshape((groups * outputs, inputs // groups, *kernel))
        w = ft.flip(w, axis=tuple(range(2, 2 + n)))
        edges = [
            (d * (k - 1) - p, d * (k - 1) - p + o)
            for d, k, p, o in zip(dilation, kernel, padding, more)
        ]
        y = ft.conv(x, w, 1, edges, stride, dilation, groups)
        y = y if bias is None else y + bias.reshape((-1, *(1,) * n))
        return y[0] if single else y

    return call


def _avg_pool(n: int) -> Function:
    def call(
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Any:
        if divisor_override is not None:
            return NotImplemented
        single = x.ndim == n + 1
        x = x[None] if single else x
        window = _pairs(kernel_size, n)
        stride = None if stride is None or stride == () else _pairs(stride, n)
        options: dict[str, Any] = {"count_include_pad": count_include_pad}
        options |= {"ceil_mode": True} if ceil_mode else {}
        y = ft.avg_pool(x, window, stride, [(p, p) for p in _pairs(padding, n)], **options)
        return y[0] if single else y

    return call


def _max_pool(n: int) -> Function:
    def call(
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        single = x.ndim == n + 1
        x = x[None] if single else x
        window = _pairs(kernel_size, n)
        stride = None if stride is None or stride == () else _pairs(stride, n)
        options: dict[str, Any] = {"ceil_mode": True} if ceil_mode else {}
        if any(d != 1 for d in _pairs(dilation, n)):
            options["dilation"] = _pairs(dilation, n)
        y = ft.max_pool(x, window, stride, [(p, p) for p in _pairs(padding, n)], **options)
        return y[0] if single else y

    return call


def _adaptive(layer: Any, n: int) -> Function:
    def call(x: Any, output_size: Any) -> Any:
        single = x.ndim == n + 1
        x = x[None] if single else x
        y = layer(output_size)(x)
        return y[0] if single else y

    return call


def _reduced(loss: Any, reduction: str) -> Any:
    return {"none": lambda x: x, "mean": ft.mean, "sum": ft.sum}[reduction](loss)


def _loss(function: Function) -> Function:
    """A loss in nn: PyTorch's obsolete arguments are dropped."""

    def call(*args: Any, **options: Any) -> Any:
        for name in ("size_average", "reduce"):
            options.pop(name, None)
        return function(*args, **options)

    return call


def _elementwise_loss(function: Function) -> Function:
    def call(x: Any, y: Any, reduction: str = "mean", **options: Any) -> Any:
        return _reduced(function(x, y, **options), reduction)

    return call


def _smooth_l1(x: Any, y: Any, beta: float = 1.0) -> Any:
    d = ft.absolute(x - y)
    return d if beta == 0 else ft.where(ft.less(d, beta), 0.5 * d * d / beta, d - 0.5 * beta)


def _class_loss(function: Function) -> Function:
    def call(
        x: Any,
        target: Any,
        weight: Any = None,
        reduction: str = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
    ) -> Any:
        single = x.ndim == 1
        x, target = (x[None], target[None]) if single else (x, target)
        options: dict[str, Any] = {"label_smoothing": label_smoothing} if label_smoothing else {}
        loss = function(
            x, target, reduction=reduction, weight=weight, ignore_index=ignore_index, **options
        )
        return loss[0] if single and reduction == "none" else loss

    return call


def _poisson_nll(
    x: Any, y: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8
) -> Any:
    loss = ft.exp(x) - y * x if log_input else x - y * ft.log(x + eps)
    if not full:
        return loss
    large = ft.where(ft.greater(y, 1), y, 1.0)
    stirling = large * ft.log(large) - large + 0.5 * ft.log(2 * math.pi * large)
    return loss + ft.where(ft.greater(y, 1), stirling, 0.0)


def _gaussian_nll(
    x: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    if not hasattr(var, "shape"):
        var = ft.full(x.shape, var, dtype=x.dtype)
    if var.ndim < x.ndim and var.shape == x.shape[:-1]:
        var = var[..., None]
    var = (
        var + (ft.maximum(var, eps) - var).detach() if hasattr(var, "detach") else ft.clip(var, eps)
    )
    loss = 0.5 * (ft.log(var) + (x - target) ** 2 / var)
    return _reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def _hinge_embedding(x: Any, y: Any, margin: float = 1.0) -> Any:
    apart = ft.where(ft.equal(y, 1), 0.0, ft.relu(margin - x))
    return apart + ft.where(ft.equal(y, -1), 0.0, x)


def _margin_ranking(a: Any, b: Any, y: Any, margin: float = 0.0, reduction: str = "mean") -> Any:
    return _reduced(ft.relu(-y * (a - b) + margin), reduction)


def _soft_margin(x: Any, y: Any) -> Any:
    return ft.log1p(ft.exp(-y * x))


def _multilabel_soft_margin(x: Any, y: Any, weight: Any = None, reduction: str = "mean") -> Any:
    loss = ft.softplus(-x) * y + ft.softplus(x) * (1 - y)
    loss = loss if weight is None else loss * weight
    return _reduced(ft.mean(loss, axis=-1), reduction)


def _distance(x: Any, y: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    return ft.linalg.vector_norm(x - y + eps, axis=-1, ord=p, keepdims=keepdim)


def _triplet(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    near, far = _distance(anchor, positive, p, eps), _distance(anchor, negative, p, eps)
    if swap:
        far = ft.minimum(far, _distance(positive, negative, p, eps))
    return _reduced(ft.relu(near - far + margin), reduction)


def _batch_norm(
    x: Any,
    mean: Any = None,
    var: Any = None,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if training or mean is None:
        return ft.batch_norm_training(x, weight, bias, 1, eps)[0]
    return ft.batch_norm(x, mean, var, weight, bias, 1, eps)


def _instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if not use_input_stats:
        return ft.batch_norm(x, running_mean, running_var, weight, bias, 1, eps)
    n, c, *rest = x.shape
    y = ft.layer_norm(x, axis=tuple(range(2, x.ndim)), eps=eps)
    shape = (c, *(1,) * len(rest))
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def _layer_norm(
    x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    return ft.layer_norm(x, weight, bias, axes, eps)


def _group_norm(
    x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    layer = nn.GroupNorm(num_groups, x.shape[1], eps=eps, affine=False)
    y = layer(x)
    shape = (x.shape[1], *(1,) * (x.ndim - 2))
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def _rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    eps = ft.finfo(x.dtype).eps if eps is None else eps
    y = x * ft.rsqrt(ft.mean(x * x, axis=axes, keepdims=True) + eps)
    return y if weight is None else y * weight


def _local_response(
    x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    square = (x * x).reshape((x.shape[0], 1, x.shape[1], math.prod(x.shape[2:])))
    mean = ft.avg_pool(
        ft.pad(square, [(0, 0), (0, 0), (size // 2, (size - 1) // 2), (0, 0)]), (size, 1), (1, 1)
    )
    return x / (mean.reshape(x.shape) * alpha + k) ** beta


def _attention(
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if dropout_p:
        return NotImplemented
    if q.ndim == 3 and k.ndim == 4:
        q = ft.broadcast_to(q, (*k.shape[:2], *q.shape[-2:]))
    if q.ndim == 3:
        mask = attn_mask if attn_mask is None or attn_mask.ndim < 3 else attn_mask[:, None]
        q, k, v = q[:, None], k[:, None], v[:, None]
        return _attention(q, k, v, mask, dropout_p, is_causal, scale, enable_gqa)[:, 0]
    options: dict[str, Any] = {"causal": is_causal, "scale": scale}
    if attn_mask is not None:
        options["allowed" if attn_mask.dtype.kind == "b" else "bias"] = attn_mask
    return ft.attention(q, k, v, **options)


def _gelu(x: Any, approximate: str = "none") -> Any:
    return ft.gelu(x, approximate)


def _softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    scaled = x * beta
    return ft.where(ft.greater(scaled, threshold), x, ft.softplus(scaled) / beta)


def _threshold(x: Any, threshold: float, value: float) -> Any:
    return ft.where(ft.greater(x, threshold), x, value)


def _normalize(x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    return (
        nn.Normalize(axis=dim, p=p, eps=eps)(x) if x.ndim else x / ft.maximum(ft.absolute(x), eps)
    )


def _glu(x: Any, dim: int = -1) -> Any:
    return nn.GatedLinearUnit(axis=dim)(x)


def _prelu(x: Any, weight: Any) -> Any:
    if x.ndim == 0:
        weight = weight.reshape(())
    elif weight.size > 1 and x.ndim > 1:
        weight = weight.reshape((-1, *(1,) * (x.ndim - 2)))
    return ft.maximum(x, 0) + weight * ft.minimum(x, 0)


def _elu(x: Any, alpha: float = 1.0) -> Any:
    return ft.where(ft.greater(x, 0), x, alpha * ft.expm1(ft.minimum(x, 0)))


def _celu(x: Any, alpha: float = 1.0) -> Any:
    return ft.maximum(x, 0) + ft.minimum(alpha * ft.expm1(ft.minimum(x, 0) / alpha), 0)


def _selu(x: Any) -> Any:
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return scale * _elu(x, alpha)


def _pixel_shuffle(x: Any, upscale_factor: int) -> Any:
    r = upscale_factor
    *batch, c, h, w = x.shape
    n = len(batch)
    y = x.reshape((*batch, c // (r * r), r, r, h, w))
    y = ft.permute(y, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return y.reshape((*batch, c // (r * r), h * r, w * r))


def _pixel_unshuffle(x: Any, downscale_factor: int) -> Any:
    r = downscale_factor
    *batch, c, h, w = x.shape
    n = len(batch)
    y = x.reshape((*batch, c, h // r, r, w // r, r))
    y = ft.permute(y, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return y.reshape((*batch, c * r * r, h // r, w // r))


def _channel_shuffle(x: Any, groups: int) -> Any:
    n, c, *rest = x.shape
    return ft.swapaxes(x.reshape((n, groups, c // groups, *rest)), 1, 2).reshape(x.shape)


def _embedding(weight: Any, index: Any, **options: Any) -> Any:
    if any(value is not None and value is not False for value in options.values()):
        return NotImplemented
    return ft.embedding(weight, index)


def _bilinear(a: Any, b: Any, weight: Any, bias: Any = None) -> Any:
    y = ft.einsum("...i,oij,...j->...o", a, weight, b)
    return y if bias is None else y + bias


TABLE: dict[str, Function] = {
    "nn.functional.adaptive_avg_pool1d": _adaptive(nn.AdaptiveAvgPool1D, 1),
    "nn.functional.adaptive_avg_pool2d": _adaptive(nn.AdaptiveAvgPool2D, 2),
    "nn.functional.adaptive_avg_pool3d": _adaptive(nn.AdaptiveAvgPool3D, 3),
    "nn.functional.batch_norm": _batch_norm,
    "nn.functional.batch_norm.without_cudnn": _batch_norm,
    "nn.functional.bilinear": _bilinear,
    "nn.functional.binary_cross_entropy": _loss(nn.binary_cross_entropy),
    "nn.functional.binary_cross_entropy_with_logits": _loss(nn.binary_cross_entropy_with_logits),
    "nn.functional.celu": _celu,
    "nn.functional.channel_shuffle": _channel_shuffle,
    "nn.functional.cosine_embedding_loss": _loss(nn.cosine_embedding),
    "nn.functional.cosine_similarity": lambda x, y, dim=1, eps=1e-8: nn.cosine_similarity(
        x, y, axis=dim, eps=eps
    ),
    "nn.functional.cross_entropy": _class_loss(nn.cross_entropy),
    "nn.functional.elu": _elu,
    "nn.functional.embedding": _embedding,
    "nn.functional.gaussian_nll_loss": _gaussian_nll,
    "nn.functional.gelu": _gelu,
    "nn.functional.glu": _glu,
    "nn.functional.group_norm": _group_norm,
    "nn.functional.hardshrink": lambda x, lambd=0.5: ft.where(
        ft.greater(ft.absolute(x), lambd), x, 0.0
    ),
    "nn.functional.hardsigmoid": lambda x: ft.clip(x + 3.0, 0.0, 6.0) / 6.0,
    "nn.functional.hardswish": lambda x: x * ft.clip(x + 3.0, 0.0, 6.0) / 6.0,
    "nn.functional.hardtanh": lambda x, min_val=-1.0, max_val=1.0: nn.HardTanh(min_val, max_val)(x),
    "nn.functional.hinge_embedding_loss": _elementwise_loss(_hinge_embedding),
    "nn.functional.huber_loss": _loss(nn.huber),
    "nn.functional.instance_norm": _instance_norm,
    "nn.functional.kl_div": _loss(nn.kl_div),
    "nn.functional.l1_loss": _loss(nn.mae),
    "nn.functional.layer_norm": _layer_norm,
    "nn.functional.leaky_relu": lambda x, negative_slope=0.01: nn.LeakyReLU(negative_slope)(x),
    "nn.functional.linear": ft.linear,
    "nn.functional.local_response_norm": _local_response,
    "nn.functional.logsigmoid": lambda x: -ft.softplus(-x),
    "nn.functional.margin_ranking_loss": _margin_ranking,
    "nn.functional.mish": lambda x: x * ft.tanh(ft.softplus(x)),
    "nn.functional.mse_loss": _loss(nn.mse),
    "nn.functional.multilabel_soft_margin_loss": _multilabel_soft_margin,
    "nn.functional.nll_loss": _class_loss(getattr(nn, "nll_loss", nn.cross_entropy)),
    "nn.functional.normalize": _normalize,
    "nn.functional.one_hot": lambda x, num_classes=-1: ft.one_hot(
        x, num_classes if num_classes >= 0 else int(ft.max(x).item()) + 1, dtype="int64"
    ),
    "nn.functional.pairwise_distance": _distance,
    "nn.functional.pixel_shuffle": _pixel_shuffle,
    "nn.functional.pixel_unshuffle": _pixel_unshuffle,
    "nn.functional.poisson_nll_loss": _elementwise_loss(_poisson_nll),
    "nn.functional.prelu": _prelu,
    "nn.functional.relu": ft.relu,
    "nn.functional.relu6": lambda x: ft.clip(x, 0.0, 6.0),
    "nn.functional.rms_norm": _rms_norm,
    "nn.functional.scaled_dot_product_attention": _attention,
    "nn.functional.selu": _selu,
    "nn.functional.silu": ft.silu,
    "nn.functional.smooth_l1_loss": _elementwise_loss(_smooth_l1),
    "nn.functional.soft_margin_loss": _elementwise_loss(_soft_margin),
    "nn.functional.softplus": _softplus,
    "nn.functional.softshrink": lambda x, lambd=0.5: ft.where(
        ft.greater(x, lambd), x - lambd, ft.where(ft.less(x, -lambd), x + lambd, 0.0 * x)
    ),
    "nn.functional.softsign": lambda x: x / (1 + ft.absolute(x)),
    "nn.functional.tanhshrink": lambda x: x - ft.tanh(x),
    "nn.functional.threshold": _threshold,
    "nn.functional.triplet_margin_loss": _triplet,
}
for _n in (1, 2, 3):
    TABLE[f"nn.functional.conv{_n}d"] = _convolution(_n)
    TABLE[f"nn.functional.conv_transpose{_n}d"] = _transposed_convolution(_n)
    TABLE[f"nn.functional.avg_pool{_n}d"] = _avg_pool(_n)
    TABLE[f"nn.functional.max_pool{_n}d"] = _max_pool(_n)
