"""Features of audio: spectra, filterbanks, cepstra, derivatives; in batches and streams."""

from fl_speech.features.cepstrum import dct_matrix as dct_matrix
from fl_speech.features.cepstrum import lifter_weights as lifter_weights
from fl_speech.features.extractor import FeatureExtractor as FeatureExtractor
from fl_speech.features.extractor import LogMel as LogMel
from fl_speech.features.extractor import log_mel as log_mel
from fl_speech.features.filterbank import hz_to_mel as hz_to_mel
from fl_speech.features.filterbank import mel_filterbank as mel_filterbank
from fl_speech.features.filterbank import mel_to_hz as mel_to_hz
from fl_speech.features.normalization import local_normalize as local_normalize
from fl_speech.features.normalization import normalize as normalize
from fl_speech.features.params import FeatureParams as FeatureParams
from fl_speech.features.sequence import deltas as deltas
from fl_speech.features.spectrum import dft_matrix as dft_matrix
from fl_speech.features.spectrum import frames as frames
from fl_speech.features.spectrum import power_spectrum as power_spectrum
from fl_speech.features.spectrum import pre_emphasis as pre_emphasis
from fl_speech.features.spectrum import window as window
from fl_speech.features.stream import FeatureStream as FeatureStream
