from fl_dist._version import __version__ as __version__
