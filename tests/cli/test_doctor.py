"""What `stw doctor` finds well, doubtful or broken."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from stellwerk.cli import checks
from stellwerk.client.fleet import ClusterView, DeviceView, NodeView
from stellwerk.config import load
from tests.cli.conftest import Stw
from tests.client.fake_server import FakeServer

NOON = 1_796_040_000_000
"""2026-11-30, 12:00 UTC."""


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
    counted = {
        "task": {"ends": 30, "within_p50": 14, "within_p90": 20},
        "anybody": {"ends": 10, "within_p50": 6, "within_p90": 9},
    }
    server.on("GET", "/v1/forecast", {"items": [], "seq": 1, "calibration": counted})
    os.chmod(load().socket, 0o600)
    result = stw("doctor")
    assert result.code == 0
    assert any(
        line.startswith("warn  of 40 predicted ends 50 % came within the median and 72 % within")
        for line in result.lines
    )
    assert "ok    server 0.1.0, pid 4242, up 1 min 05 s, 17 records in the journal" in result.lines
    assert "warn  far is not ready: no route   -> stw clusters" in result.lines
    assert any("1 GiB of GPU 0 are held outside of this Stellwerk" in line for line in result.lines)
    assert any("what is known of lab is 3 min 20 s old" in line for line in result.lines)
    os.chmod(load().socket, 0o666)
    result = stw("doctor")
    assert result.code == 1
    assert any(line.startswith("FAIL  ") and "open to everybody" in line for line in result.lines)


def test_doctor_knows_network_file_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks and durability aren't promised there."""
    monkeypatch.setattr(checks, "file_system_of", lambda _: "nfs4")
    assert checks.check_home(load()).state == "FAIL"


def test_doctor_tells_of_failures_that_nobody_saw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next command starts a new server, so a person may not notice; old ones don't count."""
    monkeypatch.setenv("STELLWERK_HOME", str(tmp_path))
    settings = load()
    assert list(checks.check_crashes(settings, 0)) == []
    Path(settings.server_log).write_text(
        "2026-11-28T10:00:00.000Z CRITICAL stellwerk.server the engine has stopped working\n"
        "2026-11-30T09:00:00.000Z CRITICAL stellwerk.server the engine has stopped working\n"
        "2026-11-30T10:00:00.000Z CRITICAL stellwerk.server the engine has stopped working\n"
        "2026-11-30T11:00:00.000Z INFO stellwerk.server server 0.1.0 answers\n"
    )
    [check] = checks.check_crashes(settings, NOON)
    assert check.state == "warn"
    assert check.what.endswith("failed 2 times in the last day, last at 2026-11-30T10:00:00.000Z")
    assert list(checks.check_crashes(settings, NOON + 2 * checks.DAY_MS)) == []


def test_doctor_warns_of_another_version() -> None:
    """A server that was started before an upgrade still runs."""
    assert [check.state for check in checks.check_versions("0.0.9")] == ["warn"]
    assert list(checks.check_versions("0.1.0")) == []


def test_doctor_tells_what_is_wrong_with_a_machine_that_is_used() -> None:
    """A clock, a disk, a sick card: each on its own line with what to do, and no line twice."""
    fault = "2 uncorrectable memory errors (ECC): `nvidia-smi --gpu-reset -i 0`"
    node = NodeView(
        "pc1",
        note=f"its clock is 3 h ahead; what it tells is put right; GPU 0 gets nothing new: {fault}",
        disk_bytes=2**27,
        devices=[DeviceView(0, health="sick", fault=fault), DeviceView(1, health="ok")],
    )
    found = list(checks.check_cluster(ClusterView("lab", state="ready", nodes=[node])))
    assert [(one.state, one.what) for one in found[1:]] == [
        ("warn", "lab/pc1: its clock is 3 h ahead; what it tells is put right"),
        ("warn", "lab/pc1: only 128 MiB are left where runs write"),
        ("FAIL", "lab/pc1: GPU 0: 2 uncorrectable memory errors (ECC)"),
    ]
    assert found[-1].remedy == "`nvidia-smi --gpu-reset -i 0`"
    assert all(one.remedy for one in found[1:])


def test_clusters_of_fleet_files_alone_are_no_fault() -> None:
    """They are named together, once."""
    one = ClusterView("far", state="declared")
    assert list(checks.check_cluster(one)) == []
    assert list(checks.check_declared([ClusterView("lab", state="ready")])) == []
    [told] = checks.check_declared([one] * 5)
    assert (told.state, told.what) == (
        "ok",
        "far, far, far and 2 more only declared: no driver here reaches them",
    )


def test_doctor_names_each_machine_that_cannot_be_used_with_what_helps() -> None:
    """Also where others of its room are there; what is only noted has its own remedy."""
    down = NodeView(
        "pc2",
        state="unreachable",
        note="pc2 shows another key: SHA256:x -> if it was set up anew, remove it; "
        "if not, beware [ssh/host-key-changed]",
    )
    tmp = "/tmp is mounted noexec: what jobs build there can't be started"
    hung = "GPUs can't be seen: the NVIDIA driver hangs: it gave no answer within 10 s"
    room = [NodeView("pc1", note=f"{tmp}; {hung}"), down, replace(down, name="pc3", note="silent")]
    found = list(checks.check_cluster(ClusterView("lab", state="ready", nodes=room)))
    assert [(one.what, one.remedy) for one in found[1:]] == [
        (f"lab/pc1: {tmp}; {hung}", f"{checks.REMEDIES[2][1]}; restart the machine"),
        (
            "lab/pc2 is unreachable: pc2 shows another key: SHA256:x [ssh/host-key-changed]",
            "if it was set up anew, remove it; if not, beware",
        ),
        ("lab/pc3 is unreachable: silent", "stw clusters"),
    ]
