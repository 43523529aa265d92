"""Interactive work on a machine behind a real sshd: a shell that waits its turn, and a port."""

import socket
import subprocess
from collections.abc import Iterator
from urllib.request import urlopen

import pytest

from tests.lab.room import Computer, Room, a_room, missing
from tests.lab.test_ssh import STW, Person
from tests.processes import wait_until

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.timeout(300),
]
PATIENCE_S = 90.0


@pytest.fixture(scope="module")
def lab() -> Iterator[tuple[Person, Computer]]:
    with a_room() as room:
        yield from _a_person_with_a_machine(room)


def _a_person_with_a_machine(room: Room) -> Iterator[tuple[Person, Computer]]:
    computer = room.add()
    room.trust(computer)
    person = Person(room)
    person.stw("cluster", "add", "lab", "--host", str(computer))
    wait_until(lambda: person.nodes()[0]["state"] == "ready", "the machine is ready", PATIENCE_S)
    yield person, computer
    person.stw("server", "stop", code=None)
    computer.end_jobs()


def test_a_shell_is_there_and_ends_with_its_code(lab: tuple[Person, Computer]) -> None:
    """Its commands come from standard input; the job is over with it, and is one that succeeded."""
    person, computer = lab
    shell = subprocess.run(
        [str(STW), "run", "--shell", "--infra", "ssh/lab", "--name", "desk"],
        input=b'hostname -I\necho "$((6 * 7)) in $STELLWERK_RUN_ID"\nexit 7\n',
        env=person.env,
        cwd=person.work,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    said = shell.stdout.decode()
    assert shell.returncode == 7, said + shell.stderr.decode()
    run = person.show("desk")["runs"][0]["id"]
    addresses, *rest = said.splitlines()
    assert computer.address in addresses.split()
    assert rest == [f"42 in {run}"]
    wait_until(lambda: person.show("desk")["phase"] == "Succeeded", "its end", PATIENCE_S)


def test_a_port_of_a_job_there_is_reached_here(lab: tuple[Person, Computer]) -> None:
    """`run --forward` waits until something listens, and tells where it is reached."""
    person, _ = lab
    person.stw("cluster", "probe", "lab")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (person.work / "web.yaml").write_text(
        "resources: {infra: ssh/lab}\n"
        "run: |\n  mkdir www && cd www && echo from there > page\n"
        "  exec python3 -m http.server --bind 127.0.0.1 8899\n"
    )
    argv = [str(STW), "run", "--forward", f"{port}:8899", "web.yaml"]
    with subprocess.Popen(
        argv, env=person.env, cwd=person.work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as following:
        wait_until(lambda: _page(port) == b"from there\n", "the page", PATIENCE_S)
        person.stw("cancel", "web")
        said, _ = following.communicate(timeout=PATIENCE_S)
    assert f"127.0.0.1:{port}".encode() in said


def _page(port: int) -> bytes:
    try:
        with urlopen(f"http://127.0.0.1:{port}/page", timeout=5) as page:
            return bytes(page.read())
    except OSError:
        return b""
