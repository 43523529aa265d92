"""`/v1/reservations`: one story of room that is promised, kept, shown and given up."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stellwerk.server.reading import read_item
from tests.server.stage import Stage, UnixConnection, ask


@pytest.fixture
def stage(home_of_its_own: str) -> Iterator[Stage]:
    """A server that reads as the real one does, over one node of four CPUs."""
    with Stage(Path(home_of_its_own), read=read_item) as running:
        yield running


HOUR = 3_600_000


def wish(stage: Stage, name: str, **wanted: int) -> dict[str, Any]:
    """Room for the queue `exam`, for an hour, from an hour on."""
    stage.until(lambda: bool(stage.get("/v1/clusters").json["items"]), "it was looked at")
    from_ms = stage.clock.now_ms() + HOUR
    span = {"from_ms": from_ms, "until_ms": from_ms + HOUR}
    holder = {"kind": "queue", "name": "exam"}
    return {"name": name, "holder": holder, "wanted": wanted, "spans": [span]}


def test_room_is_promised_shown_kept_and_given_up(stage: Stage) -> None:
    """Twice the same wish is one reservation; what can't be kept is refused with what there is."""
    asked = wish(stage, "exam", cpus_milli=3000)
    made = stage.post("/v1/reservations", asked)
    assert made.status == 200, made.body
    assert made.json["reservation"]["parts"][0]["cpus_milli"] == 3000
    assert stage.post("/v1/reservations", asked).json == made.json
    refused = stage.post("/v1/reservations", {**asked, "name": "more"})
    assert refused.status == 422
    assert "can give 1 of 3 CPUs" in refused.json["problems"][0]["message"]
    assert "there is no LocalQueue exam" in made.json["note"]
    wrong = {**asked, "release_ms": -1, "wanted": {"cpus_milli": 2000, "clusters": ["nix"]}}
    problems = stage.post("/v1/reservations", wrong).json["problems"]
    assert "given up before" in problems[0]["message"]
    assert "another name" in problems[1]["help"]
    assert problems[2]["help"].startswith("there is: ")
    [listed] = stage.get("/v1/reservations").json["items"]
    assert listed == stage.get("/v1/reservations/exam").json
    gone = ask(UnixConnection(stage.socket), "DELETE", "/v1/reservations/exam")
    assert gone.status == 200
    assert stage.get("/v1/reservations").json["items"] == []
    assert stage.get("/v1/reservations/exam").status == 404
