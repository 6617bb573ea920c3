"""Kernels of the gradient of the full-connect score: the posterior of each class and step.

The posterior of a frame follows from that of the next one and the forward pass. So no backward
variable needs a scale of its own.
"""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math

import fl_tensor as ft
from fl_speech.criteria.full_connection_kernel import Lattice, Transitions, arrive
from fl_tensor.kernels import Array


@ft.kernel
def full_connection_gradient(
    lengths: Array[ft.int64],
    frames: int,
    classes: int,
    trans: Transitions,
    lattice: Lattice,
    scores: Array[ft.float64],
    g: Array[ft.float64],
    work: Array[ft.float64],
    to_emissions: Array[ft.float64],
    products: Array[ft.float64],
    to_transitions: Array[ft.float64],
) -> None:
    """Writes the gradients of ``sum(g * scores)``; all results are zero at first.

    ``products`` times ``trans.exps`` is what scaled samples add to ``to_transitions``. In ``work``
    is room for (frames, classes). A sample without any path has gradient 0; a NaN score passes on.
    """
    for sample in range(len(lengths)):
        at = sample * frames * classes
        length = lengths[sample]
        if length == 0 or g[sample] == 0.0 or scores[sample] == -math.inf:
            continue
        if lattice.scaled[sample] == 1:
            scaled_gradient(
                at, length, classes, trans, lattice, g[sample], work, to_emissions, products
            )
        else:
            logarithmic_gradient(
                at, length, classes, trans, lattice, scores[sample], g[sample], to_emissions,
                to_transitions,
            )  # fmt: skip


@ft.kernel
def scaled_gradient(
    at: int,
    length: int,
    classes: int,
    trans: Transitions,
    lattice: Lattice,
    g: float,
    work: Array[ft.float64],
    to_emissions: Array[ft.float64],
    products: Array[ft.float64],
) -> None:
    """The posterior of each frame from that of the next one."""
    forward = lattice.forward
    last = at + (length - 1) * classes
    for i in range(classes):
        to_emissions[last + i] = g * forward[last + i]
    for t in range(length - 1, 0, -1):
        now = at + t * classes
        for i in range(classes):
            work[t * classes + i] = to_emissions[now + i] / lattice.arrived[now + i]
        before = now - classes
        arrive(trans.exps, classes, work, t * classes, to_emissions, before)
        for i in range(classes):
            to_emissions[before + i] *= forward[before + i]
    whole = 1 + ((length - 1) & ~3)
    for t in range(1, whole, 4):
        before = at + (t - 1) * classes
        for i in range(classes):
            a = work[t * classes + i]
            b = work[(t + 1) * classes + i]
            c = work[(t + 2) * classes + i]
            d = work[(t + 3) * classes + i]
            row = i * classes
            for j in range(classes):
                products[row + j] += (
                    a * forward[before + j]
                    + b * forward[before + classes + j]
                    + c * forward[before + 2 * classes + j]
                    + d * forward[before + 3 * classes + j]
                )
    for t in range(whole, length):
        before = at + (t - 1) * classes
        for i in range(classes):
            a = work[t * classes + i]
            for j in range(classes):
                products[i * classes + j] += a * forward[before + j]


@ft.kernel
def logarithmic_gradient(
    at: int,
    length: int,
    classes: int,
    trans: Transitions,
    lattice: Lattice,
    score: float,
    g: float,
    to_emissions: Array[ft.float64],
    to_transitions: Array[ft.float64],
) -> None:
    """As `scaled_gradient`, from logarithms."""
    forward = lattice.forward
    last = at + (length - 1) * classes
    for i in range(classes):
        to_emissions[last + i] = g * math.exp(forward[last + i] - score)
    for t in range(length - 1, 0, -1):
        now = at + t * classes
        before = now - classes
        for i in range(classes):
            slope = to_emissions[now + i]
            if slope == 0.0:
                continue
            for j in range(classes):
                place = i * classes + j
                share = slope * math.exp(
                    forward[before + j] + trans.scores[place] - lattice.arrived[now + i]
                )
                to_emissions[before + j] += share
                to_transitions[place] += share
