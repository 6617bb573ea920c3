"""Reference backends: each is imported when asked for by name, never by ``import fl_tensor``."""
