"""Installed backends that can be used here. One of a device that is missing is left out; any other
that cannot be loaded is an error."""

from __future__ import annotations

import fl_tensor as ft

#: Backends that need a device and its library.
_OF_DEVICES = {"cupy"}


def _is_usable(name: str) -> bool:
    try:
        backend = ft.get_backend(name)
        return bool(backend.devices()) and backend.has_values
    except ft.FlError:
        if name in _OF_DEVICES:
            return False
        raise


#: Names of those whose arrays have values.
USABLE = [name for name in ft.available_backends() if _is_usable(name)]
