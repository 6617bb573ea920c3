"""Samples of other datasets: a part of them, several as one, in another order."""
