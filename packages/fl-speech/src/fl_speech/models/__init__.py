"""Acoustic models: architecture files, modules in code, and networks with published weights."""

from fl_speech.models.acoustic import AcousticModel as AcousticModel
from fl_speech.models.acoustic import arch_names as arch_names
from fl_speech.models.acoustic import load_arch as load_arch
from fl_speech.models.python_file import from_python as from_python
from fl_speech.models.streaming import Stream as Stream
from fl_speech.models.wav2vec2 import WAV2VEC2_HUGGING_FACE as WAV2VEC2_HUGGING_FACE
from fl_speech.models.wav2vec2 import Wav2Vec2 as Wav2Vec2
from fl_speech.models.wav2vec2 import normalized as normalized
from fl_speech.models.whisper import WHISPER_HUGGING_FACE as WHISPER_HUGGING_FACE
from fl_speech.models.whisper import Whisper as Whisper
from fl_speech.models.whisper_features import whisper_features as whisper_features
