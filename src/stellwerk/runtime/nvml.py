"""Reads GPUs through NVIDIA's management library, where the driver brought it.

A function the driver doesn't know, or doesn't allow, gives null for its value and nothing else.
`STELLWERK_NVML_LIBRARY` names another library than the driver's. What its figures say about a
device's health is for others to judge.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Optional

from . import nvlink
from .files import JSONObject
from .processes import command_name, run_of
from .system import memory_sizes
from .xids import Xids

try:
    import ctypes

    _CAN_LOAD = True
except ImportError:
    _CAN_LOAD = False

_DEFAULT_LIBRARY = "libnvidia-ml.so.1"
_TEXT_BYTES = 96
_NOT_SUPPORTED = 3
_INSUFFICIENT_SIZE = 7
_GPU_IS_LOST = 15
_UNCORRECTED = 1
_SINCE_DRIVER_LOADED = 0
_RECOVERY_ACTION = 230
_PCI_BYTES = 68
_PCI_ID_AT = 36
_UNKNOWN = (1 << 64) - 1
_GRAPHICS = "nvmlDeviceGetGraphicsRunningProcesses"
_PROCESS_LISTS = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    _GRAPHICS,
)
_MPS_SERVER = "nvidia-cuda-mps"
"""Its server is on the card for others: it computes nothing of its own."""

SLICES_FROM = 100
"""MIG slices are numbered after the cards: slice 2 of GPU 1 is 202."""


def devices(xids: Optional[Xids] = None) -> JSONObject:
    """All GPUs as they are now: `{gpus, gpu_driver, gpu_trouble}`. Memory in bytes.

    With ``xids`` those errors are told too that it has heard of.
    """
    if not _CAN_LOAD:
        return _nothing("this Python can't load libraries (it was built without ctypes)")
    name = os.environ.get("STELLWERK_NVML_LIBRARY") or _DEFAULT_LIBRARY
    try:
        library = ctypes.CDLL(name)
    except OSError:
        return _nothing(f"no NVIDIA driver here: `{name}` can't be loaded")
    nvml = _Nvml(library)
    trouble = nvml.open()
    if trouble is not None:
        return _nothing(f"the NVIDIA driver doesn't answer: {trouble}")
    try:
        gpus = [gpu for index in range(nvml.count()) for gpu in nvml.describe_all(index)]
        if xids is not None:
            xids.look(library, [gpu for gpu in gpus if "part_of" not in gpu])
        return {"gpus": gpus, "gpu_driver": nvml.driver_version(), "gpu_trouble": None}
    finally:
        nvml.close()


def unseen(why: str) -> JSONObject:
    """As `devices`, where the driver can't be asked: it isn't known what it would say."""
    return {**_nothing(why), "gpu_driver_broken": True}


def _nothing(why: str) -> JSONObject:
    return {"gpus": [], "gpu_driver": None, "gpu_trouble": why}


class _Nvml:
    """The library's functions with their results as values; None where one has no answer."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def _call(self, name: str, *arguments: Any) -> Optional[int]:
        """The function's status, or None where this driver has no such function."""
        try:
            function = getattr(self._library, name)
        except AttributeError:
            return None
        return int(function(*arguments))

    def open(self) -> Optional[str]:
        """None, or why the driver doesn't work."""
        status = self._call("nvmlInit_v2")
        if status == 0:
            return None
        if status is None:
            return "it is older than the interface this program knows"
        try:
            describe = self._library.nvmlErrorString
        except AttributeError:
            return f"error {status}"
        describe.restype = ctypes.c_char_p
        return str(describe(status).decode("utf-8", "replace"))

    def close(self) -> None:
        self._call("nvmlShutdown")

    def count(self) -> int:
        number = ctypes.c_uint()
        return number.value if self._call("nvmlDeviceGetCount_v2", ctypes.byref(number)) == 0 else 0

    def driver_version(self) -> Optional[str]:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        status = self._call("nvmlSystemGetDriverVersion", text, ctypes.c_uint(_TEXT_BYTES))
        return text.value.decode("utf-8", "replace") if status == 0 else None

    def describe_all(self, index: int) -> list[JSONObject]:
        """One card, and after it the slices that it is split into."""
        device = ctypes.c_void_p()
        card = self.describe(index, device)
        return [card, *self._slices(index, device)] if card.get("mig") else [card]

    def _slices(self, index: int, card: Any) -> list[JSONObject]:
        """The MIG slices of a card: each has memory and processes of its own."""
        most = self._numbers("nvmlDeviceGetMaxMigDeviceCount", card, 1) or [0]
        found = []
        for number in range(min(most[0], SLICES_FROM)):
            device = ctypes.c_void_p()
            place = (ctypes.c_uint(number), ctypes.byref(device))
            if self._call("nvmlDeviceGetMigDeviceHandleByIndex", card, *place) != 0:
                continue
            found.append(
                {
                    "index": SLICES_FROM * (index + 1) + number,
                    "part_of": index,
                    "uuid": self._text("nvmlDeviceGetUUID", device),
                    "name": self._text("nvmlDeviceGetName", device),
                    **self._memory(device),
                    "utilisation_percent": None,
                    "mig": False,
                    "processes": self._processes(device),
                    "trouble": None,
                }
            )
        return found

    def describe(self, index: int, device: Any) -> JSONObject:
        """One device; `trouble` where its handle can't be had (it fell off the bus, say)."""
        status = self._call(
            "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(device)
        )
        if status == _GPU_IS_LOST:
            return {"index": index, "lost": True, "trouble": "it is lost from the bus"}
        if status != 0:
            return {"index": index, "trouble": f"the driver refuses this device (error {status})"}
        utilisation = self._numbers("nvmlDeviceGetUtilizationRates", device, 2, together=True)
        mig = self._numbers("nvmlDeviceGetMigMode", device, 2)
        capability = self._numbers("nvmlDeviceGetCudaComputeCapability", device, 2)
        display = self._numbers("nvmlDeviceGetDisplayActive", device, 1)
        processes, health = self._processes(device), self._health(device)
        return {
            "index": index,
            "uuid": self._text("nvmlDeviceGetUUID", device),
            "name": self._text("nvmlDeviceGetName", device),
            **self._memory(device, processes),
            "utilisation_percent": utilisation[0] if utilisation else None,
            "compute_capability": ".".join(map(str, capability)) if capability else None,
            "mig": bool(mig[0]) if mig else False,
            "display_active": bool(display[0]) if display else None,
            "processes": processes,
            "nvlink": nvlink.links(self._library, health["pci"], device),
            **health,
            "trouble": None,
        }

    def _health(self, device: Any) -> JSONObject:
        """What the driver says of errors; null where it says nothing."""
        rows = (ctypes.c_uint * 4)()
        places = [ctypes.byref(rows, ctypes.sizeof(ctypes.c_uint) * i) for i in range(4)]
        told = self._call("nvmlDeviceGetRemappedRows", device, *places)
        errors = ctypes.c_ulonglong()
        counted = self._call(
            "nvmlDeviceGetTotalEccErrors",
            device,
            ctypes.c_uint(_UNCORRECTED),
            ctypes.c_uint(_SINCE_DRIVER_LOADED),
            ctypes.byref(errors),
        )
        pci = ctypes.create_string_buffer(_PCI_BYTES)
        located = self._call("nvmlDeviceGetPciInfo_v3", device, pci)
        return {
            "lost": _GPU_IS_LOST in (told, counted, located),
            "ecc_uncorrected": errors.value if counted == 0 else None,
            "rows_failed": bool(rows[3]) if told == 0 else None,
            "recovery_action": self._recovery_action(device),
            "pci": pci.raw[_PCI_ID_AT:].partition(b"\0")[0].decode() if located == 0 else None,
        }

    def _recovery_action(self, device: Any) -> Optional[int]:
        """What the driver asks for: 0 nothing, 1 a reset, 2 a restart, 3 and 4 to be drained."""

        class Field(ctypes.Structure):
            _fields_ = (
                ("field", ctypes.c_uint),
                ("scope", ctypes.c_uint),
                ("timestamp", ctypes.c_longlong),
                ("latency_us", ctypes.c_longlong),
                ("type", ctypes.c_uint),
                ("status", ctypes.c_uint),
                ("value", ctypes.c_ulonglong),
            )

        asked = Field(field=_RECOVERY_ACTION)
        status = self._call(
            "nvmlDeviceGetFieldValues", device, ctypes.c_int(1), ctypes.byref(asked)
        )
        return int(asked.value & 0xFFFFFFFF) if status == 0 and asked.status == 0 else None

    def _text(self, function: str, device: Any) -> Optional[str]:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        status = self._call(function, device, text, ctypes.c_uint(_TEXT_BYTES))
        return text.value.decode("utf-8", "replace") if status == 0 else None

    def _numbers(
        self, function: str, device: Any, count: int, *, together: bool = False
    ) -> Optional[list[int]]:
        """Unsigned results, each in an argument of its own or `together` in one structure."""
        numbers = (ctypes.c_uint * count)()
        width = ctypes.sizeof(ctypes.c_uint)
        places = [ctypes.byref(numbers, 0 if together else width * i) for i in range(count)]
        status = self._call(function, device, *(places[:1] if together else places))
        return list(numbers) if status == 0 else None

    def _memory(self, device: Any, processes: Sequence[JSONObject] = ()) -> JSONObject:
        """Sizes in bytes. A device without memory of its own (GB10) has that of the machine, and of
        that its processes tell what they hold.
        """

        class Memory2(ctypes.Structure):
            _fields_ = (
                ("version", ctypes.c_uint),
                ("total", ctypes.c_ulonglong),
                ("reserved", ctypes.c_ulonglong),
                ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong),
            )

        newer = Memory2(version=ctypes.sizeof(Memory2) | 2 << 24)
        if self._call("nvmlDeviceGetMemoryInfo_v2", device, ctypes.byref(newer)) == 0:
            return _sizes(newer.total, newer.used, newer.free, newer.reserved)
        older = (ctypes.c_ulonglong * 3)()
        status = self._call("nvmlDeviceGetMemoryInfo", device, ctypes.byref(older))
        if status == 0:
            return _sizes(older[0], older[2], older[1], None)
        if status == _NOT_SUPPORTED:
            sizes = memory_sizes()
            used = sum(process["memory_bytes"] or 0 for process in processes)
            shared = _sizes(sizes.get("MemTotal"), used, sizes.get("MemAvailable"), None)
            return {**shared, "unified": True}
        return _sizes(None, None, None, None)

    def _processes(self, device: Any) -> list[JSONObject]:
        """Who uses the device; memory is null where the driver doesn't tell."""
        found: dict[int, Optional[int]] = {}
        computing = []
        for function in _PROCESS_LISTS:
            for pid, used in self._process_list(function, device):
                found[pid] = max(used or 0, found.get(pid) or 0) or None
                computing += [] if function == _GRAPHICS else [pid]
        return [
            {
                "pid": pid,
                "memory_bytes": used,
                "computes": pid in computing and not command_name(pid).startswith(_MPS_SERVER),
                "run": run_of(pid),
            }
            for pid, used in sorted(found.items())
        ]

    def _process_list(self, function: str, device: Any) -> list[tuple[int, Optional[int]]]:
        class Process(ctypes.Structure):
            _fields_ = (
                ("pid", ctypes.c_uint),
                ("used", ctypes.c_ulonglong),
                ("gpu_instance", ctypes.c_uint),
                ("compute_instance", ctypes.c_uint),
            )

        # More may come between two calls, so the table is larger than what was asked for.
        room, status = 64, None
        for _ in range(3):
            table, count = (Process * room)(), ctypes.c_uint(room)
            for version in ("_v3", "_v2"):
                status = self._call(function + version, device, ctypes.byref(count), table)
                if status is not None:
                    break
            if status == 0:
                entries = table[: min(count.value, room)]
                return [(e.pid, None if e.used == _UNKNOWN else e.used) for e in entries]
            if status != _INSUFFICIENT_SIZE:
                return []
            room = max(room, count.value) * 2
        return []


def _sizes(
    total: Optional[int], used: Optional[int], free: Optional[int], reserved: Optional[int]
) -> JSONObject:
    return {
        "memory_bytes": total,
        "memory_used_bytes": used,
        "memory_free_bytes": free,
        "memory_reserved_bytes": reserved,
    }
