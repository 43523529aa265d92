"""The agent as a process: killed and replaced, fenced, watched, and alone on its root."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.rig import (
    ENDS,
    INTERPRETERS,
    KILL,
    PYTHON,
    Client,
    Refusal,
    Rig,
    a_rig,
    is_alive,
    processes_of,
    result_of,
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


@pytest.mark.parametrize("with_agent", [True, False])
def test_killed_wrapper(own_rig: Rig, *, with_agent: bool) -> None:
    """Its shell dies with it, the agent of now or later ends the rest and says what happened."""
    rig = own_rig
    rig.start_agent()
    rig.start("w", f'setsid sleep 60 & {PYTHON} -c "import time;print(1);time.sleep(60)"')
    rig.wait_for_line("w", "1")
    if not with_agent:
        rig.kill_agent()
    os.kill(rig.wrapper("w"), KILL)
    if not with_agent:
        rig.wait("death", lambda: not is_alive(rig.wrapper("w")))
        rig.start_agent()
    end = rig.ended("w")
    assert (end["how"], end["put_back"]) == ("wrapper_died", True)
    assert processes_of("w") == []


def test_killed_wrapper_of_a_job_that_hides(own_rig: Rig) -> None:
    """Processes without a marker, a session or a log of the run end too, before it is over."""
    rig = own_rig
    rig.start_agent()
    hidden = f"env -i setsid {PYTHON} -c 'import time;print(7);time.sleep(60)'"
    out = Path(rig.folder, "out")
    out.touch()
    rig.start("hide", f"{hidden} > {out} 2>&1 & echo $!; sleep 60")
    rig.wait("the hidden process", lambda: out.read_text() and rig.log("hide"))
    pid = int(rig.log("hide"))
    assert is_alive(pid)
    os.kill(rig.wrapper("hide"), KILL)
    assert rig.ended("hide")["how"] == "wrapper_died"
    assert not is_alive(pid)


def test_stopped_wrapper_obeys(own_rig: Rig) -> None:
    """A job that stops its wrapper with SIGSTOP gets out of no order."""
    rig = own_rig
    rig.start_agent()
    rig.start("sly", "kill -STOP $PPID; echo sly; sleep 60")
    rig.wait_for_line("sly", "sly")
    rig.client.ask("stop", run="sly", why="cancel", grace_ms=100)
    assert rig.ended("sly")["how"] == "cancelled"


def test_job_that_deletes_the_run_directory_and_goes_on(own_rig: Rig) -> None:
    """It is still watched and takes orders; when its agent dies, the next one ends it."""
    rig = own_rig
    rig.start_agent()
    runs = ("gone", "lost")
    for run in runs:
        rig.start(run, f"rm -r {rig.path(run)}; sleep 60")
    rig.wait("both removals", lambda: not any(os.path.exists(rig.path(run)) for run in runs))
    assert len(processes_of("gone")) >= 1
    rig.client.ask("stop", run="gone", why="cancel", grace_ms=100)
    assert rig.ended("gone")["how"] == "cancelled"
    rig.kill_agent()
    assert len(processes_of("lost")) >= 1
    rig.start_agent()
    assert "lost" not in [run["run"] for run in rig.client.ask("list")["runs"]]
    rig.wait("its end", lambda: not processes_of("lost"))


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="needs prlimit")
def test_agent_without_a_free_descriptor() -> None:
    """It refuses what it can't do, loses no run and no descriptor over it, and goes on."""
    with a_rig(prefix=("prlimit", "--nofile=20:20")) as rig:
        rig.start_agent()
        started, refused = [], []
        for number in range(20):
            try:
                rig.start(f"r{number}", "sleep 2; exit 4")
                started.append(f"r{number}")
            except Refusal as refusal:
                refused.append(str(refusal))
        assert len(refused) >= 5
        assert all("Too many open files" in told for told in refused)
        with pytest.raises(Refusal, match="Too many open files"):
            rig.client.ask("probe")
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


def test_fencing(own_rig: Rig) -> None:
    """Older leaders and older generations are refused, also by the next agent."""
    rig = own_rig
    rig.start_agent()
    rig.start("f", "sleep 60", generation=3, epoch=5)
    for change in ({"generation": 2, "epoch": 5}, {"generation": 3, "epoch": 4}):
        with pytest.raises(Refusal, match="has been here") as refusal:
            rig.start("f", "sleep 60", **change)
        assert refusal.value.code == "fenced"
    for fields in ({"generation": 2, "epoch": 5}, {"generation": 3, "epoch": 4}):
        with pytest.raises(Refusal) as refusal:
            rig.client.ask("stop", run="f", why="cancel", **fields)
        assert refusal.value.code == "fenced"
    with pytest.raises(Refusal) as refusal:
        rig.start("f", "sleep 60", generation=4, epoch=5)
    assert refusal.value.code == "busy"
    rig.kill_agent()
    rig.start_agent()
    with pytest.raises(Refusal, match="epoch 5") as refusal:
        rig.start("g", "true", epoch=4)
    assert refusal.value.error["epoch"] == 5


def test_forgotten_run_does_not_start_again(own_rig: Rig) -> None:
    """A late start of a removed run is refused; a newer generation may start."""
    rig = own_rig
    rig.start_agent()
    rig.finish("gone", "true")
    with pytest.raises(Refusal) as refusal:
        rig.start("live", "sleep 60") and rig.client.ask("forget", run="live")
    assert refusal.value.code == "not_ended"
    assert rig.client.ask("forget", run="gone")["removed"]
    assert not rig.client.ask("forget", run="gone")["removed"]
    rig.wait("removal", lambda: not os.listdir(os.path.join(rig.root, "trash")))
    rig.kill_agent()
    rig.start_agent()
    with pytest.raises(Refusal) as refusal:
        rig.start("gone", "true")
    assert refusal.value.code == "forgotten"
    assert not rig.start("gone", "true", generation=2)["existing"]


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


@pytest.mark.parametrize(
    ("name", "mode", "message"),
    [("x" * 120, 0o700, "longer than the 107 bytes"), ("agent", 0o777, "others than its user")],
)
def test_unusable_socket(own_rig: Rig, name: str, mode: int, message: str) -> None:
    """A path Linux can't take and a directory others may write to are refused in words."""
    folder = os.path.join(own_rig.folder, "open")
    os.mkdir(folder)
    os.chmod(folder, mode)
    command = own_rig.command("serve", "--root", own_rig.root)
    result = result_of([*command, "--socket", os.path.join(folder, name)])
    assert result.returncode == 69
    assert message in result.stderr


def test_socket_and_root_are_private(rig: Rig) -> None:
    """Only their user can look into the root or reach the socket."""
    rig.finish("private", "true")
    assert os.stat(rig.socket).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(rig.socket)).st_mode & 0o777 == 0o700
    assert os.stat(rig.root).st_mode & 0o777 == 0o700
    assert os.stat(rig.path("private", "spec.json")).st_mode & 0o777 == 0o600


def test_nonsense_is_answered(rig: Rig) -> None:
    """What isn't a request gets an error, and the connection goes on."""
    client = Client(rig.socket)
    for line, code in ((b"{", "not_json"), (b"[1]", "not_json"), (b'{"op": 7}', "unknown_op")):
        client.send_raw(line)
        assert client.receive()["error"]["code"] == code
    with pytest.raises(Refusal) as refusal:
        client.ask("stop", run="../etc", why="cancel")
    assert refusal.value.code == "unknown_run"
    with pytest.raises(Refusal):
        client.ask("start", spec={"v": 1, "run": "../x"})
    assert client.ask("hello")["ok"]
    client.close()


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
    rig.start("busy", "sleep 0.6")
    rig.client.close()
    assert rig.agent is not None
    time.sleep(0.4)
    assert rig.agent.poll() is None
    rig.wait("the end of the agent", lambda: rig.agent is not None and rig.agent.poll() == 0)


odd = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(), inner)),
    max_leaves=4,
)


@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["start", "stop", "withdraw", "kill", "forget", "read", "no-op"]),
    st.dictionaries(
        st.sampled_from(
            [
                "spec",
                "secrets",
                "run",
                "generation",
                "epoch",
                "why",
                "grace_ms",
                "signals",
                "offset",
            ]
        ),
        odd,
    ),
)
def test_odd_requests_are_answered(rig: Rig, op: str, fields: dict[str, object]) -> None:
    """Whatever a request says, it gets an answer, and never a fault of the runtime."""
    try:
        code = "" if rig.client.ask(op, **fields)["ok"] else "fault"
    except Refusal as refusal:
        code = refusal.code
    assert code != "fault"


def test_deep_nesting_is_refused(rig: Rig) -> None:
    """What no parser can follow is no crash, and the agent goes on for others."""
    client = Client(rig.socket)
    client.send_raw(b"[" * 100_000)
    assert client.receive()["error"]["code"] == "not_json"
    client.close()
    assert rig.client.ask("hello")["ok"]


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
