from fl_data._version import __version__ as __version__
