"""Heads of language models: losses and log-probabilities of tokens, from vectors of a network."""

from fl_text.heads.adaptive import AdaptiveSoftMax as AdaptiveSoftMax
from fl_text.heads.full import FullSoftmax as FullSoftmax
from fl_text.heads.noise_contrastive import NoiseContrastive as NoiseContrastive
from fl_text.heads.proposals import Proposal as Proposal
from fl_text.heads.proposals import log_uniform as log_uniform
from fl_text.heads.proposals import unigram as unigram
from fl_text.heads.protocol import Head as Head
from fl_text.heads.sampled import SampledSoftmax as SampledSoftmax
