"""The array classes: ``Array``, the common base, and ``Tensor``."""
