"""Tables that turn outputs of filters into cepstra."""

from __future__ import annotations

import math

import fl_tensor as ft
from fl_speech.features.filterbank import widest_float
from fl_tensor.annotations import checked


@checked
def dct_matrix(filters: int, coefficients: int, norm: str = "htk") -> ft.Tensor:
    """`(filters, coefficients)`: `log_outputs @ matrix` is their discrete cosine transform, type 2.

    Element (m, k) is `sqrt(2 / filters) cos(pi k (m + 1/2) / filters)`, as in HTK and Flashlight;
    `norm="orthonormal"` has `sqrt(1 / filters)` for k = 0, as Kaldi. float64, or float32 where a
    backend lacks it. Raises `ft.ArgumentError` unless `1 <= coefficients <= filters`.
    """
    if not 1 <= coefficients <= filters:
        raise ft.ArgumentError(
            f"[dct_matrix] {coefficients} coefficients of {filters} filters: need "
            f"1 <= coefficients <= filters"
        )
    if norm not in ("htk", "orthonormal"):
        raise ft.ArgumentError(f"[dct_matrix] norm {norm!r} must be 'htk' or 'orthonormal'")
    import numpy as np

    places, k = np.arange(filters) + 0.5, np.arange(coefficients)
    table = math.sqrt(2.0 / filters) * np.cos(math.pi / filters * np.outer(places, k))
    if norm == "orthonormal":
        table[:, 0] = math.sqrt(1.0 / filters)
    return ft.asarray(table, dtype=widest_float())


@checked
def lifter_weights(coefficients: int, lifter: float) -> ft.Tensor:
    """`1 + lifter / 2 sin(pi k / lifter)` for k from 0 on, `(coefficients,)`; ones for lifter 0.

    HTK's formula (The HTK Book, 5.4). float64, or float32 where a backend lacks it. Raises
    `ft.ArgumentError` for a negative lifter and no coefficients.
    """
    if coefficients < 1 or not 0 <= lifter < math.inf:
        raise ft.ArgumentError(
            f"[lifter_weights] {coefficients} coefficients, lifter {lifter}: need at least 1 and 0"
        )
    values = [
        1.0 + lifter / 2 * math.sin(math.pi * k / lifter) if lifter else 1.0
        for k in range(coefficients)
    ]
    return ft.asarray(values, dtype=widest_float())
