"""What of the GPUs a run uses: asked seldom, never in the way, and told with its samples."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stellwerk.runtime import gpus
from stellwerk.runtime.files import JSONObject
from stellwerk.runtime.gpus import Gpus
from tests.runtime.rig import Client, Rig

GIB = 1024**3
DEVICE = {
    "index": 0,
    "utilisation_percent": 97,
    "memory_free_bytes": 33 * GIB,
    "processes": [
        {"pid": 1, "memory_bytes": GIB, "run": "mine"},
        {"pid": 2, "memory_bytes": 2 * GIB, "run": "mine"},
        {"pid": 3, "memory_bytes": 4 * GIB, "run": None},
    ],
}
LOST = {"index": 1, "trouble": "it fell off the bus"}


class Machine:
    """Answers when it is told to; the time is its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = 0
        self.asked: list[Callable[[JSONObject], None]] = []
        monkeypatch.setattr(gpus, "monotonic_ms", lambda: self.now_ms + 1_000_000)
        self.gpus = Gpus(self.asked.append)
        self.went_on = 0

    def measure(self) -> None:
        self.gpus.then(self._go_on)

    def _go_on(self) -> None:
        self.went_on += 1

    def answer(self, *devices: JSONObject) -> None:
        self.asked.pop()({"ok": True, "facts": {"gpus": list(devices)}})


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_memory_is_that_of_the_run_and_load_that_of_the_device(machine: Machine) -> None:
    """Other processes aren't counted; a device that doesn't answer isn't told."""
    machine.measure()
    machine.answer(DEVICE, LOST)
    assert machine.gpus.used_by("mine") == [
        {"index": 0, "memory_bytes": 3 * GIB, "busy_percent": 97, "free_bytes": 33 * GIB}
    ]
    assert machine.gpus.used_by("other")[0]["memory_bytes"] == 0


def test_a_driver_that_hung_is_asked_again_soon(machine: Machine) -> None:
    """It isn't a machine without GPUs: who shares them must be watched again when it answers."""
    machine.measure()
    machine.asked.pop()({"ok": True, "facts": {"gpus": [], "gpu_driver_broken": True}})
    machine.now_ms += gpus.LOOK_AT_BROKEN_MS
    machine.measure()
    assert machine.asked


def test_memory_that_the_driver_keeps_to_itself_is_not_guessed(machine: Machine) -> None:
    """One process without a figure makes the sum unknown."""
    machine.measure()
    machine.answer({"index": 0, "processes": [{"pid": 1, "memory_bytes": None, "run": "mine"}]})
    assert machine.gpus.used_by("mine") == [
        {"index": 0, "memory_bytes": None, "busy_percent": None, "free_bytes": None}
    ]


def test_all_who_wait_share_one_look_and_a_recent_one_is_enough(machine: Machine) -> None:
    """The driver is asked once for all, and again only after some seconds."""
    machine.measure()
    machine.measure()
    assert (len(machine.asked), machine.went_on) == (1, 0)
    machine.answer(DEVICE)
    assert machine.went_on == 2
    machine.measure()
    assert (len(machine.asked), machine.went_on) == (0, 3)
    machine.now_ms += gpus.LOOK_EVERY_MS
    machine.measure()
    assert (len(machine.asked), machine.went_on) == (1, 3)


def test_a_machine_without_gpus_is_left_alone(machine: Machine) -> None:
    """It is asked again after minutes; a probe that failed is asked again soon."""
    machine.measure()
    machine.answer()
    machine.now_ms += 10 * gpus.LOOK_EVERY_MS
    machine.measure()
    assert (machine.asked, machine.went_on) == ([], 2)
    machine.now_ms += gpus.LOOK_AGAIN_MS
    machine.measure()
    machine.asked.pop()({"error": {"code": "probe_hangs", "message": "a driver hangs"}})
    assert machine.went_on == 3
    assert machine.gpus.used_by("mine") == []
    machine.now_ms += gpus.LOOK_EVERY_MS
    machine.measure()
    assert len(machine.asked) == 1


def test_a_sample_tells_what_a_run_holds_on_each_gpu(
    library: str, own_rig: Rig, tmp_path: Path
) -> None:
    """Through the whole runtime, with a stand-in for the driver's library."""
    pid_file = str(tmp_path / "pid")
    rig = own_rig
    stand_in = {"STELLWERK_NVML_LIBRARY": library, "STAND_IN_PID_FILE": pid_file}
    rig.start_agent(env={**stand_in, "STAND_IN_BUSY": "83"})
    watcher = Client(rig.socket)
    watcher.ask("watch")
    rig.start("g", f"echo $$ > {pid_file}; sleep 30")
    event = watcher.receive()
    while event["event"] != "sample":
        event = watcher.receive()
    first, split = event["sample"]["gpus"]
    assert (first["index"], first["memory_bytes"], first["busy_percent"]) == (0, GIB // 4, 83)
    assert first["free_bytes"] == 24 * GIB - GIB - GIB // 2
    assert (split["index"], split["memory_bytes"]) == (1, 0)
    assert os.path.exists(pid_file)
    rig.client.ask("kill", run="g")
    watcher.close()
