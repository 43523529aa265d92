"""A room of six machines over one afternoon: three kinds of GPUs, five Pythons, a shared home, cut
cables, a reboot, a killed server, a sick card. Nothing is lost and nothing is done twice.
"""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.lab.room import Computer, Room, a_room, missing
from tests.lab.test_ssh import PATIENCE_S, Person
from tests.processes import wait_gone, wait_until
from tests.runtime.rig import INTERPRETERS
from tests.runtime.stand_in import NO_COMPILER, compiled

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.skipif(bool(NO_COMPILER), reason=NO_COMPILER),
]
KINDS = ("NVIDIA L4,24,2", "NVIDIA GeForce RTX 4090,24,2", "NVIDIA A100-SXM4-80GB,80,4")
L4, RTX, A100 = range(3)
ARRAY = 6
WAIT = "echo up >> ~/told-$STELLWERK_WORKLOAD_ID\nwhile [ ! -e ~/go ]; do sleep 0.1; done\necho on"


class Lab(NamedTuple):
    """A room with its machines, and the person whose server reaches it."""

    person: Person
    room: Room
    health: dict[str, Path]

    def computer(self, node: str) -> Computer:
        return next(one for one in self.room.computers if one.address == node)

    def node_of(self, name: str) -> str:
        """Where a job's last run is."""
        return str(self.person.show(name)["runs"][-1]["nodes"][0])

    def probe(self) -> dict[str, Any]:
        """What was found, by node; those that are off make the command's status."""
        said = self.person.stw("cluster", "probe", "lab", "-o", "json", code=None)
        return {host["node"]: host for host in json.loads(said)["hosts"]}

    def gpus(self) -> dict[tuple[str, int], Any]:
        """All cards by node and number."""
        return {
            (line["node"], line["device"]["index"]): line["device"]
            for line in self.person.told("gpu", "lab")
        }

    def becomes(self, node: str, state: str) -> None:
        def is_so() -> bool:
            return any(one["name"] == node and one["state"] == state for one in self.person.nodes())

        wait_until(is_so, f"{node} is {state}", PATIENCE_S)


def python_for(computer: Computer, version: str) -> None:
    """Makes /mnt/python there the interpreter that its /opt holds."""
    script = computer.folder / "etc" / "python"
    script.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH=/opt/lib exec /opt/bin/python{version} "$@"\n')
    script.chmod(0o755)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Six machines, two of each kind; the last two share a home, the first one is off."""
    versions = list(INTERPRETERS)
    with a_room() as room:
        library = Path(compiled(room.folder, "libnvidia-ml.so.1"))
        health = {}
        for number in range(6):
            file = room.folder / f"health{number}"
            file.write_text("")
            version = versions[number % len(versions)]
            computer = room.add(
                on=False,
                python=str(Path(os.path.realpath(INTERPRETERS[version])).parents[1]),
                env={
                    "STELLWERK_NVML_LIBRARY": str(library),
                    "STAND_IN_GPUS": KINDS[number // 2],
                    "STAND_IN_HEALTH": str(file),
                    "STELLWERK_PROBE_LIMIT_MS": "2000",
                },
                home_of=room.computers[4] if number == 5 else None,
                own_identity=True,
            )
            python_for(computer, version)
            health[computer.address] = file
        room.trust(*room.computers)
        for computer in room.computers[1:]:
            computer.switch_on()
        person = Person(room)
        yield Lab(person, room, health)
        person.stw("server", "stop", code=None)


def test_two_cables_are_long_and_lose_something(lab: Lab) -> None:
    """All that follows holds with them too, where this kernel can make them so."""
    far = lab.room.computers[2:4]
    if not all(each.slow_down("delay 20ms 5ms loss 1%") for each in far):
        pytest.skip("this kernel has no netem, so no cable of the room delays or loses anything")
    for each in far:
        began = time.monotonic()
        socket.create_connection((each.address, 22)).close()
        assert time.monotonic() - began > 0.01


def test_an_afternoon(lab: Lab) -> None:
    """One story, since each part of it must leave the others alone."""
    _the_room_is_known(lab)
    _work_of_each_kind_finds_its_machine(lab)
    _what_is_cut_off_goes_on_and_is_told_afterwards(lab)
    _what_was_switched_off_is_put_back_though_the_server_died(lab)
    _a_sick_card_gets_nothing_new(lab)
    _a_driver_that_hangs_leaves_the_machine_of_use(lab)
    _another_machine_at_an_address_is_told(lab)
    _nothing_was_done_twice(lab)


def _the_room_is_known(lab: Lab) -> None:
    """The one that is off is named, the others tell their Pythons and cards."""
    hosts = [word for one in lab.room.computers for word in ("--host", str(one))]
    lab.person.stw("cluster", "add", "lab", "--python", "/mnt/python", *hosts, code=None)
    found = lab.probe()
    off, *others = (found[one.address] for one in lab.room.computers)
    assert (off["code"], bool(off["help"])) == ("ssh/refused", True)
    assert [host["code"] for host in others] == [""] * 5
    told = {host["python"].rpartition(".")[0] for host in found.values() if host["python"]}
    assert told == set(INTERPRETERS)
    folders = [host["folder"] for host in others]
    assert len(set(folders)) == 5, "machines with one home keep apart"
    assert len(lab.gpus()) == 2 + 4 + 8
    assert {gpu["health"] for gpu in lab.gpus().values()} == {""}, "nobody told of errors"


def _work_of_each_kind_finds_its_machine(lab: Lab) -> None:
    """An array over the room, and on two cards of each kind a job that packs them."""
    _submit(lab, "many", "echo up >> ~/told-$STELLWERK_WORKLOAD_ID", array=f"0-{ARRAY - 1}%4")
    kinds = {"L4:2": L4, "RTX4090:2": RTX, "A100-80GB:4": A100}
    for wanted in kinds:
        _submit(lab, wanted.partition(":")[0].lower(), "echo on $CUDA_VISIBLE_DEVICES", wanted)
    for wanted, kind in kinds.items():
        name = wanted.partition(":")[0].lower()
        lab.person.reaches(name, "Succeeded")
        places = [one.address for one in lab.room.computers[2 * kind : 2 * kind + 2]]
        assert lab.node_of(name) in places
        cards = lab.person.stw("logs", name).removeprefix("on ").strip().split(",")
        assert len(set(cards)) == int(wanted[-1])
    lab.person.stw("wait", "many", code=None)


def _what_is_cut_off_goes_on_and_is_told_afterwards(lab: Lab) -> None:
    """Out of reach isn't failed; another job meanwhile goes to the other machine."""
    _submit(lab, "cut", WAIT, "RTX4090:2")
    lab.person.reaches("cut", "Running")
    node = lab.node_of("cut")
    there = lab.computer(node)
    there.restart_sshd()
    there.cut()
    try:
        lab.becomes(node, "unreachable")
        shown = lab.person.show("cut")
        assert (shown["phase"], shown["runs"][0]["reachable"]) == ("Running", False)
        _submit(lab, "meanwhile", "echo on", "RTX4090:1")
        lab.person.reaches("meanwhile", "Succeeded")
        assert lab.node_of("meanwhile") != node
        (there.home / "go").touch()
    finally:
        there.mend()
    assert len(lab.person.reaches("cut", "Succeeded")["runs"]) == 1
    assert lab.person.stw("logs", "cut") == "on\n"
    lab.becomes(node, "ready")


def _what_was_switched_off_is_put_back_though_the_server_died(lab: Lab) -> None:
    """Not before its machine is back with another boot, since until then nobody knows."""
    _submit(lab, "killed", WAIT, "A100-80GB:4")
    lab.person.reaches("killed", "Running")
    node = lab.node_of("killed")
    there = lab.computer(node)
    there.switch_off()
    lab.becomes(node, "unreachable")
    pid = lab.person.server_pid()
    os.kill(pid, signal.SIGKILL)
    wait_gone(pid)
    assert len(lab.person.show("killed")["runs"]) == 1
    (there.home / "go").touch()
    there.switch_on()
    shown = lab.person.reaches("killed", "Succeeded")
    first, second = shown["runs"]
    assert (first["end"]["how"], second["end"]["how"]) == ("reboot", "exited")
    lab.becomes(node, "ready")


def _a_sick_card_gets_nothing_new(lab: Lab) -> None:
    """It is told where people look, what waits says so, and it comes back by itself or by word."""
    node = lab.room.computers[1].address
    _turns(lab, node, "0 ecc 3\n1 ecc 0\n", "sick")
    cards = lab.gpus()
    assert cards[node, 1]["health"] == "ok"
    said = "3 uncorrectable memory errors (ECC)"
    assert said in cards[node, 0]["fault"]
    assert said in lab.person.stw("clusters")
    assert said in lab.person.stw("doctor", code=None)
    _submit(lab, "both", "echo on", "L4:2")
    wait_until(lambda: _codes(lab, "both") >= {"gpu_sick"}, "its reason", PATIENCE_S)
    assert lab.person.show("both")["phase"] == "Pending"
    lab.person.stw("resume", f"lab/{node}")
    lab.person.reaches("both", "Succeeded")
    _turns(lab, node, "0 lost 1\n1 ecc 0\n", "gone")
    _turns(lab, node, "0 ecc 0\n1 ecc 0\n", "ok")
    assert not lab.gpus()[node, 0]["fault"]


def _turns(lab: Lab, node: str, told: str, health: str) -> None:
    """The driver of a machine says so from now on, and somebody looks."""
    lab.health[node].write_text(told)
    lab.probe()
    wait_until(lambda: lab.gpus()[node, 0]["health"] == health, health, PATIENCE_S)


def _a_driver_that_hangs_leaves_the_machine_of_use(lab: Lab) -> None:
    """Without its cards, and with the reason."""
    node = lab.room.computers[1].address
    lab.health[node].write_text("0 hang 1\n")
    assert "the NVIDIA driver hangs: it gave no answer within 2 s" in str(lab.probe()[node])
    wait_until(
        lambda: "the NVIDIA driver hangs" in lab.person.stw("doctor", code=None), "it", PATIENCE_S
    )
    assert {one["name"]: one["state"] for one in lab.person.nodes()}[node] == "ready"


def _another_machine_at_an_address_is_told(lab: Lab) -> None:
    """It has no memory of what ran on the first."""
    last = lab.room.computers[5]
    last.become_another()
    lab.becomes(last.address, "unreachable")

    def is_told() -> bool:
        return "is another machine than before" in lab.person.stw("doctor", code=None)

    wait_until(is_told, "that it is another one", PATIENCE_S)


def _nothing_was_done_twice(lab: Lab) -> None:
    """By what the jobs wrote themselves: once for each run that a workload has had."""
    homes = dict.fromkeys(one.home for one in lab.room.computers)
    told = {
        file.name.removeprefix("told-"): len(file.read_text().splitlines())
        for home in homes
        for file in home.glob("told-*")
    }
    shown = lab.person.told("ps", "-A")
    assert {one["phase"] for one in shown} == {"Succeeded"}
    runs = {one["id"]: len(lab.person.show(one["id"])["runs"]) for one in shown}
    assert len([id for id in told if runs[id] == 1]) == ARRAY + 1
    assert sum(told.values()) >= ARRAY + 2
    assert all(count <= runs[id] for id, count in told.items()), (told, runs)


def _codes(lab: Lab, name: str) -> set[str]:
    return {reason["code"] for reason in lab.person.show(name)["reasons"]}


def _submit(lab: Lab, name: str, script: str, accelerators: str = "", array: str = "") -> None:
    for one in lab.room.computers:
        (one.home / "go").unlink(missing_ok=True)
    lines = "".join(f"  {line}\n" for line in script.splitlines())
    wanted = f", accelerators: '{accelerators}'" if accelerators else ""
    text = f"resources: {{infra: ssh/lab, cpus: 0.1{wanted}}}\nrun: |\n{lines}"
    (lab.person.work / f"{name}.yaml").write_text(text)
    more = ("--array", array) if array else ()
    lab.person.stw("run", "-d", "--name", name, *more, f"{name}.yaml")
