"""The real runtime's agent in a folder of its own, and a client that asks it and waits.

The agent is the bundled file, run by the oldest Python there is: what works on it works on all.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from stellwerk.runtime import bundle
from tests.processes import is_alive

JSONObject = dict[str, Any]
WAIT_S = 15.0


def interpreters() -> dict[str, str]:
    """Pythons on this machine by version, the oldest that counts first: 3.9 to 3.13."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    pyenv = Path(os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")) / "versions"
    for minor in range(9, 14):
        candidates = [str(path) for path in sorted(pyenv.glob(f"3.{minor}.*/bin/python"))]
        plain = shutil.which(f"python3.{minor}")
        for candidate in [*candidates, *([plain] if plain else [])]:
            if f"3.{minor}" not in found and works(candidate):
                found[f"3.{minor}"] = candidate
    return dict(sorted(found.items(), key=lambda item: int(item[0].split(".")[1])))


def works(python: str) -> bool:
    asked = [python, "-I", "-S", "-c", "import ctypes"]
    return subprocess.call(asked, stderr=subprocess.DEVNULL) == 0


INTERPRETERS = interpreters()
ENDS = sorted({*list(INTERPRETERS)[:1], *list(INTERPRETERS)[-1:]})
"""The oldest and the newest version."""
OLDEST = next(iter(INTERPRETERS.values()))
SOURCE = Path(bundle.__file__).parents[2]
PYTHON = f"{sys.executable} -I -S -u"
"""How a job in a test starts a Python that is quick to start."""


@cache
def bundle_of(python: str) -> bytes:
    """The file as that Python packs it, which then has nothing to compile at each start."""
    program = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n"
        "from stellwerk.runtime import bundle; sys.stdout.buffer.write(bundle.packed())"
    )
    return subprocess.run(
        [python, "-I", "-S", "-c", program], check=True, capture_output=True
    ).stdout


class Refusal(Exception):
    """The agent's answer was an error."""

    def __init__(self, error: JSONObject) -> None:
        super().__init__(error["message"])
        self.code = error["code"]
        self.error = error


class Client:
    """One connection to an agent."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(WAIT_S)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise
        self._lines = self._socket.makefile("rb")
        self._number = 0
        self.events: list[JSONObject] = []

    def send_raw(self, line: bytes) -> None:
        self._socket.sendall(line + b"\n")

    def receive(self) -> JSONObject:
        line = self._lines.readline()
        assert line, "the agent hung up"
        value: JSONObject = json.loads(line)
        return value

    def ask(self, op: str, **fields: Any) -> JSONObject:
        """Ask and wait for the answer; what is pushed meanwhile is kept in `events`."""
        self._number += 1
        self.send_raw(json.dumps({"id": self._number, "op": op, **fields}).encode())
        while True:
            answer = self.receive()
            if answer.get("id") == self._number and "event" not in answer:
                break
            self.events.append(answer)
        if "error" in answer:
            raise Refusal(answer["error"])
        return answer

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


def result_of(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever its status."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


class Rig:
    """One root, and the agents that serve it one after the other."""

    def __init__(
        self,
        folder: str,
        *,
        python: str = OLDEST,
        bashrc: str = "",
        prefix: tuple[str, ...] = (),
    ) -> None:
        self.folder = folder
        self.python = python
        self.prefix = prefix
        self.root = os.path.join(folder, "root")
        self.socket = os.path.join(folder, "s", "agent")
        self.home = os.path.join(folder, "home")
        os.makedirs(self.home)
        Path(self.home, ".bashrc").write_text(bashrc)
        self.program = os.path.join(folder, "runtime.pyz")
        Path(self.program).write_bytes(bundle_of(python))
        self.agent: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None

    def command(self, *arguments: str) -> list[str]:
        """The runtime's own command line."""
        return [*self.prefix, self.python, "-I", "-S", self.program, *arguments]

    def environment(self) -> dict[str, str]:
        kept = ("PATH", "LANG", "LC_ALL", "STELLWERK_NVML_LIBRARY")
        return {**{n: os.environ[n] for n in kept if n in os.environ}, "HOME": self.home}

    @property
    def client(self) -> Client:
        """The connection to the agent of now."""
        assert self._client is not None
        return self._client

    def start_agent(self, *more: str, env: dict[str, str] | None = None) -> None:
        """Start an agent and connect as soon as its socket is there."""
        if self._client is not None:
            self._client.close()
        # An agent whose test breaks off leaves by itself.
        patience = [] if "--idle-exit-s" in more else ["--idle-exit-s", "60"]
        place = ["--root", self.root, "--socket", self.socket]
        self.agent = subprocess.Popen(
            self.command("serve", *place, *patience, *more),
            env={**self.environment(), **(env or {})},
            start_new_session=True,
        )
        deadline = time.monotonic() + WAIT_S
        while True:
            with contextlib.suppress(OSError):
                self._client = Client(self.socket)
                try:
                    self._client.ask("hello")
                    return
                except (OSError, AssertionError):
                    # This was still the socket of one that was killed.
                    self._client.close()
            assert self.agent.poll() is None, "the agent did not start"
            assert time.monotonic() < deadline, "the agent's socket did not appear"
            time.sleep(0.01)

    def kill_agent(self) -> None:
        assert self.agent is not None
        self.client.close()
        self.agent.kill()
        self.agent.wait()

    def close(self) -> None:
        """End every run and the agent."""
        if self.agent is not None:
            try:
                if self.agent.poll() is not None:
                    self.start_agent()
                self._end_runs()
                self.client.close()
            finally:
                self.agent.terminate()
                self.agent.wait()

    def _end_runs(self) -> None:
        for run in self.client.ask("list")["runs"]:
            if run["state"] != "ended":
                self.client.ask("kill", run=run["run"])
        for run in self.client.ask("list")["runs"]:
            self.ended(run["run"])

    # -- runs ------------------------------------------------------------------------------------

    def start(self, run: str, script: str | None, **fields: Any) -> JSONObject:
        """Start a run of a script."""
        secrets = fields.pop("secrets", {})
        secret_files = fields.pop("secret_files", {})
        spec = {"v": 1, "run": run, "generation": 1, "epoch": 1, "workload": f"w-{run}", **fields}
        if script is not None:
            spec["script"] = script
        return self.client.ask("start", spec=spec, secrets=secrets, secret_files=secret_files)

    def report(self, run: str) -> JSONObject:
        """What the agent knows of a run."""
        return next(r for r in self.client.ask("list")["runs"] if r["run"] == run)

    def wait(self, what: str, condition: Callable[[], Any], limit_s: float = WAIT_S) -> Any:
        """Wait for something that is not false; what it is."""
        deadline = time.monotonic() + limit_s
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < deadline, f"{what} did not come about in {limit_s:g} s"
            time.sleep(0.01)

    def wait_for_line(self, run: str, text: str, log: str = "run.log") -> None:
        """Wait until a run has printed something."""
        self.wait(f"the line {text!r}", lambda: text in self.log(run, log))

    def ended(self, run: str, limit_s: float = WAIT_S) -> JSONObject:
        """Wait for the end of a run; its record."""
        record: JSONObject = self.wait(
            f"the end of {run}", lambda: self.report(run)["ended"], limit_s
        )
        return record

    def finish(self, run: str, script: str | None, **fields: Any) -> JSONObject:
        """Start a run and wait for its end."""
        self.start(run, script, **fields)
        return self.ended(run)

    def path(self, run: str, name: str = "") -> str:
        return os.path.join(self.root, "runs", run, name)

    def log(self, run: str, log: str = "run.log") -> str:
        try:
            return Path(self.path(run, log)).read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def wrapper(self, run: str) -> int:
        pid: int = json.loads(Path(self.path(run, "started.json")).read_text())["pid"]
        return pid


@contextlib.contextmanager
def a_rig(**settings: Any) -> Iterator[Rig]:
    """A rig in a folder with a short path (a socket's may have 107 bytes), without an agent yet."""
    folder = tempfile.mkdtemp(prefix="stw-rt-")
    rig = Rig(folder, **settings)
    try:
        yield rig
    finally:
        rig.close()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def a_rig_of_nobody() -> Iterator[Rig]:
    """A rig whose agent is no root, as on a lab's machine; where the tests are no root, the usual.

    Such a user needs a Python outside of root's home.
    """
    python = shutil.which("python3", path="/usr/bin:/bin")
    if os.getuid() != 0 or python is None or shutil.which("setpriv") is None:
        with a_rig() as rig:
            yield rig
        return
    ids = ("--reuid=65534", "--regid=65534", "--clear-groups")
    with a_rig(python=python, prefix=("setpriv", *ids)) as rig:
        for folder, _, files in os.walk(rig.folder):
            for path in [folder, *(os.path.join(folder, name) for name in files)]:
                os.chown(path, 65534, 65534)
        yield rig


def processes_of(run: str) -> list[int]:
    """Living processes with the marker of a run."""
    marker = f"STELLWERK_RUN_ID={run}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                environ = Path(f"/proc/{entry}/environ").read_bytes()
            except OSError:
                continue
            if marker in environ.split(b"\0") and is_alive(int(entry)):
                found.append(int(entry))
    return found


def until_there(path: Path) -> str:
    """Bash text that waits for a file, but not for ever."""
    return f"for _ in $(seq 600); do [ ! -e {path} ] || break; sleep 0.1; done"


TRAINER = f"""
cat > train.py <<'EOF'
import os, signal, sys, time
code, save_s = int(sys.argv[1]), float(sys.argv[2])
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
print("ready", flush=True)
while not told:
    time.sleep(0.01)
print("saving", flush=True)
time.sleep(save_s)
with open(os.environ["STELLWERK_CHECKPOINT_DIR"] + "/model", "w") as f:
    f.write("weights")
print("saved", flush=True)
sys.exit(code)
EOF
train="{PYTHON} train.py"
"""
"""Bash text that defines `$train CODE SECONDS`: trains until SIGTERM, saves, and exits."""

KILL = signal.SIGKILL
