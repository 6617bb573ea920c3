from fl_tensor._version import __version__ as __version__
