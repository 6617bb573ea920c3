"""Streams: sequential samples without length or index."""
