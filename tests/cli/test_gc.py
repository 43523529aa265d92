"""`stw gc`: what is asked, what is told, and what needs a yes."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Stw
from tests.client.fake_server import FakeServer

DAY_MS = 86_400_000


def kind(name: str, count: int = 0, size: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "kind": name,
        "about": f"all {name}",
        "count": count,
        "bytes": size,
        "left": 3,
        "left_bytes": 4096,
        "keep_ms": 30 * DAY_MS,
        "failed": 0,
        **more,
    }


def swept(*items: dict[str, Any], more: bool = False, dry_run: bool = False) -> dict[str, Any]:
    return {"dry_run": dry_run, "at_ms": 1, "items": list(items), "more": more}


RUNS = kind("runs", 2, 5 * 2**20)
JOURNAL = kind("journal", left=19, left_bytes=None, keep_ms=None)


def test_it_tells_each_kind_and_the_sum(server: FakeServer, stw: Stw) -> None:
    """What goes, what is left, and for how long it is kept."""
    server.on("POST", "/v1/gc", swept(RUNS, JOURNAL, dry_run=True))
    result = stw("gc", "--dry-run")
    assert result.code == 0
    assert result.lines == [
        "KIND\tWOULD GO\tSIZE\tLEFT\tSIZE\tKEPT\tWHAT",
        "runs\t2\t5 MiB\t3\t4 KiB\t30 d\tall runs",
        "journal\t0\t-\t19\t-\tfor ever\tall journal",
    ]
    assert result.err == "2 things, 5 MiB would go.   next: stw gc\n"
    assert server.bodies("POST", "/v1/gc") == [{"dry_run": True, "only": []}]


def test_the_next_step_is_what_was_asked(server: FakeServer, stw: Stw) -> None:
    """With the same age and kinds; where nothing would go, another."""
    server.on("POST", "/v1/gc", swept(RUNS, dry_run=True))
    result = stw("gc", "--dry-run", "--older-than", "7d", "--only", "runs", "--only", "outputs")
    assert result.err.endswith("next: stw gc --older-than 7d --only runs --only outputs\n")
    server.on("POST", "/v1/gc", swept(kind("runs"), dry_run=True))
    assert stw("gc", "--dry-run").err.endswith("next: stw config show\n")


def test_nothing_to_do_is_said(server: FakeServer, stw: Stw) -> None:
    """In a sentence."""
    server.on("POST", "/v1/gc", swept(kind("runs")))
    result = stw("gc")
    assert result.err == "nothing is kept longer than the settings say.   next: stw config show\n"


def test_it_goes_on_until_all_is_gone(server: FakeServer, stw: Stw) -> None:
    """A sweep is bounded; what several removed adds up, one that removes nothing is the last."""
    answers = [swept(RUNS, more=True), swept(RUNS, more=True), swept(kind("runs"), more=True)]
    server.on("POST", "/v1/gc", lambda _: answers.pop(0))
    result = stw("gc", "-o", "json")
    assert answers == []
    told = json.loads(result.out)
    assert (told["items"][0]["count"], told["items"][0]["bytes"]) == (4, 10 * 2**20)


@pytest.mark.parametrize("flags", [["--older-than", "7d"], ["--only", "outputs"]])
def test_more_than_time_would_needs_a_yes(server: FakeServer, stw: Stw, flags: list[str]) -> None:
    """Without a terminal it is refused, and nothing was removed."""
    server.on("POST", "/v1/gc", swept(RUNS))
    result = stw("gc", *flags)
    assert result.code == 2
    assert "help: add --yes" in result.err
    assert all(body["dry_run"] for body in server.bodies("POST", "/v1/gc"))
    assert stw("gc", "--yes", *flags).code == 0


def test_an_age_travels_as_a_time(server: FakeServer, stw: Stw) -> None:
    """As tasks write it; anything else is refused."""
    server.on("POST", "/v1/gc", swept(RUNS))
    stw("gc", "--older-than", "1d12h", "--only", "runs", "--only", "blobs", "--yes")
    assert server.bodies("POST", "/v1/gc")[-1] == {
        "dry_run": False,
        "only": ["runs", "blobs"],
        "older_than_ms": 36 * 3_600_000,
    }
    assert stw("gc", "--older-than", "soon").code == 2


def test_what_could_not_be_removed_is_a_failure(server: FakeServer, stw: Stw) -> None:
    """With where to look."""
    server.on("POST", "/v1/gc", swept(kind("runs", 1, failed=2)))
    result = stw("gc")
    assert result.code == 1
    assert "2 could not be removed: stw server logs" in result.err


def test_names_and_columns(server: FakeServer, stw: Stw) -> None:
    """As every list."""
    server.on("POST", "/v1/gc", swept(RUNS, JOURNAL))
    assert stw("gc", "-o", "name").out == "runs\njournal\n"
    assert stw("gc", "--columns", "kind,count", "--no-headers").out == "runs\t2\njournal\t0\n"
