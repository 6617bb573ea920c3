"""Samples made ahead of time: `Prefetch`, its threads, its processes and what goes between them."""
