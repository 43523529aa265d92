"""Real users on one shared server: each works as themselves, and none reads or stops the others."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.lab.people import GID, House, Person, a_house

PATIENCE_S = 40.0


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """A machine on which ben runs a server for the group."""
    with a_house('limits = "cyd: running=1"\n') as made:
        started = made.people["ben"].stw("server", "start", "--group", "lab")
        assert started.returncode == 0, started.stderr
        yield made


def until(condition: Callable[[], object], what: str) -> None:
    """Waits until something holds."""
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up:
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(f"never came: {what}")


def runs(person: Person, name: str) -> None:
    until(lambda: person.show(name)["phase"] == "Running", f"{name} runs")


def test_the_socket_is_the_groups_and_no_others(house: House) -> None:
    """0660 in a folder that only the group may enter."""
    socket, folder = house.socket.stat(), house.socket.parent.stat()
    assert (socket.st_mode & 0o777, socket.st_gid) == (0o660, GID)
    assert (folder.st_mode & 0o777, folder.st_gid) == (0o750, GID)
    told = json.loads(house.people["ada"].stw("server", "status", "-o", "json").stdout)
    assert (told["owner"], told["shared"], told["you"]["name"]) == ("ben", True, "ada")


def test_two_people_cannot_read_or_stop_each_others_work(house: House) -> None:
    """Ada's job has her user, home and files; ben, whose server it is, can read none of them."""
    ada, ben, cyd = (house.people[name] for name in ("ada", "ben", "cyd"))
    script = "id -un; umask 077; echo hers > secret.txt; cat secret.txt; sleep 1000"
    submitted = ada.stw("run", "-d", "--name", "hers", "--", "bash", "-c", script)
    assert submitted.returncode == 0, submitted.stderr
    runs(ada, "hers")
    until(lambda: "hers" in ada.stw("logs", "hers").stdout, "it has printed")
    assert ada.stw("logs", "hers").stdout.split() == ["ada", "hers"]
    secret = ada.home / "secret.txt"
    assert secret.stat().st_uid == house.uid("ada")
    assert ben.run("cat", str(secret)).returncode != 0
    [process] = [pid for pid in os.listdir("/proc") if pid.isdecimal() and is_sleep(pid)]
    assert os.stat(f"/proc/{process}").st_uid == house.uid("ada")
    for person in (cyd, ben):
        assert person.run("kill", process).returncode != 0
    for verb in (("logs",), ("cancel",), ("hold",), ("rerun",)):
        refused = cyd.stw(*verb, "hers")
        assert refused.returncode == 4, (verb, refused)
        assert "belongs to ada" in refused.stderr
    for person in (cyd, ben):
        refused = person.stw("exec", "hers", "--", "id")
        assert "belongs to ada" in refused.stderr, "not even whose server it is acts as ada"
    assert ada.stw("exec", "-i", "hers", "--", "sh", "-c", "cat; id -un", text="in ").stdout == (
        "in ada\n"
    )
    page = cyd.show("hers")
    assert (page["owner"], page["phase"], page["task"]) == ("ada", "Running", "")
    assert ada.show("hers")["task"]


def is_sleep(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read() == b"sleep\x001000\x00"
    except OSError:
        return False


def test_a_killed_server_and_a_runtime_that_went_lose_nothing(house: House) -> None:
    """The server comes back and finds ada's run; while her runtime is away it is out of reach."""
    ada, ben = house.people["ada"], house.people["ben"]
    pid = json.loads(ben.stw("server", "status", "-o", "json").stdout)["pid"]
    os.kill(pid, signal.SIGKILL)
    refused = ada.stw("ps")
    assert (refused.returncode, "the server of ben isn't running" in refused.stderr) == (6, True)
    assert ben.stw("server", "start").returncode == 0
    until(lambda: ada.show("hers")["runs"][-1]["reachable"], "it is reached again")
    assert len(ada.show("hers")["runs"]) == 1
    [machine] = json.loads(ben.stw("clusters", "-o", "json").stdout)
    [node] = machine["nodes"]
    assert "another Stellwerk" not in node["note"], "her run is in the books, and counted once"
    assert node["cpus"] - node["cpus_free"] == 1
    assert ada.stw("agent", "stop").returncode == 0
    until(lambda: not ada.show("hers")["runs"][-1]["reachable"], "her runtime has gone")
    assert ben.show("hers")["phase"] == "Running"
    assert ada.stw("agent", "start").returncode == 0
    until(lambda: ada.show("hers")["runs"][-1]["reachable"], "it is reached again")
    assert ben.stw("cancel", "hers").returncode == 0, "an administrator ends other people's work"
    until(lambda: ada.show("hers")["phase"] == "Cancelled", "it has ended")
    assert ada.show("hers")["reason"]["params"]["actor"] == "ben"


def test_what_a_person_may_have_at_a_time(house: House) -> None:
    """Cyd may have one run; a snapshot travels into a folder of theirs; use is told by person."""
    cyd = house.people["cyd"]
    cyd.run("sh", "-c", "mkdir -p w && echo 'print(6 * 7)' > w/answer.py")
    task = "workdir: w\nrun: python3 answer.py; sleep 300\n"
    cyd.run("sh", "-c", "cat > task.yaml", text=task)
    for name in ("one", "two"):
        submitted = cyd.stw("run", "-d", "--name", name, "task.yaml")
        assert submitted.returncode == 0, submitted.stderr
    runs(cyd, "one")
    until(lambda: "42" in cyd.stw("logs", "one").stdout, "its code is there")
    until(lambda: cyd.show("two")["reason"], "it is told why it waits")
    assert cyd.show("two")["reason"]["sentence"] == "cyd has 1 runs, and may have 1 at a time"
    assert cyd.stw("cancel", "--all", "-y").returncode == 0
    until(lambda: cyd.show("two")["phase"] == "Cancelled", "both have ended")
    used = {one["who"]: one for one in json.loads(cyd.stw("usage", "-o", "json").stdout)}
    assert used["cyd"]["runs"] >= 1
    assert used["ada"]["cpu_ms"] > 0


def test_what_is_left_in_peoples_own_folders_is_tidied_as_them(house: House) -> None:
    """By the server's settings, through each one's own runtime; whoever isn't there is named."""
    ada, ben, cyd = (house.people[name] for name in ("ada", "ben", "cyd"))
    assert ada.stw("run", "--name", "left", "--", "true").returncode == 0
    kept = list(ada.home.glob(".local/state/stellwerk/*/guest-*/runtime/runs/*"))
    assert kept
    assert cyd.stw("agent", "stop").returncode == 0
    swept = ben.stw("gc", "--older-than", "0d", "--only", "runs", "-y")
    assert "out of reach: " in swept.stderr
    assert "/cyd" in swept.stderr, swept
    assert not list(ada.home.glob(".local/state/stellwerk/*/guest-*/runtime/runs/*")), swept
