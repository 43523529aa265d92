"""Decides which accelerator a name means: the table of known cards, and wishes by memory.

A card has one canonical name (`A100-80GB`, `RTX4090`), SkyPilot's where it has one. People, Slurm
and drivers write it in many ways (`a100`, `rtx-4090`, `nvidia_geforce_rtx_4090`, `NVIDIA
A100-SXM4-80GB`); `canonical_name` finds the one meant. Memory is the size a card is sold with: a
driver reports a little less (an A10 with error correction shows 22.5 of its 24 GiB), and a wish
for `24GB` means the card, not the remainder.
"""

from __future__ import annotations

import re
from functools import cache

from msgspec import Struct

from stellwerk.core.model.device_table import DEVICES, Device, Vendor
from stellwerk.core.model.quantity import GIB, BadQuantity

VENDORS: tuple[Vendor, ...] = ("nvidia", "amd", "intel", "google", "aws")
_VENDOR_WORDS: dict[str, Vendor] = {
    "geforce": "nvidia",
    "tesla": "nvidia",
    "quadro": "nvidia",
    "radeon": "amd",
    "instinct": "amd",
    "nvidia": "nvidia",
    "amd": "amd",
    "intel": "intel",
    "habana": "intel",
}
_NOISE = (*_VENDOR_WORDS, "r", "tm", "gpu", "graphics", "generation", "data", "center")
_SOLD_SIZES = (
    1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 72, 80, 94, 96, 120, 128, 141,
    144, 180, 192, 256, 268, 288,
)  # fmt: skip
_WORDS = re.compile(r"[a-z0-9]+")
_MIG = re.compile(
    r"(.*?)[\s_:-]*(?:mig[\s_-]?)?([1-7])g[._]([0-9]{1,3})gb((?:[+._]me)?)", re.IGNORECASE
)
_MEMORY = re.compile(r"([0-9]{1,9})\s*([gmt])(?:i?b|i)?(\+?)", re.IGNORECASE)
_MEMORY_UNITS = {"m": GIB // 1024, "g": GIB, "t": GIB * 1024}
_COUNT = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}")

_LONGEST_NAME = 100

ACCELERATOR_HELP = "write `A100`, `A100:4`, `A100:0.5` or, by memory, `24GB+:2`"


class AcceleratorSelector(Struct, frozen=True):
    """Accelerators named by their memory (`24GB`, `24GB+:2`, `nvidia:24GB+`) instead of by kind.

    Kept as a wish: matched later with the table of devices and with what is really there.
    """

    memory_bytes: int
    at_least: bool = False
    count: float = 1
    vendor: str | None = None
    text: str = ""

    @property
    def memory_gb(self) -> float:
        """The memory asked for, in GiB."""
        return self.memory_bytes / GIB


class NamedAccelerator(Struct, frozen=True):
    """So many of one kind; `known` says whether the kind is in the table."""

    name: str
    count: float
    known: bool


def _key(name: str) -> str:
    words = _WORDS.findall(name.lower()[:_LONGEST_NAME])
    return "".join("s" if word == "super" else word for word in words if word not in _NOISE)


@cache
def _by_key() -> dict[str, Device]:
    found: dict[str, Device] = {}
    for device in DEVICES:
        for name in (device.name, *device.aliases):
            found.setdefault(_key(name), device)
    return found


def find_device(name: str) -> Device | None:
    """The card that a name means, however it is written; a MIG slice counts as a card."""
    if name.lower().startswith("tpu-"):
        return _tpu(name.lower())
    return _by_key().get(_key(name)) or _mig_slice(name)


def canonical_name(name: str) -> str:
    """The canonical name of the card meant, or the name itself if the table doesn't know it."""
    device = find_device(name)
    return device.name if device else name.strip()


def kind_of_device(reported: str, total_bytes: int = 0) -> str:
    """The kind of a card that is there, from the name its driver gives and its memory.

    Some names leave the memory out (an A100 board may report `A100-PG509-200`), so a sibling of
    the right size is preferred. A card the table doesn't know keeps its name without the vendor.
    """
    device = find_device(reported) or _by_first_word(reported)
    if device is None:
        known = [w for w in reported.split() if w.lower() not in _VENDOR_WORDS]
        return "".join(known) or "unknown"
    if total_bytes:
        sold = sold_memory_gib(total_bytes)
        for sibling in DEVICES:
            if sibling.family == device.family and sibling.memory_gib == sold:
                return device.name if device.memory_gib == sold else sibling.name
    return device.name


def vendor_of(name: str) -> Vendor | None:
    """Who makes the card: from the table, else from a vendor's word in the name."""
    device = find_device(name)
    if device is not None:
        return device.vendor
    for word in _WORDS.findall(name.lower()):
        if word in _VENDOR_WORDS:
            return _VENDOR_WORDS[word]
    return None


def sold_memory_gib(total_bytes: int) -> int:
    """The size a card with this much usable memory is sold with: 22.5 GiB there means 24."""
    whole = -(-total_bytes // GIB)
    for size in _SOLD_SIZES:
        if whole <= size:
            return size if total_bytes * 100 >= size * GIB * 88 else whole
    return whole


def selects(
    selector: AcceleratorSelector, name: str, total_bytes: int = 0, vendor: str | None = None
) -> bool:
    """Whether a card is among those a selector means.

    What is really there (`total_bytes`) counts before the table: a laptop's card has the name of a
    larger one.
    """
    if selector.vendor and selector.vendor != (vendor or vendor_of(name)):
        return False
    device = None if total_bytes else find_device(name)
    sold = device.memory_gib if device else sold_memory_gib(total_bytes)
    if not sold:
        return False
    if selector.at_least:
        return sold * GIB >= selector.memory_bytes
    return sold * GIB == selector.memory_bytes


def parse_accelerator(text: str) -> NamedAccelerator | AcceleratorSelector | BadQuantity:
    """`A100`, `A100:4`, `24GB+`, `24GB+:2`, `nvidia:24GB+`, `nvidia:24GB+:2`."""
    parts = [part.strip() for part in text.split(":")]
    if len(parts) > 3 or not all(parts):
        return BadQuantity(f"`{text[:60]}` isn't an accelerator", ACCELERATOR_HELP)
    if _MEMORY.fullmatch(parts[0]):
        if len(parts) == 3:
            return BadQuantity(f"`{text[:60]}` has too many parts", ACCELERATOR_HELP)
        return _selector(text, None, parts[0], parts[1] if len(parts) == 2 else "1")
    if len(parts) > 1 and _MEMORY.fullmatch(parts[1]):
        return _selector(text, parts[0], parts[1], parts[2] if len(parts) == 3 else "1")
    if len(parts) == 3:
        return BadQuantity(f"`{text[:60]}` has too many parts", ACCELERATOR_HELP)
    count = _count(parts[1]) if len(parts) == 2 else 1
    if count is None:
        return BadQuantity(f"`{parts[1][:40]}` isn't a number of accelerators", ACCELERATOR_HELP)
    device = find_device(parts[0])
    return NamedAccelerator(device.name if device else parts[0], count, device is not None)


def _selector(
    text: str, vendor: str | None, memory: str, count_text: str
) -> AcceleratorSelector | BadQuantity:
    match = _MEMORY.fullmatch(memory)
    count = _count(count_text)
    if match is None or count is None or int(match.group(1)) == 0:
        return BadQuantity(f"`{text[:60]}` isn't an accelerator", ACCELERATOR_HELP)
    if vendor is not None and vendor.lower() not in VENDORS:
        known = ", ".join(f"`{name}`" for name in VENDORS)
        return BadQuantity(f"`{vendor[:40]}` is no known maker of accelerators", f"one of {known}")
    size = int(match.group(1)) * _MEMORY_UNITS[match.group(2).lower()]
    return AcceleratorSelector(
        memory_bytes=size,
        at_least=bool(match.group(3)),
        count=count,
        vendor=vendor.lower() if vendor else None,
        text=text.strip(),
    )


def _count(text: str) -> float | None:
    if not _COUNT.fullmatch(text):
        return None
    count = float(text)
    if count <= 0:
        return None
    return int(count) if count.is_integer() else count


def _mig_slice(name: str) -> Device | None:
    match = _MIG.fullmatch(name.strip()) if len(name) <= _LONGEST_NAME else None
    if match is None:
        return None
    parent = find_device(match.group(1)) if match.group(1) else None
    if match.group(1) and parent is None:
        return None
    media = "+me" if match.group(4) else ""
    profile = f"MIG-{match.group(2)}g.{match.group(3)}gb{media}"
    slice_name = f"{parent.name}-{profile}" if parent else profile
    return Device(slice_name, "nvidia", int(match.group(3)), family=slice_name)


def _tpu(name: str) -> Device | None:
    generation = _by_key().get(_key("-".join(name.split("-")[:2])))
    if generation is None:
        return None
    return Device(name, "google", generation.memory_gib, family=generation.family)


def _by_first_word(reported: str) -> Device | None:
    words = [word for word in _WORDS.findall(reported.lower()) if word not in _NOISE]
    for length in (3, 2, 1):
        device = _by_key().get("".join(words[:length])) if len(words) >= length else None
        if device is not None:
            return device
    return None
