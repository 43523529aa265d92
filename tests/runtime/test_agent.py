"""The agent as a process: killed and replaced, watched, and alone on its root."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.rig import (
    ENDS,
    INTERPRETERS,
    Client,
    Refusal,
    Rig,
    a_rig,
    processes_of,
    result_of,
    until_there,
)


@pytest.mark.parametrize("version", ENDS)
def test_old_and_new_python_run_a_job(version: str) -> None:
    """The bundled file works with the oldest and the newest Python, from start to quit."""
    with a_rig(python=INTERPRETERS[version]) as rig:
        rig.start_agent()
        hello = rig.client.ask("hello")
        assert hello["python"].startswith(f"{version}.")
        assert hello["protocol"] == [1]
        assert rig.finish("one", "echo $((40 + 2))")["code"] == 0
        assert rig.log("one") == "42\n"
        assert rig.client.ask("probe")["facts"]["cpus"] > 0
        assert rig.client.ask("forget", run="one")["removed"]
        rig.client.ask("quit")
        assert rig.agent is not None
        assert rig.agent.wait() == 0
        assert not os.path.exists(rig.socket)


def test_agent_killed_again_and_again(own_rig: Rig) -> None:
    """Jobs go on, nothing is lost, nothing runs twice, and ends without an agent are found."""
    rig = own_rig
    rig.start_agent()
    count = os.path.join(rig.folder, "count")
    for number in range(4):
        rig.start(
            f"r{number}", f"echo $STELLWERK_RUN_ID >> {count}; sleep 0.{number}5; exit {number}"
        )
        rig.kill_agent()
        rig.start_agent()
        again = rig.start(f"r{number}", "echo never")
        assert again["existing"]
    ends = [rig.ended(f"r{number}") for number in range(4)]
    assert [end["code"] for end in ends] == list(range(4))
    assert sorted(Path(count).read_text().split()) == [f"r{number}" for number in range(4)]


def test_limits_hold_without_an_agent(own_rig: Rig) -> None:
    """The wrapper ends a run at its time limit although no agent is there."""
    rig = own_rig
    rig.start_agent()
    rig.start("alone", "echo ready; sleep 60", time_limit_ms=700)
    rig.wait_for_line("alone", "ready")
    rig.kill_agent()
    rig.wait("the end", lambda: os.path.exists(rig.path("alone", "ended.json")))
    assert json.loads(Path(rig.path("alone", "ended.json")).read_text())["how"] == "time_limit"
    assert processes_of("alone") == []
    rig.start_agent()
    assert rig.report("alone")["ended"]["how"] == "time_limit"


def test_stop_reaches_an_adopted_run(own_rig: Rig) -> None:
    """A new agent gives notice to a run that the old one started."""
    rig = own_rig
    rig.start_agent()
    rig.start("adopted", "trap 'exit 85' TERM; echo ready; while :; do sleep 0.05; done")
    rig.wait_for_line("adopted", "ready")
    rig.kill_agent()
    rig.start_agent()
    assert rig.report("adopted")["state"] == "running"
    rig.client.ask("stop", run="adopted", generation=1, epoch=1, why="preempt")
    assert rig.ended("adopted")["checkpointed"]


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="needs prlimit")
def test_agent_without_a_free_descriptor() -> None:
    """It refuses what it can't do, loses no run and no descriptor over it, and goes on."""
    with a_rig(prefix=("prlimit", "--nofile=20:20")) as rig:
        rig.start_agent()
        started, refused = [], []
        go = Path(rig.folder, "go")
        for number in range(20):
            try:
                rig.start(f"r{number}", f"{until_there(go)}; exit 4")
                started.append(f"r{number}")
            except Refusal as refusal:
                refused.append(str(refusal))
        assert len(refused) >= 5
        assert all("Too many open files" in told for told in refused)
        with pytest.raises(Refusal, match="Too many open files"):
            rig.client.ask("probe")
        go.touch()
        assert [rig.ended(run)["code"] for run in started] == [4] * len(started)
        assert rig.client.ask("probe")["facts"]
        assert rig.finish("later", "exit 5")["code"] == 5


def test_reboot_ends_a_run(own_rig: Rig) -> None:
    """A run of another boot without an end was cut off by the reboot."""
    rig = own_rig
    rig.start_agent()
    rig.finish("boot", "echo line")
    rig.kill_agent()
    os.unlink(rig.path("boot", "ended.json"))
    started = Path(rig.path("boot", "started.json"))
    started.write_text(json.dumps({**json.loads(started.read_text()), "boot_id": "another"}))
    rig.start_agent()
    end = rig.report("boot")["ended"]
    assert (end["how"], end["put_back"], end["last_lines"]) == ("reboot", True, ["line"])


def test_claim_without_a_wrapper_is_void(own_rig: Rig) -> None:
    """An agent that died between claim and fork has started nothing: the start can be repeated."""
    rig = own_rig
    os.makedirs(rig.path("void"))
    Path(rig.path("void", "spec.json")).write_text("{")
    rig.start_agent()
    assert rig.client.ask("list")["runs"] == []
    assert not rig.start("void", "echo once")["existing"]
    assert rig.ended("void")["code"] == 0


def test_double_start_runs_once(own_rig: Rig) -> None:
    """The same key again gives the present state; also after the end."""
    rig = own_rig
    rig.start_agent()
    assert not rig.start("twice", "echo x; sleep 0.2")["existing"]
    assert rig.start("twice", "echo x; sleep 0.2")["existing"]
    rig.ended("twice")
    assert rig.start("twice", "echo x")["state"] == "ended"
    assert rig.log("twice") == "x\n"


def test_watch_pushes_changes_and_samples(own_rig: Rig) -> None:
    """A watching client hears of each phase, of a sample, and of the end."""
    rig = own_rig
    rig.start_agent()
    watcher = Client(rig.socket)
    assert watcher.ask("watch")["runs"] == []
    rig.start("w", "echo x; sleep 0.5", setup="true")
    states: list[str] = []
    samples: list[dict[str, Any]] = []
    while not states or states[-1] != "ended":
        event = watcher.receive()
        if event["event"] == "run":
            states.append(event["run"]["state"])
        else:
            samples.append(event["sample"])
    assert [s for i, s in enumerate(states) if i == 0 or s != states[i - 1]] == [
        "setting_up",
        "running",
        "ended",
    ]
    assert len(samples) == 1
    assert samples[0]["memory_bytes"] > 0
    assert samples[0]["processes"] >= 1
    assert samples[0]["peak_memory_bytes"] >= samples[0]["memory_bytes"]
    assert samples[0]["gpus"] == []
    watcher.close()


def test_second_agent_is_told_apart(own_rig: Rig) -> None:
    """A second agent on the same root ends at once with its own status and a sentence."""
    rig = own_rig
    rig.start_agent()
    other = os.path.join(rig.folder, "s", "other")
    result = result_of(rig.command("serve", "--root", rig.root, "--socket", other))
    assert result.returncode == 75
    assert "another agent serves" in result.stderr
    assert rig.client.ask("hello")["ok"]


def test_quit_leaves_live_runs_alone(own_rig: Rig) -> None:
    """An agent with live runs goes only by force, and they go on."""
    rig = own_rig
    rig.start_agent()
    rig.start("on", "echo ready; sleep 0.4; exit 9")
    with pytest.raises(Refusal) as refusal:
        rig.client.ask("quit")
    assert refusal.value.code == "busy"
    assert rig.client.ask("quit", force=True)["live"] == 1
    assert rig.agent is not None
    rig.agent.wait()
    rig.start_agent()
    assert rig.ended("on")["code"] == 9


def test_idle_agent_leaves(own_rig: Rig) -> None:
    """Without clients and live runs an agent ends after the time it was given."""
    rig = own_rig
    rig.start_agent("--idle-exit-s", "0.3")
    go = Path(rig.folder, "go")
    rig.start("busy", until_there(go))
    rig.client.close()
    assert rig.agent is not None
    time.sleep(0.5)
    assert rig.agent.poll() is None
    go.touch()
    rig.wait("the end of the agent", lambda: rig.agent is not None and rig.agent.poll() == 0)


def test_spoilt_files_do_not_stop_an_agent(own_rig: Rig) -> None:
    """A job may write into its own files; the next agent starts all the same."""
    rig = own_rig
    rig.start_agent()
    for number, text in enumerate(["[]", "{", '{"phase": 7, "sessions": "x"}', '{"run": {}}']):
        rig.finish(f"spoilt{number}", "true")
        for name in ("spec.json", "status.json", "started.json"):
            Path(rig.path(f"spoilt{number}", name)).write_text(text)
        if number % 2:
            Path(rig.path(f"spoilt{number}", "ended.json")).unlink()
    Path(rig.root, "runs", "stray").write_text("a file")
    rig.kill_agent()
    rig.start_agent()
    states = {run["run"]: run["state"] for run in rig.client.ask("list")["runs"]}
    assert states["spoilt0"] == states["spoilt2"] == "ended"
    rig.wait("all ends", lambda: all(r["ended"] for r in rig.client.ask("list")["runs"]))
