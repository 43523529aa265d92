"""Finds out which GPUs are joined by NVLink. Links don't change, so they are asked for seldom."""

from __future__ import annotations

from typing import Any, Optional

from .files import JSONObject
from .system import monotonic_ms

try:
    import ctypes
except ImportError:
    pass  # then no library could be loaded that would be asked here

MOST_LINKS = 36
ASK_AGAIN_MS = 600_000
_PCI_BYTES = 68
_PCI_ID_AT = 36
_SWITCH = 2

_known: dict[str, tuple[int, Optional[JSONObject]]] = {}


def links(library: Any, pci: Optional[str], device: Any) -> Optional[JSONObject]:
    """`{links, peers, switch}`: how many links are up, to whom (by PCI address), and whether to a
    switch, which joins all that hang on it. None where there is none.
    """
    if pci is None:
        return None
    at_ms, told = _known.get(pci, (0, None))
    if not at_ms or monotonic_ms() - at_ms > ASK_AGAIN_MS:
        told = _ask(library, device)
        _known[pci] = (monotonic_ms(), told)
    return told


def _ask(library: Any, device: Any) -> Optional[JSONObject]:
    try:
        state = library.nvmlDeviceGetNvLinkState
        remote = library.nvmlDeviceGetNvLinkRemotePciInfo_v2
    except AttributeError:
        return None  # an older driver
    kind = getattr(library, "nvmlDeviceGetNvLinkRemoteDeviceType", None)
    up, peers, switch = 0, [], False
    for link in range(MOST_LINKS):
        active = ctypes.c_uint()
        if state(device, ctypes.c_uint(link), ctypes.byref(active)) != 0:
            break
        if not active.value:
            continue
        up += 1
        what = ctypes.c_uint()
        told = kind is not None and kind(device, ctypes.c_uint(link), ctypes.byref(what)) == 0
        if told and what.value == _SWITCH:
            switch = True
            continue
        place = ctypes.create_string_buffer(_PCI_BYTES)
        if remote(device, ctypes.c_uint(link), place) == 0:
            peers.append(place.raw[_PCI_ID_AT:].partition(b"\0")[0].decode("ascii", "replace"))
    return {"links": up, "peers": sorted(set(peers)), "switch": switch} if up else None
