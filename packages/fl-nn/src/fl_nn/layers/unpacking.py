"""Does the caller take the result of a call apart, ``y, w = layer(x)``?"""

from __future__ import annotations

from opcode import opmap
from types import FrameType

_UNPACK, _UNPACK_STARRED = opmap["UNPACK_SEQUENCE"], opmap["UNPACK_EX"]
#: Places that the interpreter keeps behind an instruction for itself.
_CACHE = opmap.get("CACHE")


def is_unpacked(caller: FrameType) -> bool:
    """Whether the instruction behind the call that ``caller`` is in takes the result apart: into
    two, or into some and the rest."""
    code, place = caller.f_code.co_code, caller.f_lasti + 2
    while code[place] == _CACHE:
        place += 2
    return code[place] == _UNPACK_STARRED or (code[place] == _UNPACK and code[place + 1] == 2)
