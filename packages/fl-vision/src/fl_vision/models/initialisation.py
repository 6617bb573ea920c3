"""Initial weights and drop path probabilities of networks with residual branches."""

from __future__ import annotations

import fl_nn as nn
import fl_tensor as ft
from fl_vision.errors import UsageError


def truncate_normal(model: nn.Module, std: float = 0.02) -> None:
    """Draw the weights of all linear layers, convolutions and attentions below `model` anew: normal
    with standard deviation `std`, cut off at two of these. Biases become zero."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Conv2D)):
            weight, bias = module.weight, module.bias
        elif isinstance(module, nn.MultiHeadAttention):
            weight, bias = module.in_proj_weight, module.in_proj_bias
        else:
            continue
        weight.tensor = nn.init.truncated_normal(weight.shape, 0.0, std, -2 * std, 2 * std)
        if bias is not None:
            bias.tensor = ft.zeros_like(bias.tensor)


def linear_drop_path(name: str, last: float, count: int) -> list[float]:
    """Probabilities for `count` branches: 0 for the first, `last` for the last, linear between."""
    if not 0.0 <= last < 1.0:
        raise UsageError(f"[{name}] drop_path={last}: a probability below 1")
    return [last * place / max(count - 1, 1) for place in range(count)]
