"""Hears of the errors that NVIDIA's driver numbers (XIDs), by its events or by the kernel's log.

Events are told only from when somebody listens, and who listens keeps the device from being reset.
So they are listened to only while a program computes on a GPU anyway. The kernel's log has those of
all this boot, where it may be read. An error that was heard of is told until the next boot.
"""

from __future__ import annotations

import os
import re
from typing import Any, Optional

from .files import JSONObject, read_json, write_json
from .system import boot_id

try:
    import ctypes

    _CAN_LISTEN = True
except ImportError:
    _CAN_LISTEN = False

KERNEL_LOG = "/dev/kmsg"
_LINE = re.compile(rb"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
_XID_EVENT = 8
_MOST_AT_ONCE = 64
_RECORD_BYTES = 8192
_KEPT = ("index", "uuid", "name", "memory_bytes", "xids")


class Xids:
    """What was heard in this boot, kept in a file for the next process that probes."""

    def __init__(self, path: str) -> None:
        self._path = path
        kept = read_json(path) or {}
        same_boot = kept.get("boot_id") == boot_id()
        self._known: dict[str, JSONObject] = dict(kept.get("gpus") or {}) if same_boot else {}
        self._log: Optional[int] = None
        self._ear: Optional[_Ear] = None

    def look(self, library: Any, gpus: list[JSONObject]) -> None:
        """Adds `xids` to each device: all that is known of this boot, null if none can be."""
        present = [gpu for gpu in gpus if gpu.get("uuid")]
        heard = self._read_log(present)
        if self._ear is not None:
            for index, number in self._ear.heard():
                heard += [(gpu, number) for gpu in present if gpu["index"] == index]
        self._listen(library, present)
        for gpu in present:
            before = self._known.get(gpu["uuid"], {}).get("xids") or []
            news = [number for one, number in heard if one is gpu]
            gpu["xids"] = sorted({*before, *news})
            if self._log is None and self._ear is None and not gpu["xids"]:
                gpu["xids"] = None

    def told(self, facts: JSONObject) -> JSONObject:
        """The facts with those devices that were there before in this boot, and aren't told now."""
        gpus = list(facts.get("gpus") or ())
        before = dict(self._known)
        # Slices come and go as somebody cuts a card anew; that of a card's own tells of its faults.
        cards = [gpu for gpu in gpus if "part_of" not in gpu]
        there = {gpu["uuid"]: gpu for gpu in cards if gpu.get("uuid")}
        self._known.update(
            {uuid: {key: gpu.get(key) for key in _KEPT} for uuid, gpu in there.items()}
        )
        if self._known != before:
            self._keep()
        for one in [one for uuid, one in self._known.items() if uuid not in there]:
            at = [gpu for gpu in gpus if gpu["index"] == one["index"]]
            if at and not at[0].get("uuid"):
                gpus[gpus.index(at[0])] = {**one, **at[0]}
                continue
            # The driver numbers anew what is left, and somebody else may have its number now.
            taken = [gpu["index"] for gpu in gpus if "part_of" not in gpu]
            free = one["index"] if not at else max(taken) + 1
            gpus.append({**one, "index": free, "gone": True, "trouble": "it is gone from the bus"})
        return {**facts, "gpus": sorted(gpus, key=lambda gpu: int(gpu["index"]))}

    def _keep(self) -> None:
        try:
            write_json(self._path, {"v": 1, "boot_id": boot_id(), "gpus": self._known})
        except OSError:
            return  # a full disk: the log or the driver will say it again

    def _read_log(self, gpus: list[JSONObject]) -> list[tuple[JSONObject, int]]:
        """Of the kernel's log what is new since the last look."""
        if self._log is None:
            try:
                self._log = os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                return []
        found = []
        while True:
            try:
                record = os.read(self._log, _RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # some were overwritten before they were read
            except OSError:
                os.close(self._log)
                self._log = None
                break
            if not record:
                break
            for place, number in _LINE.findall(record):
                at = _slot(place.decode())
                found += [(gpu, int(number)) for gpu in gpus if _slot(gpu.get("pci") or "") == at]
        return found

    def _listen(self, library: Any, gpus: list[JSONObject]) -> None:
        """Listens from now on if something computes, and no longer if nothing does."""
        is_used = any(gpu.get("processes") for gpu in gpus)
        if is_used and self._ear is None and _CAN_LISTEN:
            self._ear = _Ear.at(library, [gpu["index"] for gpu in gpus])
        elif not is_used and self._ear is not None:
            self._ear.close()
            self._ear = None


class _Ear:
    """Listens to the driver's events about some devices."""

    def __init__(self, library: Any, events: Any, handles: dict[int, int]) -> None:
        self._library, self._events, self._handles = library, events, handles

    @classmethod
    def at(cls, library: Any, indices: list[int]) -> Optional[_Ear]:
        """None where this driver doesn't tell, or not us."""
        events, handles = ctypes.c_void_p(), {}
        try:
            if library.nvmlInit_v2() != 0:
                return None
            if library.nvmlEventSetCreate(ctypes.byref(events)) != 0:
                library.nvmlShutdown()
                return None
            for index in indices:
                device = ctypes.c_void_p()
                library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device))
                kind = ctypes.c_ulonglong(_XID_EVENT)
                if library.nvmlDeviceRegisterEvents(device, kind, events) == 0:
                    handles[device.value or 0] = index
        except AttributeError:
            return None
        ear = cls(library, events, handles)
        if not handles:
            ear.close()
            return None
        return ear

    def heard(self) -> list[tuple[int, int]]:
        """What came since the last call: (index of the device, number)."""

        class Event(ctypes.Structure):
            _fields_ = (
                ("device", ctypes.c_void_p),
                ("type", ctypes.c_ulonglong),
                ("number", ctypes.c_ulonglong),
                ("gpu_instance", ctypes.c_uint),
                ("compute_instance", ctypes.c_uint),
            )

        found = []
        for _ in range(_MOST_AT_ONCE):
            event = Event()
            at_once = ctypes.c_uint(0)
            if self._library.nvmlEventSetWait_v2(self._events, ctypes.byref(event), at_once) != 0:
                break
            index = self._handles.get(event.device or 0)
            if event.type == _XID_EVENT and index is not None:
                found.append((index, int(event.number)))
        return found

    def close(self) -> None:
        self._library.nvmlEventSetFree(self._events)
        self._library.nvmlShutdown()


def _slot(place: str) -> str:
    """`00000000:3B:00.0` and `0000:3b:00` are the same slot."""
    parts = place.lower().partition(".")[0].split(":")
    return ":".join([parts[0][-4:], *parts[1:]]) if len(parts) == 3 else ""
