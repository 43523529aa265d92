"""A command that is forked for a test is what one is that is started."""

import json
import os
import signal
from pathlib import Path

from tests.flows.person import Person, Quick
from tests.processes import wait_gone


def test_a_forked_command_is_as_a_started_one(tmp_path: Path) -> None:
    """Exit code, output, complaints; and its server is a process as any other."""
    started, forked = Person(tmp_path), Quick(tmp_path)
    for words in (("--version",), ("run", "--help"), ("sevrer",), ("server", "status")):
        one, other = (each.stw(*words, code=None) for each in (started, forked))
        assert (one.returncode, one.stdout, one.stderr) == (
            other.returncode, other.stdout, other.stderr,
        )  # fmt: skip
    # The path of a Unix socket has 107 bytes at most.
    forked.env["XDG_RUNTIME_DIR"] = os.environ["XDG_RUNTIME_DIR"]
    try:
        forked.stw("server", "start")
        pid = int(json.loads((forked.state / "server.json").read_text())["pid"])
        assert os.getsid(pid) == pid
        assert Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").endswith(b"stellwerk.server")
        told = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert f"STELLWERK_HOME={forked.state}".encode() in told
        os.kill(pid, signal.SIGKILL)
        wait_gone(pid)
        assert forked.stw("server", "status", code=6).stdout == ""
    finally:
        forked.leave()
