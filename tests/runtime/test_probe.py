"""What a machine has: limits of control groups, GPUs through a stand-in library, hanging probes."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from stellwerk.runtime import cgroups, nvml, system
from stellwerk.runtime.probe import probe
from tests.processes import wait_until
from tests.runtime.rig import Rig

GIB = 1024**3


def test_gpus(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure of a device, in bytes; one that the driver refuses is named with its trouble."""
    monkeypatch.setenv("STELLWERK_NVML_LIBRARY", library)
    found = nvml.devices()
    assert (found["gpu_driver"], found["gpu_trouble"]) == ("615.10", None)
    plain, mig, lost = found["gpus"]
    assert plain == {
        "index": 0,
        "uuid": "GPU-0000",
        "name": "Test RTX",
        "memory_bytes": 24 * GIB,
        "memory_used_bytes": GIB,
        "memory_free_bytes": 24 * GIB - GIB - GIB // 2,
        "memory_reserved_bytes": GIB // 2,
        "utilisation_percent": 40,
        "compute_capability": "8.9",
        "mig": False,
        "display_active": True,
        "lost": False,
        "ecc_uncorrected": None,
        "rows_failed": None,
        "recovery_action": None,
        "pci": "00000000:3B:00.0",
        "nvlink": None,
        "processes": [
            {"pid": 4000000, "memory_bytes": GIB // 4, "computes": True, "run": None},
            {"pid": 4100000, "memory_bytes": None, "computes": False, "run": None},
        ],
        "trouble": None,
    }
    assert mig["mig"]
    assert len(mig["processes"]) == 100
    assert lost == {"index": 2, "trouble": "the driver refuses this device (error 999)"}


def test_gpus_of_an_older_driver(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the newer call isn't supported the older one gives what it has."""
    monkeypatch.setenv("STELLWERK_NVML_LIBRARY", library)
    monkeypatch.setenv("STAND_IN_OLD", "1")
    first = nvml.devices()["gpus"][0]
    assert first["memory_free_bytes"] == 23 * GIB
    assert first["memory_reserved_bytes"] is None


def test_process_on_a_gpu_is_known_as_a_run(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What uses a device is told to be a run's by the marker in its environment."""
    job = subprocess.Popen(["sleep", "60"], env={"STELLWERK_RUN_ID": "my-run", "PATH": "/bin"})
    try:
        monkeypatch.setenv("STELLWERK_NVML_LIBRARY", library)
        monkeypatch.setenv("STAND_IN_PID", str(job.pid))
        # What uses a device has long begun; one that just begins has no environment yet.
        environ = Path(f"/proc/{job.pid}/environ")
        wait_until(lambda: b"my-run" in environ.read_bytes(), "its environment")
        assert nvml.devices()["gpus"][0]["processes"][0]["run"] == "my-run"
    finally:
        job.kill()
        job.wait()


def test_no_driver_and_a_dead_driver_are_told_apart(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without GPUs there is a sentence why."""
    monkeypatch.setenv("STELLWERK_NVML_LIBRARY", "libnot-there.so.1")
    assert "no NVIDIA driver here" in nvml.devices()["gpu_trouble"]
    monkeypatch.setenv("STELLWERK_NVML_LIBRARY", library)
    monkeypatch.setenv("STAND_IN_FAIL", "1")
    assert nvml.devices()["gpu_trouble"].endswith("Driver Not Loaded")


def test_facts_of_this_machine(tmp_path: Path) -> None:
    """The facts agree with what Python knows itself."""
    facts = probe(str(tmp_path))
    assert 0 < facts["cpus"] <= len(os.sched_getaffinity(0))
    assert 0 < facts["memory_available_bytes"] <= facts["memory_bytes"]
    assert facts["memory_bytes"] <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert facts["disk_bytes"] == shutil.disk_usage(tmp_path).total
    assert facts["hostname"] == os.uname().nodename
    assert json.loads(json.dumps(facts)) == facts


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up tree of control groups, and /proc/self/cgroup beside it."""
    monkeypatch.setattr(cgroups, "BASE", str(tmp_path / "fs"))
    monkeypatch.setattr(cgroups, "OWN", str(tmp_path / "cgroup"))
    return tmp_path


def put(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


def test_limits_of_version_2(groups: Path) -> None:
    """The tightest limit on the way up counts; cache that can be given back is free."""
    (groups / "cgroup").write_text("0::/user/job\n")
    put(groups / "fs" / "user", cpu__max="150000 100000", memory__max="max")
    put(
        groups / "fs" / "user" / "job",
        cpu__max="max 100000",
        memory__max="1000",
        memory__current="700",
        memory__stat="anon 300\ninactive_file 400",
    )
    assert cgroups.cpu_quota() == 1.5
    assert cgroups.memory_limit_bytes() == 1000
    assert cgroups.memory_free_bytes() == 700


def test_limits_of_version_1(groups: Path) -> None:
    """The older hierarchy has a folder per controller, and a huge number for no limit."""
    (groups / "cgroup").write_text("4:memory:/job\n2:cpu,cpuacct:/job\n")
    put(
        groups / "fs" / "cpu,cpuacct" / "job",
        cpu__cfs_quota_us="50000",
        cpu__cfs_period_us="100000",
    )
    put(groups / "fs" / "memory", memory__limit_in_bytes=str(2**63 - 4096))
    put(
        groups / "fs" / "memory" / "job",
        memory__limit_in_bytes="5000",
        memory__usage_in_bytes="4000",
        memory__stat="total_inactive_file 0",
    )
    assert cgroups.cpu_quota() == 0.5
    assert cgroups.memory_limit_bytes() == 5000
    assert cgroups.memory_free_bytes() == 1000


def test_container_without_its_own_path(groups: Path) -> None:
    """In a container the path of the host isn't there: the mounted root is the group."""
    (groups / "cgroup").write_text("0::/docker/abc\n")
    put(groups / "fs", memory__max="2000", memory__current="100", memory__stat="")
    assert cgroups.memory_limit_bytes() == 2000
    assert cgroups.cpu_quota() is None


def test_no_groups_at_all(groups: Path) -> None:
    """Without control groups there are no limits."""
    assert cgroups.cpu_quota() is None
    assert cgroups.memory_free_bytes() is None


def test_type_of_a_file_system() -> None:
    """Network file systems are known, and /proc is proc."""
    assert system.file_system_type("/proc/self") == "proc"
    assert system.is_network_file_system("nfs4")
    assert not system.is_network_file_system("ext4")


def test_probe_survives_a_broken_driver(own_rig: Rig, library: str, tmp_path: Path) -> None:
    """One that hangs or crashes takes its own process with it: the rest of the machine is known,
    the GPUs that were there are told as gone, and jobs go on.
    """
    health = tmp_path / "health"
    health.write_text("")
    stand_in = {"STELLWERK_NVML_LIBRARY": library, "STAND_IN_HEALTH": str(health)}
    stand_in["STAND_IN_GPUS"] = "NVIDIA L4,24,2"
    own_rig.start_agent(env={**stand_in, "STELLWERK_PROBE_LIMIT_MS": "1000"})
    assert [gpu["trouble"] for gpu in _probed(own_rig)["gpus"]] == [None, None]
    health.write_text("0 hang 1\n")
    # The process that has answered once has its library open: the start is asked each time.
    found = _probed(own_rig)
    assert "hangs: it gave no answer within 1 s" in found["gpu_trouble"]
    assert [gpu["gone"] for gpu in found["gpus"]] == [True, True]
    assert found["memory_bytes"] > 0
    assert own_rig.finish("after", "true")["code"] == 0


def test_a_library_that_crashes_is_named(own_rig: Rig, library: str, tmp_path: Path) -> None:
    """And nothing is asked of it again for a while."""
    health = tmp_path / "health"
    health.write_text("0 crash 1\n")
    own_rig.start_agent(env={"STELLWERK_NVML_LIBRARY": library, "STAND_IN_HEALTH": str(health)})
    for _ in range(2):
        found = _probed(own_rig)
        assert "its library crashed" in found["gpu_trouble"]
        assert (found["gpus"], found["gpu_driver_broken"]) == ([], True)


def _probed(rig: Rig) -> dict[str, Any]:
    rig.client.send_raw(b'{"id": "p", "op": "probe"}')
    facts: dict[str, Any] = rig.client.receive()["facts"]
    return facts


def test_own_command(rig: Rig) -> None:
    """`probe` prints the facts once, without an agent."""
    command = [rig.python, "-I", "-S", rig.program, "probe", "--root", rig.folder]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(shown.stdout)["boot_id"] == system.boot_id()
