"""The verbs that act on many: one request, told by the first names and by numbers."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Stw
from tests.client.fake_server import FakeServer, row

CHANGE = "/v1/workloads/change"


def changed(count: int, phase: str = "Held", **more: Any) -> dict[str, Any]:
    items = [{"id": f"w-{n}", "name": f"j{n}", "phase": phase} for n in range(min(20, count))]
    return {"verb": "hold", "count": count, "phases": {phase: count}, "items": items, **more}


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        (["-l", "team=x"], {"labels": {"team": "x"}}),
        (["--phase", "pending"], {"phases": ["pending"]}),
        (["--all"], {"all": True}),
        (["--all", "--phase", "Held"], {"all": True, "phases": ["Held"]}),
        (["sweep-*"], {"names": ["sweep-*"]}),
        ([f"j{n}" for n in range(40)], {"names": [f"j{n}" for n in range(40)]}),
    ],
)
def test_many_are_one_request(
    server: FakeServer, stw: Stw, arguments: list[str], body: dict[str, Any]
) -> None:
    """With filters, patterns or many names; under a key of its own."""
    server.on("POST", CHANGE, changed(20_000))
    result = stw("hold", *arguments)
    assert result.code == 0
    [asked] = server.asked
    none: dict[str, Any] = {"names": [], "all": False, "labels": {}, "phases": [], "owner": ""}
    wanted = {"verb": "hold", **none, **body, "dry_run": False, "show": 20}
    assert asked.json() == wanted
    assert asked.headers["Idempotency-Key"]
    lines = result.err.splitlines()
    assert lines[:2] == ["j0 held back", "j1 held back"]
    assert lines[20:] == ["and 19,980 more held back", "next: stw ps"]


def test_what_came_of_them_is_told_apart(server: FakeServer, stw: Stw) -> None:
    """Waiting ones are over, running ones asked to end, and refusals stand first."""
    refused = {"name": "b", "code": "find/workload", "message": "no b", "help": "look", "exit": 3}
    answer = changed(30, "Cancelled", refused=[refused])
    server.on("POST", CHANGE, {**answer, "phases": {"Cancelled": 25, "Running": 3, "Stopping": 2}})
    result = stw("cancel", "j*", "b", "--now")
    assert result.code == 3
    lines = result.err.splitlines()
    assert lines[0] == "error[find/workload]  no b  help: look"
    assert lines[-3:] == ["and 5 more cancelled", "and 5 more asked to end", "next: stw ps"]
    assert server.asked[0].json()["now"] is True


def test_what_was_over_before_isnt_told_as_cancelled(server: FakeServer, stw: Stw) -> None:
    """Nothing was done to it."""
    answer = changed(20, "Cancelled")
    answer["items"][1]["over_since_ms"] = 1
    server.on("POST", CHANGE, answer)
    lines = stw("cancel", *(f"j{n}" for n in range(20))).err.splitlines()
    assert lines[0] == "j0 cancelled"
    assert lines[1].startswith("j1 was over before (Cancelled ")


def test_all_needs_a_yes(server: FakeServer, stw: Stw) -> None:
    """Without a terminal nobody can be asked; how many there are is said."""
    server.on("POST", CHANGE, changed(5_000, "Pending", dry_run=True))
    result = stw("cancel", "--all")
    assert (result.code, len(server.asked)) == (2, 1)
    assert "5000 workloads" in result.err or "5,000 workloads" in result.err
    assert server.asked[0].json()["dry_run"] is True
    assert stw("cancel", "--all", "--yes").code == 0
    assert server.asked[1].json()["dry_run"] is False


def test_a_dry_run_changes_nothing(server: FakeServer, stw: Stw) -> None:
    """It says which it would be, also for a single name."""
    server.on("POST", CHANGE, changed(1, "Pending", dry_run=True))
    result = stw("cancel", "j0", "--dry-run")
    assert result.err.splitlines() == ["j0 is Pending", "1 workload; nothing was changed"]
    assert server.asked[0].json()["dry_run"] is True


def test_data_has_all_of_them(server: FakeServer, stw: Stw) -> None:
    """A program isn't given the first twenty."""
    server.on("POST", CHANGE, changed(3))
    assert [one["name"] for one in json.loads(stw("hold", "--all", "-o", "json").out)] == [
        "j0",
        "j1",
        "j2",
    ]
    assert server.asked[0].json()["show"] >= 100_000


def test_none_is_said(server: FakeServer, stw: Stw) -> None:
    """A filter that leaves nothing is no failure."""
    server.on("POST", CHANGE, changed(0))
    result = stw("release", "-l", "team=x")
    assert (result.code, result.err) == (
        0,
        "none is like that; stw ps lists what waits or runs\n",
    )


def test_a_priority_for_many(server: FakeServer, stw: Stw) -> None:
    """The number goes along."""
    server.on("POST", CHANGE, changed(1, "Pending"))
    server.on("GET", "/v1/workloads", {"items": [row("a")], "seq": 1, "next": None})
    assert stw("prio", "-l", "x=y", "--", "-7").code == 0
    assert server.asked[0].json()["priority"] == -7
