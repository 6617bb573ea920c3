"""Samples that come one after the other, without length or index."""
