"""What is heard of a GPU's errors: the driver's counters, its events, the kernel's log."""

from pathlib import Path
from typing import Any

import pytest

from stellwerk.runtime import nvml, xids
from stellwerk.runtime.xids import Xids


class Machine:
    """Two plain cards, whose health is a file, and a log of the kernel."""

    def __init__(self, library: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.patch = patch
        self.log = folder / "kmsg"
        patch.setattr(xids, "KERNEL_LOG", str(self.log))
        patch.setenv("STELLWERK_NVML_LIBRARY", library)
        patch.setenv("STAND_IN_GPUS", "NVIDIA L4,24,2")
        patch.setenv("STAND_IN_HEALTH", str(folder / "health"))
        self.boots("first")
        self.xids = self.another()

    def boots(self, boot: str) -> None:
        self.patch.setattr(xids, "boot_id", lambda: boot)

    def another(self) -> Xids:
        """As another process of the same agent has it."""
        return Xids(str(self.folder / "gpus.json"))

    def says(self, *lines: str) -> None:
        (self.folder / "health").write_text("".join(f"{line}\n" for line in lines))

    def computes(self) -> None:
        (self.folder / "pid").write_text("4000000")
        self.patch.setenv("STAND_IN_PID_FILE", str(self.folder / "pid"))

    def looks(self, by: Xids | None = None) -> list[dict[str, Any]]:
        remembered = by or self.xids
        found: list[dict[str, Any]] = remembered.told(nvml.devices(remembered))["gpus"]
        return found


@pytest.fixture
def machine(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(library, tmp_path, monkeypatch)


def test_counters_are_told_and_what_is_not_told_is_unknown(machine: Machine) -> None:
    """A card that counts no errors isn't one without errors."""
    machine.says("0 ecc 3", "0 rows 1", "0 recovery 2")
    first, second = machine.looks()
    told = [first[key] for key in ("ecc_uncorrected", "rows_failed", "recovery_action", "xids")]
    assert told == [3, True, 2, None]
    silent = [second[key] for key in ("ecc_uncorrected", "rows_failed", "recovery_action", "xids")]
    assert silent == [None] * 4


def test_a_lost_card_keeps_its_name(machine: Machine) -> None:
    """The driver tells nothing but that; what it was is remembered for this boot."""
    machine.looks()
    machine.says("1 lost 1")
    lost = machine.looks()[1]
    assert (lost["lost"], lost["name"], lost["uuid"]) == (True, "NVIDIA L4", "GPU-0001")
    assert machine.looks(machine.another())[1]["name"] == "NVIDIA L4"


def test_a_card_that_is_told_no_more_is_gone_until_the_next_boot(machine: Machine) -> None:
    """After it, it may have been taken out."""
    machine.looks()
    machine.says("0 gone 1")
    assert [gpu.get("gone", False) for gpu in machine.looks()] == [False, True]
    machine.boots("second")
    assert len(machine.looks(machine.another())) == 1


def test_numbers_from_the_kernels_log(machine: Machine) -> None:
    """By the slot of the card; those of this boot are told again by the next process."""
    machine.log.write_text(
        "6,1,5,-;usb 1-1: new device\n"
        "3,2,9,-;NVRM: Xid (PCI:0000:3c:00): 79, pid=12, GPU has fallen off the bus.\n"
    )
    assert [gpu["xids"] for gpu in machine.looks()] == [[], [79]]
    with machine.log.open("a") as log:
        log.write("3,3,9,-;NVRM: Xid (PCI:0000:3b:00): 13, Graphics Exception\n")
    assert [gpu["xids"] for gpu in machine.looks()] == [[13], [79]]
    machine.log.unlink()
    assert [gpu["xids"] for gpu in machine.looks(machine.another())] == [[13], [79]]
    machine.boots("second")
    assert [gpu["xids"] for gpu in machine.looks(machine.another())] == [None, None]


def test_numbers_from_events_while_something_computes(machine: Machine) -> None:
    """Nobody listens on an idle card, which could then not be reset."""
    machine.says("0 xid 62", "0 xid 48")
    assert machine.looks()[0]["xids"] is None
    machine.computes()
    assert machine.looks()[0]["xids"] == []
    assert machine.looks()[0]["xids"] == [48, 62]
    machine.patch.delenv("STAND_IN_PID_FILE")
    machine.looks()
    assert machine.xids._ear is None
    assert machine.looks()[0]["xids"] == [48, 62]


def test_an_older_driver_tells_no_events(machine: Machine) -> None:
    """That is no error, and nothing is known of them."""
    machine.patch.setenv("STAND_IN_OLD", "1")
    machine.computes()
    assert [gpu["xids"] for gpu in machine.looks()] == [None, None]
