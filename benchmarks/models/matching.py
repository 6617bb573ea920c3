"""Which query finds which object, for both sides of the benchmark of DETR: scipy's assignment."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

#: Weights of a class, of the distance of boxes, and of their overlap: Carion et al., 2020.
CLASS, DISTANCE, OVERLAP = 1.0, 5.0, 2.0
#: Weight of the class "no object" in the cross entropy.
NO_OBJECT = 0.1


def assign(costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Costs (N, queries, objects) give, for each object of each image, its image and its query,
    (N * objects,) each, objects in order."""
    images, queries = [], []
    for image, cost in enumerate(costs):
        rows, columns = linear_sum_assignment(cost)
        queries.append(rows[np.argsort(columns)])
        images.append(np.full(cost.shape[1], image))
    return np.concatenate(images), np.concatenate(queries)
