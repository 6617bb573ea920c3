"""Optimizers, one per file."""

from fl_nn.optim.adam import Adam as Adam
from fl_nn.optim.optimizer import Optimizer as Optimizer
from fl_nn.optim.sgd import SGD as SGD
