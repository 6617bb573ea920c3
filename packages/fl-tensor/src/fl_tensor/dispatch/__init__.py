"""Dispatch: from a public call to the backend."""
