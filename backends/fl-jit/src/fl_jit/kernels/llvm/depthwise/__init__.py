"""Convolutions in which every channel has a kernel of its own: vectors run over channels."""
