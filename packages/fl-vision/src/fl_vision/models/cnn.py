"""The convolutional network of the paper's Listing 8, for images of any size."""

from __future__ import annotations

from collections.abc import Sequence

from fl_nn import Conv2D, Dropout, Linear, Pool2D, ReLU, Sequential, View
from fl_tensor.annotations import checked
from fl_vision.errors import UsageError

CHANNELS = (32, 64)
_SMALLEST = 4


@checked
def cnn(
    image_shape: Sequence[int] = (1, 28, 28),
    classes: int = 10,
    *,
    dropout: float = 0.5,
    kernel: int | None = None,
    channels: tuple[int, int] = CHANNELS,
    hidden: int | None = None,
) -> Sequential:
    """Two convolutions with pooling, then two linear layers; gives (N, classes) logits.

    The log-softmax that ends the listing is part of the loss here, `fl_nn.cross_entropy`.

    For (1, 28, 28) this is the network of Listing 8: 5x5 kernels, 32 and 64 channels, 1,024
    hidden units. Images below 16 pixels get 3x3 kernels, and where fewer than 2,048 features
    reach the linear layers these have 128 hidden units; `kernel`, `channels` and `hidden` override
    that.

    Raises `UsageError` for images below 4x4, fewer than 2 classes, or an even kernel.
    """
    kernel, features, hidden = _layout(image_shape, classes, kernel, channels, hidden)
    first, second = channels
    return Sequential(
        Conv2D(image_shape[0], first, kernel, padding="same"),
        ReLU(),
        Pool2D(2, 2),
        Conv2D(first, second, kernel, padding="same"),
        ReLU(),
        Pool2D(2, 2),
        View((-1, features)),
        Linear(features, hidden),
        ReLU(),
        Dropout(dropout),
        Linear(hidden, classes),
    )


def weight_count(image_shape: Sequence[int], classes: int) -> int:
    """How many numbers the parameters of `cnn(image_shape, classes)` are, without building it."""
    first, second = CHANNELS
    kernel, features, hidden = _layout(image_shape, classes, None, CHANNELS, None)
    convolutions = (image_shape[0] * kernel**2 + 1) * first + (first * kernel**2 + 1) * second
    return convolutions + (features + 1) * hidden + (hidden + 1) * classes


def _layout(
    image_shape: Sequence[int],
    classes: int,
    kernel: int | None,
    channels: tuple[int, int],
    hidden: int | None,
) -> tuple[int, int, int]:
    """Kernel size, features after the convolutions, hidden units."""
    if len(image_shape) != 3 or min(image_shape) < 1 or min(image_shape[1:]) < _SMALLEST:
        raise UsageError(
            f"[cnn] image shape {tuple(image_shape)}: give (channels, height, width) of at "
            f"least {_SMALLEST} x {_SMALLEST} pixels"
        )
    if classes < 2:
        raise UsageError(f"[cnn] {classes} classes; give at least 2")
    height, width = image_shape[1:]
    if kernel is None:
        kernel = 5 if min(height, width) >= 16 else 3
    if kernel < 1 or kernel % 2 == 0:
        raise UsageError(f"[cnn] kernel {kernel} has no centre; give an odd size")
    features = channels[1] * (height // 4) * (width // 4)
    if hidden is None:
        hidden = 1024 if features >= 2048 else 128
    return kernel, features, hidden
