"""`stw cluster import`: what would be added, what is, and which hosts are left out and why."""

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import Stw
from tests.client.fake_server import FakeServer

CONFIG = """
Include more/*
Host k017-*
  User ada
Host k017-pc1 k017-pc2
  Port 2222
Host other
"""


def looks(codes: dict[str, str], *, added: bool) -> dict[str, Any]:
    hosts = [{"host": host, "code": code, "message": "no"} for host, code in codes.items()]
    return {"name": "k017", "added": added, "hosts": hosts}


def test_hosts_that_cannot_be_worked_with_are_left_out(server: FakeServer, stw: Stw) -> None:
    """The second try is without them; one that is merely off stays in."""
    server.on("GET", "/v1/clusters", {"items": [{"name": "other"}]})
    ssh = Path.home() / ".ssh"
    (ssh / "more").mkdir(parents=True)
    (ssh / "config").write_text(CONFIG)
    (ssh / "more" / "rooms").write_text("Host k017-pc3\n")
    shown = json.loads(
        stw("cluster", "import", "--ssh-config", "k017-*", "--dry-run", "-o", "json").out
    )
    hosts = ["k017-pc3", "k017-pc1", "k017-pc2"]
    assert [(one["name"], one["hosts"], one["state"]) for one in shown] == [
        ("k017", hosts, "would be added")
    ]
    assert not [asked for asked in server.asked if asked.method == "POST"]
    first = looks({hosts[0]: "ssh/timeout", hosts[1]: "", hosts[2]: "ssh/auth-failed"}, added=False)
    server.on("POST", "/v1/ssh-clusters", first)
    result = stw("cluster", "import", "--ssh-config", "k017-*", "-o", "json")
    assert result.code == 1
    assert "k017-pc2: [ssh/auth-failed] no" in result.err
    bodies = [json.loads(asked.body) for asked in server.asked if asked.method == "POST"]
    assert [body["hosts"] for body in bodies] == [hosts, hosts[:2]]
    assert json.loads(result.out)[0]["left_out"] == ["k017-pc2"]


def test_pools_are_added_with_their_keys(server: FakeServer, stw: Stw, tmp_path: Path) -> None:
    """One that is there already is left alone; a file that isn't there is said."""
    server.on("GET", "/v1/clusters", {"items": [{"name": "big"}]})
    server.on("POST", "/v1/ssh-clusters", looks({"ada@pc1": ""}, added=True))
    pools = tmp_path / "pools.yaml"
    pools.write_text(
        "k017: {user: ada, identity_file: ~/.ssh/k, hosts: [pc1]}\nbig: {hosts: [b]}\n"
    )
    result = stw("cluster", "import", str(pools), "-o", "json")
    assert result.code == 0
    assert [one["state"] for one in json.loads(result.out)] == ["added", "is there already"]
    (body,) = [json.loads(asked.body) for asked in server.asked if asked.method == "POST"]
    assert (body["hosts"], body["identity_files"]) == (["ada@pc1"], {"ada@pc1": "~/.ssh/k"})
    gone = stw("cluster", "import")
    assert (gone.code, "ssh_node_pools.yaml can't be read" in gone.err) == (2, True)
