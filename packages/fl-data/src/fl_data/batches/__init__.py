"""Batches: of one size, or of samples of similar length; how samples are put together."""
