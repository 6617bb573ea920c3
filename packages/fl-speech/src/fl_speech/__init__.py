from fl_speech._version import __version__ as __version__
