"""Ports that a job is to be reached at, and addresses that it prints."""

import socket

import pytest

from stellwerk.cli.ports import Overheard, taken_ports
from tests.cli.conftest import Stw
from tests.cli.jobs import Job


def test_an_address_is_heard_in_any_pieces() -> None:
    """With its token, without colours and what ends the sentence; the newest of a port."""
    heard = Overheard()
    for piece in (
        b"serving at http://localhost:8888/\n",
        b"    \x1b[32mhttp://127.0.0.1:8888/lab?tok",
        b"en=abc\x1b[0m\nTensorBoard at http://pc7:6006/x/ (Press CTRL+C)\n",
        b"see http://example.org/ and http://localhost:9999/unfinish",
    ):
        heard.hear(piece)
    assert heard.paths == {8888: "/lab?token=abc", 6006: "/x/"}


def test_a_port_here_that_cant_be_had_is_told() -> None:
    """Before anything is submitted; one that is free now is left free."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        told = taken_ports([(port, 8888), (0, 1), (0, 2)])
        assert [problem.code for problem in told] == ["forward/port"]
        assert f"{port + 1}:8888" in told[0].help
    assert taken_ports([(port, 8888)]) == []
    assert [problem.code for problem in taken_ports([(port, 1), (port, 2)])] == ["usage/port"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--forward", "0:x", "--", "true"], ["`0:x` is no port"]),
        (["-d", "--forward", "0:1", "--", "true"], ["--forward needs one job"]),
        (["--shell", "--", "true"], ["--shell takes no command"]),
        (
            ["--shell", "--forward", "0:1", "--array", "0-3", "--gpu", "1"],
            ["no option `--gpu`", "a shell is one job", "don't go together", "needs one job"],
        ),
    ],
)
def test_what_cant_be_meant_is_told_at_once(
    job: Job, stw: Stw, words: list[str], said: list[str]
) -> None:
    """All of it, and nothing is submitted."""
    result = stw("run", *words)
    assert result.code == 2
    for part in said:
        assert part in result.err
    assert not job.server.bodies("POST", "/v1/workloads")


def test_a_shell_without_a_file_says_what_it_asks_for(job: Job, stw: Stw) -> None:
    """Detached, it says how to get in."""
    result = stw("run", "--shell", "-d", "--gpus", "A100:1")
    assert result.code == 0
    assert "next: stw shell digits" in result.err
    assert job.submitted["overrides"] == {"gpus": "A100:1", "shell": "1h"}
