from fl_autograd._version import __version__ as __version__
