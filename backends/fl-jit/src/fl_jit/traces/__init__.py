"""Tracing: deferred values, recorded calls, and the reuse of recordings."""
