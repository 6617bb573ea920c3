"""From a call to the backend that computes it."""
