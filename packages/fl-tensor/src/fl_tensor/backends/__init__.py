"""Reference backends. Each is imported when it is asked for by name, never by ``import fl_tensor``."""
