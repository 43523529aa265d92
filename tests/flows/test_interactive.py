"""A person works inside of jobs: a shell with a place of its own, a port, and what nobody uses."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from urllib.request import urlopen

from tests.flows.person import Person
from tests.flows.test_exec import LIMIT_S, Window

STW = [sys.executable, "-m", "stellwerk.cli"]
READY = "PS1=; echo rea''dy\n"
SERVER = """\
import http.server, sys
door = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)
print(f"http://localhost:{sys.argv[1]}/lab?token=abc", flush=True)
door.serve_forever()
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


def wait_for(pattern: str, told: "os.PathLike[str]") -> str:
    deadline = time.monotonic() + LIMIT_S
    while True:
        with open(told, encoding="utf-8") as file:
            text = file.read()
        if found := re.search(pattern, text):
            return found[1]
        assert time.monotonic() < deadline, text
        time.sleep(0.05)


def test_a_person_works_inside_of_jobs(colleague: Person) -> None:
    """A shell ends its job, a lost one doesn't; a page of a job is read; what rests is ended."""
    person = colleague
    small = "resources: {cpus: 0.1}\nenvs: {COLOUR: green}\n"
    person.stw(
        "run", "-d", "--idle-limit", "4s", "-n", "rests", "--cpus", "0.1", "--", "sleep", "600"
    )
    task = person.task("echo never", name="mine", more=small)

    with Window(person, "run", "--shell", task) as window:
        window.until(b"`run` of mine.yaml isn't started")
        window.type(READY)
        window.until(b"ready")
        window.type("echo =$COLOUR=; exit 9\n")
        window.until(b"=green=")
        assert window.code() == 9
    shown = person.json("show", "shell")
    assert (shown["phase"], person.stw("logs", "shell").stdout) == ("Succeeded", "")

    with Window(person, "run", "--shell", "-n", "back", "--cpus", "0.1") as window:
        window.type(READY)
        window.until(b"ready")
        window.type("echo =$PWD=\n")
        window.until(f"={person.desk}=".encode())
        os.close(window.terminal)
        window.terminal = os.open(os.devnull, os.O_RDONLY)
        os.waitpid(window.pid, 0)
    assert person.phases()["back"] == "Running"
    person.stw("shell", "back", stdin='touch "$STELLWERK_DONE_FILE"\n')
    person.until({"back": "Succeeded"})

    port = free_port()
    told = person.folder / "told.txt"
    command = [*STW, "run", "-n", "page", "--cpus", "0.1", "--forward", f"0:{port}", "--"]
    with told.open("wb") as errors:
        follower = subprocess.Popen(
            [*command, sys.executable, "-c", SERVER, str(port)],
            env=person.env,
            cwd=person.desk,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
    try:
        address = wait_for(r"open (http://\S+/lab\?token=abc)", told)
        assert int(address.split(":")[2].split("/")[0]) != port
        with urlopen(address.replace("lab?token=abc", "")) as page:
            assert b"mine.yaml" in page.read()
        follower.send_signal(signal.SIGINT)
        assert follower.wait(LIMIT_S) == 130
        assert f"stw forward page 0:{port}" in told.read_text()
    finally:
        follower.kill()
        follower.wait()
    person.stw("cancel", "page")

    person.until({"rests": "Cancelled"}, timeout_s=60)
    reasons = person.json("show", "rests")["reasons"]
    assert [reason["code"] for reason in reasons] == ["idle"]
