"""Runs the command line inside the test, against a server that says what the test wants."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from stellwerk.cli.main import main
from stellwerk.client import launch
from stellwerk.config import load
from tests.cli.jobs import Job
from tests.client.fake_server import STATUS, FakeServer


class Result(NamedTuple):
    """What a command left: its exit code, its data, its narration."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Stw = Callable[..., Result]


@pytest.fixture(autouse=True)
def no_real_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test does to its server, no real one takes its place."""
    refuses = [sys.executable, "-c", "raise SystemExit('no test starts a real server')"]
    monkeypatch.setattr(launch, "server_command", lambda: refuses)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A fake server at the user's own socket."""
    with FakeServer(load().socket) as fake:
        fake.on("GET", "/v1/server", STATUS)
        yield fake


@pytest.fixture
def stw(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Stw:
    """Calls `stw` with arguments, and gives what came of it."""
    monkeypatch.setattr(sys, "argv", ["stw"])

    def call(*arguments: str) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Result(ended.value.code, out, err)

    return call


@pytest.fixture
def job(server: FakeServer) -> Job:
    return Job(server)


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("task.yaml").write_text("run: echo hello\n")
    return "task.yaml"
