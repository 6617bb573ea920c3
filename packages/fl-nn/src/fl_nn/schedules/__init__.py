"""Learning-rate schedules."""

from fl_nn.schedules.cosine import CosineAnnealingLR as CosineAnnealingLR
from fl_nn.schedules.cosine import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from fl_nn.schedules.onecycle import OneCycleLR as OneCycleLR
from fl_nn.schedules.plateau import ReduceLROnPlateau as ReduceLROnPlateau
from fl_nn.schedules.schedule import LRScheduler as LRScheduler
from fl_nn.schedules.sequential import SequentialLR as SequentialLR
from fl_nn.schedules.simple import ConstantLR as ConstantLR
from fl_nn.schedules.simple import ExponentialLR as ExponentialLR
from fl_nn.schedules.simple import InverseSquareRootLR as InverseSquareRootLR
from fl_nn.schedules.simple import LambdaLR as LambdaLR
from fl_nn.schedules.simple import LinearLR as LinearLR
from fl_nn.schedules.simple import MultiStepLR as MultiStepLR
from fl_nn.schedules.simple import PolynomialLR as PolynomialLR
from fl_nn.schedules.simple import StepLR as StepLR
