"""Depthwise convolutions, and convolutions of small groups: vectors run over channels."""
