"""Bridges to other libraries of speech, each a module that is imported by its name."""
