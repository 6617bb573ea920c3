"""Optimizers, gradient clipping, accumulation, and weight averages."""

from fl_nn.optim.accumulation import GradientAccumulation as GradientAccumulation
from fl_nn.optim.adadelta import Adadelta as Adadelta
from fl_nn.optim.adafactor import Adafactor as Adafactor
from fl_nn.optim.adagrad import Adagrad as Adagrad
from fl_nn.optim.adam import Adam as Adam
from fl_nn.optim.adam import AdamW as AdamW
from fl_nn.optim.adam import AMSgrad as AMSgrad
from fl_nn.optim.clipping import clip_grad_norm_ as clip_grad_norm_
from fl_nn.optim.clipping import clip_grad_value_ as clip_grad_value_
from fl_nn.optim.ema import EMA as EMA
from fl_nn.optim.lamb import LAMB as LAMB
from fl_nn.optim.lbfgs import LBFGS as LBFGS
from fl_nn.optim.lion import Lion as Lion
from fl_nn.optim.loss_scaling import DynamicLossScaler as DynamicLossScaler
from fl_nn.optim.nag import NAG as NAG
from fl_nn.optim.novograd import Novograd as Novograd
from fl_nn.optim.optimizer import Optimizer as Optimizer
from fl_nn.optim.rmsprop import RMSprop as RMSprop
from fl_nn.optim.sgd import SGD as SGD
from fl_nn.optim.sparse_adam import SparseAdam as SparseAdam
