"""The server as a process of its own, with real jobs on this machine."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes import wait_gone
from tests.server.stage import Answer, UnixConnection, ask

PATIENCE_S = 30.0


def until(condition: Callable[[], object], what: str) -> None:
    """Waits until something holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.01)


class Home:
    """A state folder, and the servers and the agent that work on it."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.socket = str(folder / "run" / "s" / "server.sock")
        self.env = {
            **os.environ,
            "STELLWERK_HOME": str(self.state),
            "STELLWERK_SOCKET": self.socket,
        }
        self.servers: list[subprocess.Popen[bytes]] = []

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts a server process."""
        process = subprocess.Popen(
            [sys.executable, "-m", "stellwerk.server", *arguments],
            env=self.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self.servers.append(process)
        return process

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts a server and waits until it answers."""
        process = self.begin(*arguments)
        until(lambda: self.beacon().get("pid") == process.pid, "the server answers")
        return process

    def beacon(self) -> dict[str, object]:
        try:
            told: dict[str, object] = json.loads((self.state / "server.json").read_text())
        except FileNotFoundError:
            return {}
        return told

    def log(self) -> str:
        return (self.state / "server.log").read_text()

    def get(self, path: str) -> Answer:
        return ask(UnixConnection(self.socket), "GET", path)

    def post(self, path: str, body: object = None) -> Answer:
        return ask(UnixConnection(self.socket), "POST", path, {} if body is None else body)

    def submit(self, script: str) -> str:
        """Submits a job; gives its id."""
        answer = self.post("/v1/workloads", {"text": f"run: |\n  {script}\n", "file": "job.yaml"})
        assert answer.status == 201, answer.body
        return str(answer.json["id"])

    def clean_up(self) -> None:
        """Ends what was started here."""
        for process in self.servers:
            process.kill()
            process.communicate()
        try:
            agent = json.loads((self.state / "runtime" / "agent.json").read_text())["pid"]
            os.kill(agent, signal.SIGTERM)
        except (FileNotFoundError, ProcessLookupError):
            return
        wait_gone(agent)


@pytest.fixture
def home(home_of_its_own: str) -> Iterator[Home]:
    """A state folder of one's own."""
    place = Home(Path(home_of_its_own))
    yield place
    place.clean_up()


def test_a_real_job_while_servers_come_and_go(home: Home) -> None:
    """One server at a time; killed or stopped, the next one adopts what runs."""
    first = home.start()
    assert os.stat(home.socket).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(home.socket)).st_mode & 0o777 == 0o700
    second = home.begin()
    _, said = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 5
    assert f"(pid {first.pid})".encode() in said
    assert b"error[server/running]" in said

    go = home.state.parent / "go"
    job = home.submit(f"echo begun; while [ ! -e {go} ]; do sleep 0.02; done; echo done; exit 3")
    until(lambda: home.get(f"/v1/workloads/{job}/logs").body == b"begun\n", "its output")
    first.kill()
    first.wait()
    third = home.start()
    until(lambda: home.get(f"/v1/workloads/{job}").json["phase"] == "Running", "it is adopted")
    third.send_signal(signal.SIGTERM)
    assert third.wait(PATIENCE_S) == 0
    assert not os.path.exists(home.socket)
    assert home.beacon() == {}
    assert "has ended" in home.log()

    fourth = home.start()
    show = home.get(f"/v1/workloads/{job}").json
    assert show["phase"] == "Running"
    go.touch()
    row = home.get(f"/v1/workloads/{job}/wait?timeout_ms=20000").json
    assert (row["phase"], row["exit_code"], row["runs"]) == ("Failed", 3, 1)
    assert home.get(f"/v1/workloads/{job}/logs").body == b"begun\ndone\n"
    assert home.post("/v1/server/stop").status == 202
    assert fourth.wait(PATIENCE_S) == 0


def test_a_server_whose_engine_has_died_ends(home: Home) -> None:
    """It never answers on as if nothing were wrong; the log has a sentence and the cause."""
    process = home.start()
    # Another leader on the same state fences the engine at its next write.
    script = (
        "import sys, pathlib; from stellwerk.store import Store; "
        "s = Store.open(pathlib.Path(sys.argv[1])); s.raise_epoch('other'); s.close()"
    )
    subprocess.run([sys.executable, "-c", script, str(home.state)], check=True)
    taken: Answer | None = None
    with contextlib.suppress(http.client.HTTPException, OSError):  # it may be gone by itself
        taken = home.post("/v1/workloads", {"text": "run: 'true'", "file": "job.yaml"})
    assert process.wait(PATIENCE_S) == 1
    assert not os.path.exists(home.socket)
    assert "CRITICAL stellwerk.server the engine has stopped working" in home.log()
    next_one = home.start()
    if taken is not None and taken.status == 201:
        found = home.get(f"/v1/workloads/{taken.json['name']}")
        assert (found.status, found.json["id"]) == (200, taken.json["id"]), "it is waited for"
    assert home.post("/v1/server/stop").status == 202
    assert next_one.wait(PATIENCE_S) == 0
    assert "store/fenced" in home.log()
    for line in home.log().splitlines():
        assert line[:4].isdecimal(), f"not a line of its own: {line}"


def test_over_tcp_only_with_the_token(home: Home) -> None:
    """The token lies in a file that only its user can read."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    home.start("--listen", f"127.0.0.1:{port}")
    path = home.state / "server.token"
    assert path.stat().st_mode & 0o777 == 0o600
    token = path.read_text().strip()

    def over_tcp(headers: dict[str, str]) -> Answer:
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        return ask(connection, "GET", "/v1/server", headers=headers)

    for headers in (
        {},
        {"Authorization": "Bearer x"},
        {"Authorization": f"Basic {token}"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer é"},
    ):
        refused = over_tcp(headers)
        assert (refused.status, refused.json["code"], refused.json["exit"]) == (
            401,
            "auth/token",
            4,
        )
        assert refused.headers["www-authenticate"] == "Bearer"
    assert over_tcp({"Authorization": f"Bearer {token}"}).json["home"] == str(home.state)
    assert home.get("/v1/server").status == 200


@pytest.mark.parametrize(
    ("spoil", "code", "status"),
    [
        ("a damaged database", "store/damaged", 6),
        ("a file in the way of the socket", "server/socket", 6),
        ("an address that is none", "server/listen", 2),
        ("a token that others can read", "server/token", 4),
    ],
)
def test_what_keeps_a_server_from_starting_is_said(
    home: Home, spoil: str, code: str, status: int
) -> None:
    """To whoever started it and in the log: one sentence, no traceback."""
    arguments: tuple[str, ...] = ()
    home.state.mkdir(exist_ok=True)
    if "database" in spoil:
        (home.state / "store.db").write_bytes(b"this is no database " * 100)
    elif "socket" in spoil:
        os.makedirs(os.path.dirname(home.socket))
        Path(home.socket).write_text("")
    elif "address" in spoil:
        arguments = ("--listen", "nowhere")
    else:
        arguments = ("--listen", "127.0.0.1:0")
        (home.state / "server.token").write_text("x" * 40)
        (home.state / "server.token").chmod(0o644)
    process = home.begin(*arguments)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert f"error[{code}]".encode() in said, said
    assert b"Traceback" not in said
    assert process.returncode == status
    assert f"error[{code}]" in home.log()
    assert home.beacon() == {}
