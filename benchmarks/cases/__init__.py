"""What several benchmarks compute, in each library; libraries are imported when asked for."""

from __future__ import annotations


def settle() -> None:
    """Return when our backend has made the plans that it makes in the background."""
    import fl_tensor as ft

    if ft.current_backend().name == "jit":
        ft.jit.wait()
