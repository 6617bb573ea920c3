"""A tensor backend in pure Python, written against the contract `tensor 1.0` and nothing else."""

from acme_backend.backend import AcmeBackend as AcmeBackend
