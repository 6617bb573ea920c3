"""Criteria over sequences: losses, best paths and forced alignments of acoustic models."""

from fl_speech.criteria.criterion import SCALE_MODES as SCALE_MODES
from fl_speech.criteria.criterion import Criterion as Criterion
from fl_speech.criteria.ctc import CTC as CTC
from fl_speech.criteria.ctc import ctc_loss as ctc_loss
from fl_speech.criteria.rnnt import rnnt_loss as rnnt_loss
