"""A name stays that of the first: what says so when it is over and others have a number by now."""

from typing import Any

import pytest

from stellwerk.core.model.gates import ARRAY_LABEL
from tests.cli.conftest import Stw
from tests.cli.jobs import ended
from tests.client.fake_server import FakeServer, refuses, row, show

MINUTE_MS = 60_000


def _family(server: FakeServer, *rows: dict[str, Any]) -> None:
    server.on("GET", "/v1/workloads", {"items": list(rows), "seq": 1, "next": None})


def _row(name: str, phase: str, **more: Any) -> dict[str, Any]:
    return {**row(name, phase, **more), "id": f"w-{name}", "submitted_ms": 1_900_000_000_000}


@pytest.fixture
def over(server: FakeServer) -> FakeServer:
    """`digits` has ended; `digits-2` runs, `digits-x` is another name."""
    server.on("GET", "/v1/workloads/(digits|w-1)", ended())
    server.on("GET", "/v1/workloads/digits/wait", ended() | {"runs": 1})
    server.on("GET", "/v1/workloads/digits/explain", ended() | {"run": 1, "decision": None})
    server.on("GET", "/v1/workloads/w-1/logs", {})
    element = _row("digits-7", "Running", labels={ARRAY_LABEL: "digits"})
    _family(server, _row("digits-2", "Running"), element, _row("digits-x", "Running"))
    return server


def test_a_cancel_of_what_was_over_says_so(over: FakeServer, stw: Stw) -> None:
    """It isn't called cancelled, the one that runs is named, and it is no error."""
    answer = {"id": "w-1", "name": "digits", "phase": "Succeeded", "over_since_ms": 1}
    over.on("POST", "/v1/workloads/digits/cancel", answer)
    result = stw("cancel", "digits")
    assert result.code == 0
    first, second, *_ = result.err.splitlines()
    assert first.startswith("digits was over before (Succeeded ")
    assert second == "digits-2 is Running: stw cancel digits-2"
    assert "digits cancelled" not in result.err


def test_a_cancel_by_this_request_stays_a_cancel(over: FakeServer, stw: Stw) -> None:
    """Without the time since when it was over it was ended by the request."""
    answer = {"id": "w-1", "name": "digits", "phase": "Cancelled"}
    over.on("POST", "/v1/workloads/digits/cancel", answer)
    assert stw("cancel", "digits").err.splitlines()[0] == "digits cancelled"


@pytest.mark.parametrize(
    ("typed", "again"),
    [
        (["hold", "digits"], "stw hold digits-2"),
        (["prio", "5", "digits"], "stw prio -- 5 digits-2"),
        (["exec", "digits", "--", "true"], "stw exec digits-2"),
    ],
)
def test_a_verb_refused_by_what_is_over_names_what_is_live(
    over: FakeServer, stw: Stw, typed: list[str], again: str
) -> None:
    """The refusal and its code stay; below it stands what may have been meant."""
    code = "exec/ended" if typed[0] == "exec" else "phase/not-pending"
    over.on("POST", "/v1/workloads/digits/.*", refuses(code, "digits is Succeeded", 409, 1))
    result = stw(*typed)
    assert result.code == (125 if typed[0] == "exec" else 1)
    assert f"digits-2 is Running: {again}" in result.err.splitlines()


@pytest.mark.parametrize("typed", ["show", "logs", "explain", "wait"])
def test_reading_of_what_is_over_tells_of_newer_ones(
    over: FakeServer, stw: Stw, typed: str
) -> None:
    """On stderr; elements of arrays and other names aren't of the family."""
    result = stw(typed, "digits")
    assert "newer: digits-2 (Running)" in result.err.splitlines()
    assert "newer" not in result.out


def test_nothing_is_said_of_what_is_live_or_named_by_its_number(over: FakeServer, stw: Stw) -> None:
    """A number says which one is meant."""
    over.on("GET", "/v1/workloads/digits", show("digits", "Running"))
    assert "newer" not in stw("show", "digits").err
    over.on("GET", "/v1/workloads/digits-2", ended() | {"name": "digits-2"})
    assert "newer" not in stw("show", "digits-2").err
