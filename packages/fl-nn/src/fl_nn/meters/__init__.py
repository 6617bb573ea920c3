"""Meters: metrics accumulated over batches and ranks."""

from fl_nn.meters.average import Average as Average
from fl_nn.meters.average import AverageValueMeter as AverageValueMeter
from fl_nn.meters.classification import FrameErrorMeter as FrameErrorMeter
from fl_nn.meters.classification import TopKMeter as TopKMeter
from fl_nn.meters.count import CountMeter as CountMeter
from fl_nn.meters.edit_distance import EditDistanceMeter as EditDistanceMeter
from fl_nn.meters.edit_distance import ErrorCounts as ErrorCounts
from fl_nn.meters.edit_distance import ErrorRates as ErrorRates
from fl_nn.meters.mean_squared_error import MSEMeter as MSEMeter
from fl_nn.meters.meter import Meter as Meter
from fl_nn.meters.time import TimeMeter as TimeMeter
