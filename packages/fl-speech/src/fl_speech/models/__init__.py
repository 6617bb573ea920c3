"""Acoustic models: architecture files, modules in code, and networks with published weights."""

from fl_speech.models.acoustic import AcousticModel as AcousticModel
from fl_speech.models.acoustic import arch_names as arch_names
from fl_speech.models.acoustic import load_arch as load_arch
from fl_speech.models.python_file import from_python as from_python
from fl_speech.models.streaming import Stream as Stream
