from fl_memory._version import __version__ as __version__
