"""Every verb that takes a name, a cluster, a queue or a file completes it, for each shell."""

import os
import subprocess
import sys

import click
import pytest

from stellwerk.cli.main import TABLE, cli
from tests.cli.conftest import Stw
from tests.client.fake_server import FakeServer, row

NAMES = {"name", "names", "workload", "source", "pattern"}
FILES = {"file", "destination", "workdir", "env_file"}
PLACES = {"cluster", "places", "infra"}


def parameters(wanted: set[str]) -> list[tuple[str, str]]:
    """The verbs with the parameters of these names, but options that set a name."""
    context = click.Context(cli)
    found = []
    for verb in TABLE:
        command = cli.get_command(context, verb)
        assert command is not None
        for parameter in command.params:
            is_argument = isinstance(parameter, click.Argument)
            if parameter.name in wanted and (is_argument or wanted is not NAMES):
                found.append((verb, str(parameter.name)))
    return found


def completed(verb: str, name: str, typed: str) -> list[tuple[str, str]]:
    """What a parameter proposes, and of which kind that is."""
    context = click.Context(cli)
    command = cli.get_command(context, verb)
    assert command is not None
    [parameter] = [one for one in command.params if one.name == name]
    items = parameter.shell_complete(click.Context(command, parent=context), typed)
    return [(item.value, item.type) for item in items]


@pytest.fixture
def fleet(server: FakeServer) -> FakeServer:
    """A server with a workload in a queue, and a cluster."""
    rows = {"items": [row("digits") | {"queue": "night"}], "seq": 1, "next": None}
    server.on("GET", "/v1/workloads", rows)
    node = {"name": "pc03", "state": "ready"}
    server.on("GET", "/v1/clusters", {"items": [{"name": "k017", "nodes": [node]}], "seq": 1})
    return server


@pytest.mark.parametrize(("verb", "name"), parameters(NAMES))
def test_every_name_is_completed(fleet: FakeServer, stw: Stw, verb: str, name: str) -> None:
    """With those there are; `cp` goes on to a place in the job."""
    [(value, _)] = completed(verb, name, "di")
    assert value == ("digits:" if name == "source" else "digits")
    assert completed(verb, name, "x") == []


@pytest.mark.parametrize(("verb", "name"), parameters(PLACES))
def test_every_cluster_is_completed(fleet: FakeServer, stw: Stw, verb: str, name: str) -> None:
    """And where a node may be named, its nodes."""
    found = [value for value, _ in completed(verb, name, "k")]
    assert found == (["k017", "k017/pc03"] if name == "places" else ["k017"])


@pytest.mark.parametrize(("verb", "name"), parameters({"queue"}))
def test_every_queue_is_completed(fleet: FakeServer, stw: Stw, verb: str, name: str) -> None:
    """With those in which something waits."""
    assert completed(verb, name, "n") == [("night", "plain")]


@pytest.mark.parametrize(("verb", "name"), parameters(FILES))
def test_files_are_left_to_the_shell(stw: Stw, verb: str, name: str) -> None:
    """Which knows them best."""
    assert completed(verb, name, "tr") == [("tr", "dir" if name == "workdir" else "file")]


def test_places_in_a_job_are_completed(fleet: FakeServer, stw: Stw) -> None:
    """Its outputs and checkpoints."""
    assert completed("cp", "source", "digits:o") == [("digits:outputs:", "plain")]
    assert completed("ls", "path", "ch") == [("checkpoints:", "plain")]


def test_it_is_asked_once_in_a_while(fleet: FakeServer, stw: Stw) -> None:
    """Live names, too, are remembered for some seconds."""
    for _ in range(3):
        assert completed("cancel", "names", "di")
    assert len(fleet.asked) == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_answer(fleet: FakeServer, stw: Stw, shell: str) -> None:
    """As its script asks for it."""
    env = {
        **os.environ,
        "_STW_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "stw show di",
        "COMP_CWORD": "di" if shell == "fish" else "2",
    }
    program = "from stellwerk.cli.main import cli; cli(prog_name='stw')"
    answer = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    assert "digits" in answer.stdout
