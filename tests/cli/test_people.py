"""Commands about people: what was used, whose runtime, whose server, of whom a list is."""

import grp
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stellwerk.cli.arrays import row_of
from stellwerk.cli.commands.usage import hours, since_when
from stellwerk.cli.render import clusters, workloads
from stellwerk.client import people
from stellwerk.client.arrays import ArrayView
from stellwerk.client.fleet import ClusterView
from stellwerk.client.wire import Row
from stellwerk.config import group_file, load
from tests.cli.conftest import Stw
from tests.client.fake_server import STATUS, FakeServer

HOUR = 3_600_000
LINE = {
    "who": "ada",
    "month": "2026-11",
    "workloads": 12,
    "runs": 14,
    "live": 1,
    "gpu_ms": 3 * HOUR + HOUR // 2,
    "cpu_ms": 1204 * HOUR,
    "memory_byte_ms": HOUR << 30,
    "wait_ms": 24_000,
    "started": 12,
}
SHARED = {
    **STATUS,
    "owner": "ben",
    "shared": True,
    "visibility": "names",
    "you": {"name": "ada", "is_admin": False, "project": "vision", "runtime": False},
}


def test_usage_tells_hours_and_what_goes_on(server: FakeServer, stw: Stw) -> None:
    """By person, project or month; what is counted until now is said."""
    server.on("GET", "/v1/usage", {"items": [LINE], "since_ms": 0, "until_ms": 1, "seq": 1})
    found = stw("usage", "--by", "month", "--since", "2026-11")
    assert found.lines[0].split() == [
        *"MONTH PERSON".split(), "GPU", "HOURS", "CPU", "HOURS", "GIB", "HOURS",
        "WORKLOADS", "RUNS", "WAITED",
    ]  # fmt: skip
    assert found.lines[1].split()[:7] == ["2026-11", "ada", "3.5", "1,204", "1.0", "12", "14"]
    assert "2.0 s" in found.out
    assert "1 of the runs go on" in found.err
    asked = server.asked[-1].query
    assert (asked["by"], asked["months"], asked["since_ms"]) == ("person", "1", "1793491200000")
    assert '"gpu_ms": 12600000' in stw("usage", "--by", "project", "-o", "json").out
    assert server.asked[-1].query["by"] == "project"
    assert stw("usage", "--since", "soon").code == 2


def test_times_to_begin_at() -> None:
    """Dates are in UTC; ages count from now."""
    now_ms = int(datetime(2026, 12, 1, tzinfo=UTC).timestamp() * 1000)
    assert since_when("30d", now_ms) == int(datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 1000)
    assert since_when("2026", now_ms) == int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
    assert [hours(0), hours(36_000), hours(HOUR * 2.5)] == ["0", "0.01", "2.5"]


def test_it_is_said_whose_server_it_is_and_who_asks(server: FakeServer, stw: Stw) -> None:
    """And what is missing for one's work to run."""
    server.on("GET", "/v1/server", SHARED)
    told = stw("server", "status").out
    assert "owner      ben, shared; of others' work people see: names" in told
    assert "you are    ada (in project vision, without a runtime: stw agent start)" in told
    server.on("GET", "/v1/server", STATUS)
    assert "owner" not in stw("server", "status").out


def test_an_agent_is_for_servers_of_others(server: FakeServer, stw: Stw) -> None:
    """One's own server needs none."""
    server.on("GET", "/v1/server", SHARED)
    found = stw("agent", "start")
    assert found.code == 1
    assert "error[guest/not-shared]  this server starts your work by itself" in found.err


def test_no_runtime_is_started_unasked_for_any_server(
    server: FakeServer, stw: Stw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever runs a server could start anything as oneself: that takes a word of one's own."""
    monkeypatch.setattr(people, "is_foreign", lambda _: True)
    server.on("GET", "/v1/server", SHARED)
    server.on("POST", "/v1/workloads", {"id": "w-1", "name": "echo", "phase": "Pending"})
    found = stw("run", "-d", "--", "echo")
    assert "ben runs this server: stw agent start has it work as you" in found.err
    assert not any("guest" in name for _, names, _ in os.walk(os.environ["HOME"]) for name in names)


def test_a_cluster_is_shared_with_exactly_these(server: FakeServer, stw: Stw) -> None:
    """Nobody named: with nobody."""
    answer = {"cluster": "k017", "owner": "ada", "shared": ["ben", "*"]}
    server.on("POST", "/v1/clusters/k017/share", answer)
    assert "k017 of ada is used by ben, everybody" in stw("share", "k017", "ben", "*").err
    assert server.asked[-1].json() == {"users": ["ben", "*"]}


def test_lists_are_of_one_person_where_that_is_asked(server: FakeServer, stw: Stw) -> None:
    """The server chooses; the owner is a column where there are several."""
    server.on("GET", "/v1/workloads", {"items": [], "seq": 1, "next": None, "total": 0})
    stw("ps", "-u", "ada")
    assert server.asked[-1].query["owner"] == "ada"
    assert "nothing of ada waits" in stw("queue", "-u", "ada").err


def test_a_group_is_named_before_the_server_starts(
    server: FakeServer, stw: Stw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that there is, and not for a server that runs already; then the state remembers it."""
    found = stw("server", "start", "--group", "no-such-group-here")
    assert "error[server/group]  this machine has no group" in found.err
    group = grp.getgrgid(os.getgid()).gr_name
    found = stw("server", "start", "--group", group)
    assert "error[server/running]" in found.err
    assert "stw server stop" in found.err
    settings = load()
    with open(group_file(settings.home), "w", encoding="utf-8") as file:
        file.write(f"{group}\n")
    monkeypatch.setenv("STELLWERK_SOCKET", settings.socket)  # where the fake one listens
    assert stw("server", "start", "--group", group).code == 0


def test_nothing_is_started_in_the_place_of_somebody_elses_server(
    tmp_path: Path, stw: Stw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said whom to ask."""
    monkeypatch.setenv("STELLWERK_SOCKET", str(tmp_path / "server.sock"))
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    found = stw("ps")
    assert found.code == 6
    assert "error[server/not-running]  the server of" in found.err


def test_root_is_told_how_everyone_is_kept(stw: Stw) -> None:
    """The unit names the server and the people; what isn't said is asked for."""
    found = stw("agent", "everyone", "--people", "@lab,ben", "--server", "/run/s.sock", "--unit")
    assert "--server /run/s.sock --people=@lab --people=ben\n" in found.out
    assert stw("agent", "everyone", "--people", " ", "--server", "/s").err.startswith(
        "error[people/nobody]  nobody is named"
    )


def test_nothing_is_offered_that_would_be_refused(server: FakeServer, stw: Stw) -> None:
    """Of somebody else's work one may ask why it is where it is, and not read its output."""
    theirs = {"id": "w-1", "name": "hers", "phase": "Running", "owner": "ada", "can_read": False}
    server.on("GET", "/v1/workloads/hers", theirs)
    assert "next: stw explain hers" in stw("show", "hers").err
    server.on("GET", "/v1/workloads/hers", {**theirs, "can_read": True})
    assert "next: stw logs -f hers" in stw("show", "hers").err


def test_lines_that_stand_for_several_things_say_what_they_are() -> None:
    """An array has no runs of its own; a machine that dials in isn't one over SSH."""
    [runs] = [column for column in workloads.columns(0) if column.key == "runs"]
    assert runs.cell(row_of(ArrayView("a-1", "many", count=9))) == "-"
    assert runs.cell(Row(id="w-1", name="one", phase="Pending")) == "0"
    views = [ClusterView(name="lab", driver="ssh", kind=kind) for kind in ("room", "joined room")]
    assert [clusters.kind_of(one) for one in views] == ["ssh room", "joined room"]
    assert clusters.kind_of(ClusterView(name="me", driver="local", kind="local")) == "local"
