"""Each verb asks the right thing and ends with the right code."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stellwerk.config import load
from tests.cli.conftest import Stw
from tests.client.fake_server import (
    STATUS,
    Asked,
    FakeServer,
    Says,
    reason,
    refuses,
    row,
    run,
    show,
)

CHANGED = {"id": "w-1", "name": "digits", "phase": "Running"}


def test_show_gives_the_fields_that_programs_rely_on(server: FakeServer, stw: Stw) -> None:
    """`phase`, `runs`, `reasons`."""
    server.on("GET", "/v1/workloads/digits", show("digits", "Succeeded", runs=[run(1, "Ended")]))
    shown = json.loads(stw("show", "digits", "-o", "json").out)
    assert shown["phase"] == "Succeeded"
    assert [one["number"] for one in shown["runs"]] == [1]
    assert shown["reasons"] == []


def test_explain_asks_for_a_run(server: FakeServer, stw: Stw) -> None:
    """Each run has a decision of its own."""
    answer = {"name": "digits", "phase": "Failed", "reasons": [reason("x", "ended", "the newest")]}
    server.on("GET", "/v1/workloads/digits/explain", answer)
    runs = [{**run(1, "Ended"), "reason": reason("y", "ended", "the first")}, run(2, "Ended")]
    server.on("GET", "/v1/workloads/digits", show("digits", "Failed", runs=runs))
    result = stw("explain", "digits", "--run", "2")
    assert result.lines == ["digits never ran (no decision recorded)", "  the newest  [x]"]
    assert server.asked[0].query == {"run": "2"}
    assert stw("explain", "digits", "--run", "1").lines[1:] == ["  the first  [y]"]
    result = stw("explain", "digits", "--run", "7")
    assert (result.code, result.out) == (3, "")
    assert "digits has no run 7  help: it has runs 1 to 2" in result.err


def test_logs_are_printed_and_nothing_else(server: FakeServer, stw: Stw) -> None:
    """Options choose run, rank and stream."""
    server.on("GET", "/v1/workloads/digits", show("digits", shape={"num_nodes": 2}))
    server.on("GET", "/v1/workloads/digits/logs", Says([b"one\n", b"two"]))
    result = stw("logs", "digits", "--run", "3", "--rank", "1", "--setup")
    assert (result.code, result.out, result.err) == (0, "one\ntwo", "")
    query = server.asked[-1].query
    assert (query["run"], query["rank"], query["stream"]) == ("3", "1", "setup")


def test_no_output_is_explained(server: FakeServer, stw: Stw) -> None:
    """Of what waits, of what is silent, and of a rank that isn't there."""
    server.on("GET", "/v1/workloads/(big|digits)/logs", Says([]))
    server.on("GET", "/v1/workloads/big", show("big", "Pending", runs=[]))
    server.on("GET", "/v1/workloads/digits", show("digits", "Running", runs=[run(1)]))
    assert stw("logs", "big").err == "big hasn't run yet   next: stw explain big\n"
    assert stw("logs", "digits").err == "digits is Running; it printed nothing so far\n"
    assert "setup printed nothing" in stw("logs", "digits", "--setup").err
    result = stw("logs", "digits", "--rank", "1")
    assert (result.code, result.out) == (3, "")
    assert "digits has no rank 1  help: its ranks are 0 alone" in result.err


def _from_offset(whole: bytes) -> Callable[[Asked], Says]:
    return lambda asked: Says([whole[int(asked.query["offset"]) :]])


@pytest.mark.parametrize(
    ("whole", "last"),
    [
        (b"a\nb\nc\n", "b\nc\n"),
        (b"a\nb\nc", "b\nc"),
        (b"c\n", "c\n"),
        (b"", ""),
        (b"\n\n\n", "\n\n"),
    ],
)
def test_the_last_lines_alone(server: FakeServer, stw: Stw, whole: bytes, last: str) -> None:
    """With an end of line or without one; also while following."""
    page = {**show("digits", "Succeeded", exit_code=0, runs=[run(1, "Ended")]), "id": "w-1"}
    server.on("GET", "/v1/workloads/(digits|w-1)", page)
    server.on("GET", "/v1/workloads/(digits|w-1)/logs", _from_offset(whole))
    server.on("GET", "/v1/events", Says([]))
    assert stw("logs", "digits", "-n", "2").out == last
    assert stw("logs", "digits", "-n", "2", "-f").out == last


def test_the_last_lines_of_several_ranks(server: FakeServer, stw: Stw) -> None:
    """As they are printed; they can't be followed together."""
    server.on("GET", "/v1/workloads/digits", show("digits", shape={"num_nodes": 2}))
    server.on("GET", "/v1/workloads/digits/logs", Says([b"one\ntwo\n"]))
    assert stw("logs", "digits", "-n", "1").lines == ["(rank 1) two"]
    assert stw("logs", "digits", "-n", "1", "-f").code == 2


def test_following_ends_with_the_jobs_code(server: FakeServer, stw: Stw) -> None:
    """As `run` does."""
    page = {**show("digits", "Failed", exit_code=7), "id": "w-1"}
    server.on("GET", "/v1/workloads/(digits|w-1)", page)
    server.on("GET", "/v1/workloads/w-1/logs", Says([b"x\n"]))
    server.on("GET", "/v1/events", Says([]))
    result = stw("logs", "-f", "digits")
    assert (result.code, result.out) == (7, "x\n")


def test_a_workload_that_is_not_there(server: FakeServer, stw: Stw) -> None:
    """3, but 125 while following, where 3 could be a job's."""
    server.on("GET", "/v1/workloads/nope(/logs)?", refuses("find/workload", "none", 404, 3))
    assert stw("logs", "nope").code == 3
    assert stw("logs", "-f", "nope").code == 125
    assert stw("show", "nope").code == 3


def test_waiting_tells_that_it_still_waits(server: FakeServer, stw: Stw) -> None:
    """8 after the time, else the code of the job."""
    server.on("GET", "/v1/workloads/digits/wait", row("digits", "Running"))
    result = stw("wait", "digits", "--timeout", "0")
    assert result.code == 8
    assert "still waiting: digits is Running" in result.err
    server.on("GET", "/v1/workloads/digits/wait", row("digits", "Failed", exit_code=4))
    assert stw("wait", "digits").code == 4


def test_the_queue_is_in_order(server: FakeServer, stw: Stw) -> None:
    """Priority first, then who came first; what runs isn't in it, what is held has no place."""
    rows = [
        row("late", "Pending", submitted_ms=9, labels={"team": "x"}),
        row("early", "Held", submitted_ms=5),
        row("first", "Pending", submitted_ms=9, priority=3),
        row("other", "Pending", queue="q2", priority=9),
    ]

    def listed(asked: Asked) -> dict[str, Any]:
        waiting = [one for one in rows if asked.query.get("queue") in {None, one["queue"]}]
        found = waiting if asked.query["phase"] == "Pending" else [row("runs", "Running")]
        return {"items": found, "seq": 1, "next": None, "total": len(found)}

    server.on("GET", "/v1/workloads", listed)
    result = stw("queue", "default", "--columns", "place,name")
    assert result.lines[1:] == ["1\tfirst", "-\tearly", "2\tlate"]
    assert result.err == "1 workload running.   next: stw explain first\n"
    names = [one["name"] for one in json.loads(stw("queue", "-o", "json").out)]
    assert names == ["other", "first", "early", "late"]
    mine = stw("queue", "default", "-l", "team=x", "--columns", "place,name")
    assert mine.lines[1:] == ["2\tlate"]
    assert stw("queue", "-l", "team=y").err.startswith("nothing waits with team=y\n1 workload")


@pytest.mark.parametrize("verb", ["cancel", "hold", "release"])
def test_verbs_act_on_names(server: FakeServer, stw: Stw, verb: str) -> None:
    """Each once, in the order of the arguments."""
    server.on("POST", f"/v1/workloads/[ab]/{verb}", CHANGED)
    result = stw(verb, "a", "b", "a")
    assert result.code == 0
    assert [asked.path for asked in server.asked] == [
        f"/v1/workloads/{name}/{verb}" for name in "ab"
    ]


def test_one_refusal_does_not_stop_the_others(server: FakeServer, stw: Stw) -> None:
    """All are tried, every refusal is told, and the first gives the code."""
    server.on("POST", "/v1/workloads/[ac]/cancel", CHANGED)
    server.on("POST", "/v1/workloads/b/cancel", refuses("find/workload", "no b", 404, 3))
    result = stw("cancel", "a", "b", "c")
    assert result.code == 3
    assert "error[find/workload]  no b" in result.err
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("phase", "told"),
    [
        ("Cancelled", "a cancelled"),
        ("Stopping", "a asked to end"),
        ("Succeeded", "a ended before that: Succeeded"),
    ],
)
def test_cancel_tells_what_came_of_it(server: FakeServer, stw: Stw, phase: str, told: str) -> None:
    """What waits is over at once, what runs is asked, what was over stays as it was."""
    server.on("POST", "/v1/workloads/a/cancel", {"id": "w", "name": "a", "phase": phase})
    assert stw("cancel", "a").err.splitlines()[0] == told


@pytest.mark.parametrize(
    "arguments",
    [[], ["a", "--all"], ["a", "-l", "x=y"], ["--all", "-l", "x=y"], ["a", "--phase", "Held"]],
)
def test_a_bulk_verb_wants_to_know_which(stw: Stw, arguments: list[str]) -> None:
    """Never all by accident."""
    result = stw("cancel", *arguments)
    assert result.code == 2
    assert "say which workloads" in result.err


@pytest.mark.parametrize("arguments", [["7", "a"], ["--", "-7", "a"]])
def test_priorities_may_be_negative(server: FakeServer, stw: Stw, arguments: list[str]) -> None:
    """After two dashes, as usual."""
    server.on("POST", "/v1/workloads/a/priority", CHANGED)
    assert stw("prio", *arguments).code == 0
    assert abs(server.asked[0].json()["priority"]) == 7


def test_giving_up_a_run_needs_a_yes(server: FakeServer, stw: Stw) -> None:
    """If the machine is only cut off, the job would run twice."""
    server.on("POST", "/v1/workloads/a/lost", CHANGED)
    assert stw("lost", "a").code == 2
    assert server.asked == []
    assert stw("lost", "a", "--yes").code == 0


EVENTS = [
    {
        "seq": 1,
        "at_ms": 5,
        "epoch": 1,
        "actor": "engine",
        "project": "",
        "version": 1,
        "event": {"type": "leader-changed", "epoch": 1, "version": "0.1.0"},
    },
    {
        "seq": 2,
        "at_ms": 6,
        "epoch": 1,
        "actor": "ada",
        "project": "",
        "version": 1,
        "event": {"type": "released", "id": "w-1"},
    },
]


def test_events_carry_names(server: FakeServer, stw: Stw) -> None:
    """An id alone tells a person nothing."""
    server.on("GET", "/v1/events", {"items": EVENTS, "seq": 2, "next": 2})
    named = {**row("digits"), "id": "w-1"}
    server.on("GET", "/v1/workloads", {"items": [named], "seq": 1, "next": None})
    result = stw("events", "--columns", "seq,about,what")
    assert result.lines[1:] == [
        "1\t-\ta server leads, epoch 1, version 0.1.0",
        "2\tdigits\treleased by ada",
    ]
    server.on("GET", "/v1/workloads/digits", {**show("digits"), "id": "w-1"})
    assert stw("story", "digits", "-o", "name").lines == ["1", "2"]
    assert server.asked[-1].query["workload"] == "w-1"


def test_events_are_followed_as_they_come(server: FakeServer) -> None:
    """One line for each, at once, until Ctrl-C."""
    server.on("GET", "/v1/workloads", {"items": [], "seq": 1, "next": None})

    def events(asked: Any) -> Any:
        if asked.query.get("follow") != "1":
            return {"items": [], "seq": 0, "next": 0}
        return Says([b"data: " + json.dumps(EVENTS[0]).encode() + b"\n\n"], cut=True)

    server.on("GET", "/v1/events", events)
    command = [sys.executable, "-m", "stellwerk.cli", "events", "-f", "-o", "jsonl"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["seq"] == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


def test_the_servers_status_is_for_programs_too(server: FakeServer, stw: Stw) -> None:
    """`pid` is what one ends it by."""
    assert json.loads(stw("server", "status", "-o", "json").out)["pid"] == STATUS["pid"]
    assert "running, pid 4242" in stw("server", "status").out
    assert "already running, pid 4242" in stw("server", "start").err


def test_a_server_that_does_not_run_is_not_started_to_say_so(stw: Stw) -> None:
    """`status` and `stop` only look."""
    result = stw("server", "status", "-o", "json")
    assert result.code == 6
    assert json.loads(result.out)["running"] is False
    assert json.loads(result.out)["pid"] is None
    assert stw("server", "status").code == 6
    result = stw("server", "stop")
    assert (result.code, result.err) == (0, "the server isn't running\n")
    assert not os.path.exists(load().server_log)


def test_the_servers_log_can_be_read(stw: Stw) -> None:
    """Also when the server is down, which is when one wants to."""
    assert stw("server", "logs").code == 3
    Path(load().server_log).write_text("".join(f"line {n}\n" for n in range(100)))
    assert stw("server", "logs", "-n", "2").lines == ["line 98", "line 99"]


def test_settings_say_where_they_come_from(stw: Stw, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value, its origin, and where to change it."""
    monkeypatch.setenv("STELLWERK_START_TIMEOUT_MS", "77")
    result = stw("config", "show", "--origin", "--columns", "name,value,origin")
    assert "start_timeout_ms\t77 ms\tSTELLWERK_START_TIMEOUT_MS" in result.lines
    assert "ask_above_bytes\t10 GiB\tdefault" in result.lines
    shown = json.loads(stw("config", "show", "-o", "json").out)
    assert {one["name"]: one["origin"] for one in shown}["output"] == "default"


def test_a_rerun_may_resume_with_another_time_limit(server: FakeServer, stw: Stw) -> None:
    """It says with what it starts; a time without a unit is refused before anything is asked."""
    told = [{"code": "resume", "message": "it starts with 2 checkpoints of digits", "help": ""}]
    again = {"id": "w-2", "name": "digits-2", "phase": "Pending", "notices": told}
    server.on("POST", "/v1/workloads/digits/rerun", again)
    result = stw("rerun", "digits", "--resume", "--time-limit", "90m", "-d")
    assert "it starts with 2 checkpoints of digits" in result.err
    sent = server.asked[-1].json()
    assert (sent["resume"], sent["time_limit_ms"]) == (True, 90 * 60_000)
    refused = stw("rerun", "digits", "--time-limit", "90")
    assert (refused.code, len(server.asked)) == (2, 1)
    assert "help: write `90m` for minutes, `90h` for hours" in refused.err


def test_a_rerun_asks_the_server_for_the_same_again(server: FakeServer, stw: Stw) -> None:
    """The server has text, code, variables and secrets."""
    again = {"id": "w-2", "name": "digits-2", "phase": "Pending", "notices": []}
    server.on("POST", "/v1/workloads/digits/rerun", again)
    assert stw("rerun", "digits", "-o", "name").out == "digits-2\n"
    assert set(server.asked[-1].json()) == {"key"}
    assert len(server.asked[-1].json()["key"]) == 24


def test_clusters_and_gpus_are_lists(server: FakeServer, stw: Stw) -> None:
    """With fields for programs."""
    device = {"index": 0, "kind": "T4", "memory_bytes": 2**34, "held_bytes": 2**33, "runs": ["r"]}
    node = {"name": "n1", "cpus": 2, "cpus_free": 1, "devices": [device]}
    fleet = {
        "items": [
            {"name": "lab", "driver": "local", "kind": "machine", "state": "ready", "nodes": [node]}
        ]
    }
    server.on("GET", "/v1/clusters", fleet)
    assert (
        stw("clusters", "--columns", "name,kind,free").lines[1] == "lab\tlocal machine\t1 CPU, 0 B"
    )
    assert stw("gpu", "--columns", "node,device,memory,runs").lines[1] == "n1\t0 T4\t8/16\tr"
    assert json.loads(stw("gpu", "-o", "json").out)[0]["device"]["kind"] == "T4"
    server.on("GET", "/v1/clusters", {"items": []})
    assert "no GPU was found" in stw("gpu").err


def test_names_are_completed_from_a_running_server(
    server: FakeServer, stw: Stw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked once, then remembered for some seconds."""
    from stellwerk.cli.session import complete_names

    server.on(
        "GET", "/v1/workloads", {"items": [row("digits"), row("eval")], "seq": 1, "next": None}
    )
    for _ in range(2):
        assert complete_names(None, None, "di") == ["digits"]  # type: ignore[arg-type]
    assert len(server.asked) == 1


def test_verbs_complete_what_is_live(server: FakeServer, stw: Stw) -> None:
    """Nobody cancels what has ended."""
    from stellwerk.cli.session import complete_live

    server.on("GET", "/v1/workloads", {"items": [row("digits")], "seq": 1, "next": None})
    assert complete_live(None, None, "d") == ["digits"]  # type: ignore[arg-type]
    assert server.asked[-1].query.get("all", "0") in {"0", "false"}


def test_completion_never_starts_a_server() -> None:
    """Nor complains that none runs."""
    from stellwerk.cli.session import complete_names

    assert complete_names(None, None, "") == []  # type: ignore[arg-type]
    assert not os.path.exists(load().server_log)


def test_a_held_workload_is_told_with_its_reason(server: FakeServer, stw: Stw) -> None:
    """The reason and the next step."""
    held = reason("held", "held", "held by ada", "stw release digits")
    server.on("GET", "/v1/workloads/digits", show("digits", "Held", reasons=[held]))
    result = stw("show", "digits")
    assert "  held by ada  [held]" in result.lines
    assert result.err == "next: stw explain digits\n"
