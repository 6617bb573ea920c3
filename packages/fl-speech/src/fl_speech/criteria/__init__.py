"""Criteria over sequences: losses, best paths and forced alignments of acoustic models."""

from fl_speech.criteria.asg import ASG as ASG
from fl_speech.criteria.asg import ForceAlignment as ForceAlignment
from fl_speech.criteria.asg import FullConnection as FullConnection
from fl_speech.criteria.asg_scores import asg_loss as asg_loss
from fl_speech.criteria.asg_scores import force_alignment_score as force_alignment_score
from fl_speech.criteria.asg_scores import full_connection_score as full_connection_score
from fl_speech.criteria.criterion import SCALE_MODES as SCALE_MODES
from fl_speech.criteria.criterion import Criterion as Criterion
from fl_speech.criteria.ctc import CTC as CTC
from fl_speech.criteria.ctc import ctc_loss as ctc_loss
from fl_speech.criteria.linear_segmentation import LinearSegmentation as LinearSegmentation
from fl_speech.criteria.linear_segmentation import stretch_targets as stretch_targets
from fl_speech.criteria.viterbi import forced_path as forced_path
from fl_speech.criteria.viterbi import forced_places as forced_places
from fl_speech.criteria.viterbi import viterbi_path as viterbi_path
