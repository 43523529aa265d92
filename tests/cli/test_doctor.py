"""What `stw doctor` finds well, doubtful or broken."""

import os

import pytest

from stellwerk.cli import checks
from stellwerk.config import load
from tests.cli.conftest import Stw
from tests.client.fake_server import FakeServer


def test_doctor_looks_at_everything(
    server: FakeServer, stw: Stw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is well, what isn't, and what to do; 1 if anything fails."""
    monkeypatch.setattr(checks, "LEAST_DISK", 0)
    device = {"index": 0, "kind": "T4", "memory_bytes": 2**34, "foreign_bytes": 2**30}
    node = {"name": "n1", "cpus": 2, "cpus_free": 1, "devices": [device]}
    server.on(
        "GET",
        "/v1/clusters",
        {
            "items": [
                {"name": "lab", "state": "ready", "nodes": [node], "facts_age_ms": 200_000},
                {"name": "far", "state": "not ready", "nodes": [{"name": "f", "note": "no route"}]},
            ]
        },
    )
    os.chmod(load().socket, 0o600)
    result = stw("doctor")
    assert result.code == 0
    assert "ok    server 0.1.0, pid 4242, up 1 min 05 s, 17 records in the journal" in result.lines
    assert "warn  far is not ready: no route   -> stw clusters" in result.lines
    assert any("1 GiB of GPU 0 are held by processes outside" in line for line in result.lines)
    assert any("what is known of lab is 3 min 20 s old" in line for line in result.lines)
    os.chmod(load().socket, 0o666)
    result = stw("doctor")
    assert result.code == 1
    assert any(line.startswith("FAIL  ") and "open to everybody" in line for line in result.lines)


def test_doctor_knows_network_file_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks and durability aren't promised there."""
    monkeypatch.setattr(checks, "file_system_of", lambda _: "nfs4")
    assert checks.check_home(load()).state == "FAIL"


def test_doctor_warns_of_another_version() -> None:
    """A server that was started before an upgrade still runs."""
    assert [check.state for check in checks.check_versions("0.0.9")] == ["warn"]
    assert list(checks.check_versions("0.1.0")) == []
