"""Installed backends that can be used here: their library and a device are there."""

from __future__ import annotations

import fl_tensor as ft


def _is_usable(name: str) -> bool:
    try:
        backend = ft.get_backend(name)
        return bool(backend.devices()) and backend.has_values
    except ft.FlError:
        return False


#: Names of those whose arrays have values.
USABLE = [name for name in ft.available_backends() if _is_usable(name)]
