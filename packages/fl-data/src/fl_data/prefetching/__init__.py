"""`Prefetch`: background workers in threads or processes."""
