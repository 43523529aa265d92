"""`GET /v1/forecast`: from lengths of earlier runs and time limits, or said to be unknown."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stellwerk.server import outlook
from stellwerk.server.reading import read_item
from tests.server.stage import Stage
from tests.server.tidying.attic import Later

MINUTE = 60_000
FULL = "resources: {cpus: 4}\nrun: x\n"


class Waiting(Stage):
    """A server whose clock can be put forward, over one node of four CPUs."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, read=read_item)
        self.later = self.clock = Later()

    def forecast(self, *names: str) -> dict[str, Any]:
        """Forecasts by name; None where nothing can be said."""
        query = "&".join(f"workload={name}" for name in names)
        answer = self.get(f"/v1/forecast?{query}" if names else "/v1/forecast")
        assert answer.status == 200, answer.body
        return {item["name"]: item["forecast"] for item in answer.json["items"]}

    def ran(self, name: str, minutes: int) -> None:
        """Runs something to its good end."""
        told = self.submit(f"name: {name}\n{FULL}")
        run = self.started(told["id"])
        self.later.ahead_ms += minutes * MINUTE
        self.end(run)
        self.until(lambda: self.phase(told["id"]) == "Succeeded", "it has ended")


@pytest.fixture
def lab(home_of_its_own: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiting]:
    monkeypatch.setattr(outlook, "FRESH_S", 0.0)
    with Waiting(Path(home_of_its_own)) as stage:
        yield stage


def about(told: int | None, expected_ms: int) -> bool:
    """Equal but for what a test takes."""
    return told is not None and abs(told - expected_ms) < 20_000


def test_nothing_is_invented(lab: Waiting) -> None:
    """Where no length is known the start isn't; the answer says by how many it hangs."""
    lab.started(lab.submit("name: first\n" + FULL)["id"])
    lab.submit("name: next\n" + FULL)
    lab.submit("name: last\n" + FULL)
    told = lab.forecast()
    assert list(told) == ["next", "last"]
    assert (told["next"]["likely_ms"], told["next"]["latest_ms"]) == (None, None)
    assert (told["next"]["confidence"], told["next"]["unknown"]) == ("none", 1)
    assert told["next"]["assumes"]
    assert lab.forecast("first") == {}
    assert list(lab.forecast("last")) == ["last"]


def test_time_limits_bound_it(lab: Waiting) -> None:
    """With the grace that the run would have."""
    first = lab.submit("name: first\n" + FULL, overrides={"time_limit": "1h"})
    lab.started(first["id"])
    now_ms = lab.clock.now_ms()
    lab.submit("name: next\n" + FULL)
    told = lab.forecast()["next"]
    assert about(told["latest_ms"], now_ms + 60 * MINUTE + 30_000)
    assert told["likely_ms"] is None


def test_earlier_runs_of_the_same_name_and_shape_tell(lab: Waiting) -> None:
    """Whatever number the name got; a plan says the same of what isn't submitted."""
    lab.ran("train", 40)
    lab.started(lab.submit("name: train\n" + FULL)["id"])
    now_ms = lab.clock.now_ms()
    lab.submit("name: next\n" + FULL)
    told = lab.forecast("next")["next"]
    assert 40 * MINUTE < told["likely_ms"] - now_ms < 43 * MINUTE
    assert told["p90_ms"] > told["likely_ms"]
    assert told["confidence"] == "low"
    plan = lab.post("/v1/plan", {"text": "name: train\nresources: {cpus: 1}\nrun: y\n"}).json
    assert not plan["starts_now"]
    assert plan["forecast"]["unknown"] == 1
    lab.later.ahead_ms += 30 * MINUTE
    assert 40 * MINUTE < lab.forecast("next")["next"]["likely_ms"] - now_ms < 70 * MINUTE
    assert lab.get("/v1/forecast").json["calibration"] == {}


def test_a_notice_says_when_a_run_is_over(lab: Waiting) -> None:
    """Whatever is known of its length: it has its grace and no more."""
    first = lab.submit("name: first\n" + FULL)
    lab.started(first["id"])
    lab.submit("name: next\n" + FULL)
    now_ms = lab.clock.now_ms()
    assert lab.post(f"/v1/workloads/{first['id']}/cancel", {}).status == 200
    lab.until(lambda: lab.phase(first["id"]) == "Stopping", "it has its notice")
    told = lab.forecast("next")["next"]
    assert about(told["likely_ms"], now_ms + 30_000)
    assert told["latest_ms"] == told["likely_ms"]


def test_what_starts_now_needs_no_forecast(lab: Waiting) -> None:
    """And none is made."""
    assert lab.post("/v1/plan", {"text": FULL}).json["forecast"] is None


def test_a_look_ahead_that_takes_too_long_is_given_up(
    lab: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nothing is said, and the server goes on."""
    lab.started(lab.submit("name: first\n" + FULL)["id"])
    lab.submit("name: next\n" + FULL)
    monkeypatch.setattr(outlook, "LIMIT_S", 0.0)
    assert lab.forecast("next") == {"next": None}
    monkeypatch.undo()
    assert lab.forecast("next")["next"]["confidence"] == "none"
