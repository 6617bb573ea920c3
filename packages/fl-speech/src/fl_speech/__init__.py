"""Audio files as tensors, log-mel features, and datasets of recordings."""

from fl_speech._version import __version__ as __version__
from fl_speech.audio import AudioInfo as AudioInfo
from fl_speech.audio import audio_info as audio_info
from fl_speech.audio import load_audio as load_audio
from fl_speech.errors import AudioError as AudioError
from fl_speech.errors import FlError as FlError
from fl_speech.features import FeatureParams as FeatureParams
from fl_speech.features import LogMel as LogMel
from fl_speech.features import dft_matrix as dft_matrix
from fl_speech.features import frames as frames
from fl_speech.features import hz_to_mel as hz_to_mel
from fl_speech.features import log_mel as log_mel
from fl_speech.features import mel_filterbank as mel_filterbank
from fl_speech.features import mel_to_hz as mel_to_hz
from fl_speech.features import power_spectrum as power_spectrum
from fl_speech.features import pre_emphasis as pre_emphasis
from fl_speech.features import window as window
from fl_speech.folder import AudioFolder as AudioFolder
from fl_speech.folder import fit_length as fit_length
from fl_speech.resampling import resample as resample
from fl_speech.saving import save_audio as save_audio
