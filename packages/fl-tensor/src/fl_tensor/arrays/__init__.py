"""What users hold: ``Array``, written once for everything that is one, and ``Tensor``."""
