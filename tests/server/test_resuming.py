"""A workload that is over can be gone on from: what it saved is found, told, and given over.

Otherwise it is said why not, and nothing is submitted.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from stellwerk.core.model.resources import Alternative, Request, Shape
from stellwerk.drivers.base import DriverError, Saved
from stellwerk.server.resuming import only_on
from tests.server.stage import Stage
from tests.server.tidying.attic import TidyDriver


class SavingDriver(TidyDriver):
    """A cluster that knows the checkpoints of workloads."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: dict[str, list[Saved]] = {}
        self.answers = True
        self.is_old = False

    async def checkpoints(self, workload: str) -> Sequence[Saved]:
        if not self.answers:
            raise DriverError("driver/no-answer", "lab does not answer", final=False)
        if self.is_old:
            raise DriverError("runtime/too_old", "it can't", final=True)
        return self.saved.get(workload, [])


class Desk(Stage):
    """A server over such a cluster."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.saving = self.driver = SavingDriver()

    def ended(self, name: str, *saved: Saved) -> str:
        """A workload that is over and saved something; gives its id."""
        id: str = self.submit(overrides={"name": name})["id"]
        self.saving.saved[id] = list(saved)
        self.end(self.started(id), code=1)
        self.until(lambda: self.phase(id) == "Failed", "it has ended")
        return id


@pytest.fixture
def desk(home_of_its_own: str) -> Iterator[Desk]:
    with Desk(Path(home_of_its_own)) as running:
        yield running


def test_a_new_workload_goes_on_from_the_old_one(desk: Desk) -> None:
    """Its order names the old one; how many checkpoints there are, and the newest, is told."""
    old = desk.ended("fit", Saved("epoch-3.pt", 10, 1_000, 3), Saved("epoch-4.pt", 2048, 9_000, 4))
    again = desk.post("/v1/workloads/fit/rerun", {"resume": True, "time_limit_ms": 90_000})
    assert again.status == 201
    [told] = again.json["notices"]
    assert told["message"].startswith(
        "it starts with 2 checkpoints of fit, the newest is epoch-4.pt (step 4, 2 KiB), written "
    )
    desk.started(again.json["id"])
    assert desk.driver.started[-1].resumes == old
    assert desk.driver.started[-1].time_limit_ms == 90_000
    [first, *_] = desk.get(f"/v1/workloads/{again.json['id']}").json["timeline"]
    assert first["what"].endswith(", to go on from what fit saved")


def test_without_the_wish_it_begins_anew(desk: Desk) -> None:
    """With empty folders, and with the time limit that it had."""
    desk.ended("fit", Saved("a.pt", 10, 1_000))
    again = desk.post("/v1/workloads/fit/rerun").json
    desk.started(again["id"])
    assert (desk.driver.started[-1].resumes, again["notices"]) == ("", [])


def test_any_name_that_a_file_can_have_is_told(desk: Desk) -> None:
    """As well as it can be: the workload is there by then, and its answer must not fail."""
    desk.ended("odd", Saved("a\udcff\x1b[2J\n-step-1.pt", 10, 1_000, 1))
    again = desk.post("/v1/workloads/odd/rerun", {"resume": True})
    assert again.status == 201
    [told] = again.json["notices"]
    assert "checkpoint of odd: a??[2J?-step-1.pt (step 1, 10 B)" in told["message"]


def test_one_that_saved_nothing_is_gone_on_from_where_it_began(desk: Desk) -> None:
    """What it was given itself is the newest that there is."""
    old = desk.ended("fit", Saved("a.pt", 10, 1_000))
    second = desk.post("/v1/workloads/fit/rerun", {"resume": True}).json
    desk.end(desk.started(second["id"]), code=1)
    desk.until(lambda: desk.phase(second["id"]) == "Failed", "it has ended")
    third = desk.post(f"/v1/workloads/{second['id']}/rerun", {"resume": True}).json
    desk.started(third["id"])
    assert desk.driver.started[-1].resumes == old


def test_what_can_not_be_gone_on_from_is_refused_in_words(desk: Desk) -> None:
    """Nothing saved, still running, or its place doesn't answer: each with what to do."""
    desk.ended("empty")
    refused = desk.post("/v1/workloads/empty/rerun", {"resume": True}).json
    assert (refused["code"], refused["status"]) == ("resume/no-checkpoints", 409)
    assert "`stw rerun empty` starts it anew" in str(refused)
    live = desk.submit(overrides={"name": "live"})
    desk.started(live["id"])
    refused = desk.post(f"/v1/workloads/{live['id']}/rerun", {"resume": True}).json
    assert refused["code"] == "phase/not-ended"
    desk.saving.is_old = True
    refused = desk.post("/v1/workloads/empty/rerun", {"resume": True}).json
    assert (refused["code"], refused["status"]) == ("resume/too-old", 409)
    desk.saving.answers = False
    refused = desk.post("/v1/workloads/empty/rerun", {"resume": True}).json
    assert (refused["code"], refused["exit"]) == ("resume/unreachable", 6)
    assert len(desk.get("/v1/workloads?all=true").json["items"]) == 2


def test_what_is_to_be_gone_on_from_is_not_tidied_away(desk: Desk) -> None:
    """As long as the new workload isn't over."""
    old = desk.ended("fit", Saved("a.pt", 10, 1_000))
    desk.saving.kept["checkpoints"][old] = 500
    again = desk.post("/v1/workloads/fit/rerun", {"resume": True}).json
    run = desk.started(again["id"])
    wish = {"only": ["checkpoints"], "older_than_ms": 0}
    assert desk.post("/v1/gc", wish).json["items"][0]["count"] == 0
    desk.end(run)
    desk.until(lambda: desk.phase(again["id"]) == "Succeeded", "it has ended")
    assert desk.post("/v1/gc", wish).json["items"][0]["count"] == 1
    assert desk.saving.kept["checkpoints"] == {}


def test_a_shape_is_bound_to_the_place_of_its_checkpoints() -> None:
    """Whatever it named before; alternatives that become the same are one."""
    shape = Shape((Alternative(Request(1000), "ssh/a"), Alternative(Request(1000), "")))
    assert only_on(shape, "lab") == Shape((Alternative(Request(1000), "lab"),))
