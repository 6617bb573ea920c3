"""Models and optimizers of the tests of compiled steps."""

from __future__ import annotations

import fl_nn as nn
import fl_tensor as ft

OPTIMIZERS = {
    "SGD": lambda p: nn.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
    "SGD, nesterov": lambda p: nn.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "Adam": lambda p: nn.Adam(p, 0.01),
    "AdamW": lambda p: nn.AdamW(p, 0.01),
    "AMSgrad": lambda p: nn.AMSgrad(p, 0.01),
    "Adadelta": lambda p: nn.Adadelta(p, 0.1),
    "Adagrad": lambda p: nn.Adagrad(p, 0.1, lr_decay=0.1),
    "RMSprop": lambda p: nn.RMSprop(p, 0.01, momentum=0.5),
    "NAG": lambda p: nn.NAG(p, 0.1, 0.9),
    "LAMB": lambda p: nn.LAMB(p, 0.01),
    "Novograd": lambda p: nn.Novograd(p, 0.01),
    "Adafactor": lambda p: nn.Adafactor(p, 0.01),
    "Lion": lambda p: nn.Lion(p, 0.01),
}


def mlp():
    return nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3)
    )


def convolutions():
    return nn.Sequential(
        nn.View((-1, 1, 4, 4)), nn.Conv2D(1, 4, 3, padding=1), nn.GELU(), nn.Pool2D(2),
        nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip


class Recurrent(nn.Module):
    def __init__(self):
        self.rnn, self.head = nn.LSTM(4, 5), nn.Linear(5, 3)

    def forward(self, x):
        y, _ = self.rnn(ft.reshape(x, (-1, 4, 4)))
        return self.head(y[:, -1])


class Attention(nn.Module):
    def __init__(self):
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(ft.mean(self.layer(ft.reshape(x, (-1, 4, 4))), 1))


class Table(nn.Module):
    def __init__(self):
        self.table, self.head = nn.Embedding(10, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(ft.mean(self.table((ft.abs(x) * 3).astype("int64")), 1))


MODELS = {
    "mlp": (mlp, 6),
    "convolutions": (convolutions, 16),
    "recurrent": (Recurrent, 16),
    "attention": (Attention, 16),
    "table": (Table, 6),
}
