"""``fl-tensor conformance NAME [options]``: the same as ``python -m fl_tensor.testing``."""

from __future__ import annotations


def main(arguments: list[str]) -> int:
    """Run the kit on one backend; 0 when every test passed."""
    from fl_tensor.testing.__main__ import main as run

    return run(arguments, prog="fl-tensor conformance")
