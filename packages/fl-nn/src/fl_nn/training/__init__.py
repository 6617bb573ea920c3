"""The training loop and what it shows."""

from fl_nn.training.log import JsonLog as JsonLog
from fl_nn.training.progress import Progress as Progress
from fl_nn.training.trainer import Trainer as Trainer
