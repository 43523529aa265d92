"""`--node`: output and files of one machine of a job over several, by its number or its name."""

import pytest

from tests.cli.conftest import Stw
from tests.client.fake_server import Asked, FakeServer, Says, run, show


@pytest.fixture
def pair(server: FakeServer) -> FakeServer:
    """A job on two machines with two ranks each, whose files are on them."""
    page = show("pair", "Running", runs=[run(nodes=["pc01", "pc02"])], policies={"ranks": 4})

    def files(asked: Asked) -> object:
        node = asked.query.get("node", "0")
        one = {"name": f"on-{node}", "kind": "file", "size": 2, "modified_ms": 0}
        return {"root": "/there", "is_folder": True, "files": [one]}

    server.on("GET", "/v1/workloads/pair", page)
    server.on("GET", "/v1/workloads/pair/files", files)
    server.on(
        "GET",
        "/v1/workloads/pair/logs",
        lambda asked: Says([f"rank {asked.query.get('rank', '0')}\n".encode()]),
    )
    return server


@pytest.mark.parametrize(("node", "found"), [("0", "0"), ("1", "1"), ("pc02", "1")])
def test_files_of_a_machine_are_listed(pair: FakeServer, stw: Stw, node: str, found: str) -> None:
    """By its number or its name; the next step says it as well."""
    result = stw("ls", "pair", "--node", node)
    assert f"on-{found}" in result.out
    assert ("--node 1" in result.err) == (found == "1")


def test_files_without_a_machine_say_whose_they_are(pair: FakeServer, stw: Stw) -> None:
    """Since each machine has its own; of checkpoints that may not be so."""
    said = "these are of pc01; `--node 1` are those of pc02"
    assert said in stw("ls", "pair", "outputs:").err
    assert said not in stw("ls", "pair", "checkpoints:").err
    assert said not in stw("ls", "pair", "outputs:", "--node", "0").err


def test_output_of_a_machine_is_that_of_its_ranks(pair: FakeServer, stw: Stw) -> None:
    """Each line with its rank, as with all of them."""
    assert stw("logs", "pair", "--node", "pc02").lines == ["(rank 2) rank 2", "(rank 3) rank 3"]


def test_a_machine_that_is_not_there_is_not_found(pair: FakeServer, stw: Stw) -> None:
    """With those that are; a rank and a machine together are refused."""
    for command in (("logs", "pair"), ("ls", "pair"), ("cp", "pair:x", ".")):
        result = stw(*command, "--node", "2")
        assert result.code == 3
        assert "0 is pc01, 1 is pc02" in result.err
    assert stw("logs", "pair", "--node", "1", "--rank", "1").code == 2
