"""An encoder layer with the names of torch.nn.TransformerEncoderLayer, without its detours: batch
first throughout, one product for queries, keys and values, PyTorch's own fused attention."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class Attention(nn.Module):
    """As torch.nn.MultiheadAttention of a sequence with itself."""

    def __init__(self, size: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        projection = nn.Linear(size, 3 * size)
        self.in_proj_weight, self.in_proj_bias = projection.weight, projection.bias
        self.out_proj = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        n, steps, size = x.shape
        qkv = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = qkv.view(n, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        p = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=p)
        return self.out_proj(mixed.transpose(1, 2).reshape(n, steps, size))


class EncoderLayer(nn.Module):
    """As torch.nn.TransformerEncoderLayer."""

    def __init__(
        self,
        size: int,
        heads: int,
        hidden: int,
        dropout: float,
        activation: str = "relu",
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        self.self_attn = Attention(size, heads, dropout)
        self.linear1 = nn.Linear(size, hidden)
        self.linear2 = nn.Linear(hidden, size)
        self.norm1 = nn.LayerNorm(size)
        self.norm2 = nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)
        self.activation = {"relu": F.relu, "gelu": F.gelu}[activation]
        self.norm_first = norm_first

    def forward(self, x: Tensor) -> Tensor:
        if self.norm_first:
            x = x + self.dropout(self.self_attn(self.norm1(x)))
            return x + self.dropout(self.feed_forward(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.self_attn(x)))
        return self.norm2(x + self.dropout(self.feed_forward(x)))

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))
