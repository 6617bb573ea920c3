"""A network on a table of scikit-learn: its data, its scaler and its metric are used as they are.

The table is that of breast cancer in Wisconsin, with 30 columns. The figure is the share of rows in
the test part that the network gets wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.datasets import load_breast_cancer
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

STEPS, GOAL = 150, 0.06


def program() -> tuple[Callable[[], Any], Callable[[], float]]:
    """A step of the training, and the figure."""
    ft.seed(0)
    rows, classes = load_breast_cancer(return_X_y=True)
    parts = train_test_split(rows, classes, test_size=0.3, random_state=0, stratify=classes)
    scaler = StandardScaler().fit(parts[0])
    x, test_x = (ft.asarray(scaler.transform(part), dtype=ft.float32) for part in parts[:2])
    y, test_y = ft.asarray(parts[2]), parts[3]
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2))
    optimizer = nn.AdamW(model.parameters(), lr=3e-3)
    draw = ft.Generator(1)

    def step() -> Any:
        chosen = draw.integers(0, len(x), 64)
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(ft.take(x, chosen, axis=0)), ft.take(y, chosen, axis=0))
        loss.backward()
        optimizer.step()
        return loss

    def figure() -> float:
        model.eval()
        with ag.no_grad():
            found = ft.argmax(model(test_x), axis=1)
        model.train()
        return 1.0 - float(accuracy_score(test_y, found.numpy()))

    return nn.compile(step), figure
