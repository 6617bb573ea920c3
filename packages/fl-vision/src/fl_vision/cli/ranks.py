"""`fl-vision train` on one rank or many: those of a launcher, or ranks that are started here."""

from __future__ import annotations

import argparse

from fl_nn.training import on_ranks
from fl_vision.cli.train import train


def train_on_ranks(arguments: argparse.Namespace) -> None:
    """Train on the ranks of a launcher or of `--ranks`, and print what rank 0 reports."""
    for line in on_ranks(train, arguments, arguments.ranks, arguments.communicator):
        print(line)
