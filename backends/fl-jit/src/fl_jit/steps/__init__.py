"""Execution: the interpreter of traces, and the steps of plans."""
