"""`stw exec` and `stw shell`: streams apart, the command's own code, words for everything else."""

import json
import sys
from collections.abc import Callable

import pytest

from stellwerk.cli.main import main
from stellwerk.runtime import frames
from tests.cli.conftest import Stw
from tests.client.fake_server import FakeServer, Says, refuses

OPTION = (
    "error[usage/option]  stw exec has no option `-l`  "
    "help: write `--` before the command, as in: stw exec NAME -- ls -l\n"
)
ADDRESS = "/v1/workloads/digits/exec"


def ended(code: int, error: str = "", message: str = "") -> bytes:
    said: dict[str, object] = {"code": code}
    if error:
        said["error"] = {"code": error, "message": message}
    return frames.frame(frames.ENDED, json.dumps(said).encode())


@pytest.fixture
def says(server: FakeServer) -> Callable[..., None]:
    """Has a command inside `digits` say some frames."""

    def answer(*pieces: bytes) -> None:
        server.on("POST", ADDRESS, lambda _asked: Says(iter(pieces), cut=True))

    return answer


def refused(code: str, message: str, **more: str) -> Says:
    """A refusal; this server doesn't read what is still said to it."""
    said = refuses(code, message, 404, 3, **more)
    return said._replace(headers={**said.headers, "Connection": "close"})


def wish_of(server: FakeServer) -> tuple[dict[str, str], dict[str, object]]:
    """What the newest command was asked for with."""
    asked = next(one for one in reversed(server.asked) if one.path == ADDRESS)
    return asked.query, dict(asked.headers)  # the body goes on, and this server reads none of it


def test_streams_and_code_are_the_commands(
    says: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Raw bytes, each stream where it belongs, and whatever code it ended with."""
    output, errors = (
        frames.frame(kind, b"\xff\x00" + text)
        for kind, text in ((frames.OUTPUT, b"out"), (frames.ERRORS, b"err"))
    )
    says(output, errors, ended(42))
    monkeypatch.setattr(sys, "argv", ["stw"])
    with pytest.raises(SystemExit) as end:
        main(["exec", "digits", "--", "anything"])
    assert (end.value.code, capfdbinary.readouterr()) == (42, (b"\xff\x00out", b"\xff\x00err"))


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        (127, "not_found", "error[exec/not-found]  there is none  help: is it installed there?"),
        (126, "not_executable", "error[exec/not-executable]  there is none  help: a program has"),
        (125, "run_ended", "error[exec/run-ended]  there is none  help: `stw show digits` tells"),
    ],
)
def test_what_cant_be_run_has_its_code(
    stw: Stw, says: Callable[..., None], code: int, error: str, words: str
) -> None:
    """As in a shell, with a sentence and a remedy."""
    says(ended(code, error, "there is none"))
    done = stw("exec", "digits", "--", "anything")
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith(words)


def test_a_connection_that_breaks_is_ours(stw: Stw, says: Callable[..., None]) -> None:
    """125, not whatever the command might have ended with."""
    says(frames.frame(frames.OUTPUT, b""))
    done = stw("exec", "digits", "--", "anything")
    assert done.code == 125
    assert done.err.startswith("error[exec/cut-off]  the connection broke")
    assert "stw show digits" in done.err


def test_every_refusal_of_the_server_is_125(stw: Stw, server: FakeServer) -> None:
    """A code that could be the command's own would say what isn't so."""
    server.on("POST", ADDRESS, refused("find/workload", "there is no digits", help="look"))
    done = stw("exec", "digits", "--", "anything")
    assert (done.code, done.err) == (125, "error[find/workload]  there is no digits  help: look\n")


def test_an_older_server_is_named_as_such(stw: Stw, server: FakeServer) -> None:
    """It knows no such address; what to do is said."""
    server.on("POST", ADDRESS, refused("request/path", "there is nothing"))
    done = stw("exec", "digits", "--", "anything")
    assert done.code == 125
    assert done.err.startswith("error[exec/older-server]  the server is older than this client")


def test_options_reach_the_server(stw: Stw, server: FakeServer, says: Callable[..., None]) -> None:
    """Which run and which rank; an option behind `--` is the command's."""
    says(ended(0))
    assert stw("exec", "digits", "--run", "3", "--rank", "1", "--", "ls", "--run").code == 0
    query, headers = wish_of(server)
    assert query == {"run": "3", "rank": "1"}
    assert headers["Content-Type"] == "application/vnd.stellwerk.exec"


def test_wrong_use_is_told(stw: Stw) -> None:
    """An option of the command before `--`, no command, a terminal where there is none."""
    done = stw("exec", "digits", "ls", "-l")
    assert (done.code, done.err) == (
        2,
        OPTION,
    )
    done = stw("exec", "digits", "--node", "1", "--", "ls")
    assert done.err == (
        "error[usage/option]  stw exec has no option `--node`  help: stw exec --help\n"
    )
    assert stw("exec", "digits").code == 2
    done = stw("exec", "-t", "digits", "--", "ls")
    assert (done.code, done.err) == (
        2,
        "error[usage/terminal]  standard output is no terminal  help: leave out -t\n",
    )
