"""Recording of deferred operations, one module per family."""
