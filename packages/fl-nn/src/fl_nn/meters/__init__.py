"""Meters: metrics accumulated over batches and ranks."""

from fl_nn.meters.average import Average as Average
from fl_nn.meters.average import AverageValueMeter as AverageValueMeter
from fl_nn.meters.count import CountMeter as CountMeter
from fl_nn.meters.edits import EditDistanceMeter as EditDistanceMeter
from fl_nn.meters.edits import ErrorCounts as ErrorCounts
from fl_nn.meters.edits import ErrorRates as ErrorRates
from fl_nn.meters.meter import Meter as Meter
from fl_nn.meters.shares import FrameErrorMeter as FrameErrorMeter
from fl_nn.meters.shares import TopKMeter as TopKMeter
from fl_nn.meters.squares import MSEMeter as MSEMeter
from fl_nn.meters.time import TimeMeter as TimeMeter
