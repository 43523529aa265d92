"""Gives up all of root's rights but those to become somebody else and to end their processes.

What is left can't read, write or follow anything in a home that its owner keeps closed. Programs
that are started as a person afterwards have what that person has, no less: set-user-id programs
work as after a login.
"""

import ctypes
import os
import struct

KILL, SETGID, SETUID = 5, 6, 7
KEPT = (KILL, SETGID, SETUID)
_VERSION_3 = 0x20080522


def keep_few_rights() -> str:
    """Keeps three capabilities of root's; says why that couldn't be, else gives an empty text."""
    kept = sum(1 << number for number in KEPT)
    header = struct.pack("Ii", _VERSION_3, 0)
    data = struct.pack("6I", kept, kept, 0, 0, 0, 0)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        done = libc.capset(header, data)
    except (OSError, AttributeError) as error:
        return str(error)
    return "" if done == 0 else os.strerror(ctypes.get_errno())
