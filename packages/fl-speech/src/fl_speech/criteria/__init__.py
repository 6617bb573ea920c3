"""Criteria over sequences: losses, best paths and forced alignments of acoustic models."""

from fl_speech.criteria.attention import Attention as Attention
from fl_speech.criteria.attention import ContentAttention as ContentAttention
from fl_speech.criteria.attention import LocationAttention as LocationAttention
from fl_speech.criteria.attention import MultiHeadContentAttention as MultiHeadContentAttention
from fl_speech.criteria.attention import NeuralContentAttention as NeuralContentAttention
from fl_speech.criteria.attention import NeuralLocationAttention as NeuralLocationAttention
from fl_speech.criteria.attention import SimpleLocationAttention as SimpleLocationAttention
from fl_speech.criteria.attention import make_attention as make_attention
from fl_speech.criteria.criterion import SCALE_MODES as SCALE_MODES
from fl_speech.criteria.criterion import Criterion as Criterion
from fl_speech.criteria.ctc import CTC as CTC
from fl_speech.criteria.ctc import ctc_loss as ctc_loss
from fl_speech.criteria.decoder_criterion import DecoderCriterion as DecoderCriterion
from fl_speech.criteria.decoder_state import DecoderState as DecoderState
from fl_speech.criteria.emitting import EmittingModel as EmittingModel
from fl_speech.criteria.rnnt import rnnt_loss as rnnt_loss
from fl_speech.criteria.seq2seq import Seq2Seq as Seq2Seq
from fl_speech.criteria.transformer import TransformerCriterion as TransformerCriterion
from fl_speech.criteria.windows import MedianWindow as MedianWindow
from fl_speech.criteria.windows import SoftPretrainWindow as SoftPretrainWindow
from fl_speech.criteria.windows import SoftWindow as SoftWindow
from fl_speech.criteria.windows import StepWindow as StepWindow
from fl_speech.criteria.windows import Window as Window
from fl_speech.criteria.windows import make_window as make_window
