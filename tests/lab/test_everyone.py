"""The machine's service that keeps people's runtimes: root's rights are dropped before anything."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.people import GID, House, a_house
from tests.lab.test_people import runs, until
from tests.processes import wait_gone

KILL_SETGID_SETUID = 1 << 5 | 1 << 6 | 1 << 7


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """A machine on which ben runs a server for the group."""
    with a_house() as made:
        started = made.people["ben"].stw("server", "start", "--group", "lab")
        assert started.returncode == 0, started.stderr
        yield made


def guests(house: House, name: str) -> list[int]:
    """The processes that keep a person's runtime connected."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_theirs = path.stat().st_uid == house.uid(name)
            if is_theirs and b"stellwerk.client.guest" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def end(service: "subprocess.Popen[str]", number: int = signal.SIGTERM) -> str:
    """Ends the service; what it has said."""
    service.send_signal(number)
    return service.communicate(timeout=10)[1]


def test_people_are_started_as_themselves_and_nobody_else_is(house: House) -> None:
    """Whoever has asked, and is named; as them alone, after crashes and restarts too."""
    ada, ben, cyd = (house.people[name] for name in ("ada", "ben", "cyd"))
    service = house.serve_people("ada")
    try:
        assert int(status(service.pid)["CapEff"], 16) == KILL_SETGID_SETUID
        submitted = ada.stw("run", "-d", "--name", "hers", "--", "sh", "-c", "id -un; sleep 1000")
        assert submitted.returncode == 0, submitted.stderr
        runs(ada, "hers")
        until(lambda: "ada" in ada.stw("logs", "hers").stdout, "it runs as her")
        [guest] = guests(house, "ada")
        told = status(guest)
        assert set(told["Uid"].split()) == set(told["Gid"].split()) == {str(house.uid("ada"))}
        assert sorted(map(int, told["Groups"].split())) == sorted([house.uid("ada"), GID])
        assert int(told["CapEff"], 16) == int(told["CapPrm"], 16) == 0
        assert os.getsid(guest) == guest
        assert os.readlink(f"/proc/{guest}/cwd") == "/"
        said = cyd.stw("agent", "start")
        assert "the administrator hasn't named cyd, nor a group of theirs" in said.stderr
        assert "started; your work on ben's server runs as you" in said.stderr
        assert "hasn't named ben" in _asked(house, "ben", "start")["refused"]
        assert os.listdir(house.folder / "asked") == [str(house.uid("ada"))]

        os.kill(guest, signal.SIGKILL)
        until(lambda: guests(house, "ada") not in ([], [guest]), "it is started again")
        until(lambda: ada.show("hers")["runs"][-1]["reachable"], "her run is reached again")
    finally:
        end(service, signal.SIGKILL)
    for pid in guests(house, "ada"):  # as after a restart of the machine, but for the run
        os.kill(pid, signal.SIGKILL)
        wait_gone(pid)
    service = house.serve_people("@lab")
    try:
        until(lambda: guests(house, "ada"), "what she has asked for lasts")
        until(lambda: ada.show("hers")["runs"][-1]["reachable"], "and her run was not touched")
        assert len(ada.show("hers")["runs"]) == 1
        assert json.loads(ada.stw("agent", "status", "-o", "json").stdout)["kept"] is True
        stopped = ada.stw("agent", "stop")
        assert "the machine keeps it for you no longer" in stopped.stderr
        until(lambda: not guests(house, "ada"), "it has ended")
        assert os.listdir(house.folder / "asked") == []
        assert ada.stw("show", "hers").returncode == 0
    finally:
        said_of_all = end(service)
    assert "Traceback" not in said_of_all
    assert ben.stw("cancel", "hers").returncode == 0


def _asked(house: House, name: str, word: str) -> dict[str, str]:
    """What the service answers a user, without the command line."""
    code = (
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
        "s.sendall(sys.argv[2].encode()); print(s.recv(4096).decode())"
    )
    told: dict[str, str] = json.loads(
        house.people[name].run("python3", "-c", code, str(house.ask_at), word).stdout
    )
    return told
