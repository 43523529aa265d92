"""`POST /v1/gc`: what goes, what stays, and that what stays can still be used."""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stellwerk.server.reading import read_item
from stellwerk.server.tidying.keeper import Keeper
from tests.server.stage import Stage
from tests.server.tidying.attic import DAY_MS, Later, TidyDriver, age_all

SECRET = "hunter2-is-not-a-password"


class Attic(Stage):
    """A server over a cluster on which things are left."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, read=read_item)
        self.tidy = self.driver = TidyDriver()
        self.later = self.clock = Later()

    def sweep(self, **wish: object) -> dict[str, Any]:
        """Sweeps, and gives the outcome by kind."""
        answer = self.post("/v1/gc", wish)
        assert answer.status == 200, answer.body
        return {item["kind"]: item for item in answer.json["items"]}

    def put(self, content: bytes) -> str:
        """Sends content; gives its hash."""
        name = hashlib.sha256(content).hexdigest()
        assert self.ask("PUT", f"/v1/blobs/{name}", content).status == 204
        return name

    def code(self, *files: bytes) -> str:
        """Sends a work directory; gives the hash of its list."""
        entries = [
            {"path": f"f{i}", "mode": 420, "size": len(one), "hash": self.put(one)}
            for i, one in enumerate(files)
        ]
        manifest = {"v": 1, "files": entries}
        return self.put(json.dumps(manifest, separators=(",", ":")).encode())

    def work(self, name: str, **more: object) -> dict[str, Any]:
        """Submits a task that leaves a run, results and checkpoints."""
        told = self.submit(f"name: {name}\nrun: echo {name}\n", **more)
        run = self.started(told["id"])
        self.tidy.runs[run] = 1000
        for kind in self.tidy.kept:
            self.tidy.kept[kind][told["id"]] = 500
        return told

    def finish(self, told: dict[str, Any]) -> None:
        """Ends a workload, and waits until it has ended."""
        self.end(self.started(told["id"]))
        self.until(lambda: self.phase(told["id"]) == "Succeeded", "it has ended")

    def pass_days(self, days: int) -> None:
        """Time goes by."""
        self.later.ahead_ms += days * DAY_MS


@pytest.fixture
def attic(home_of_its_own: str) -> Iterator[Attic]:
    with Attic(Path(home_of_its_own)) as running:
        yield running


def test_old_output_goes_and_logs_say_so(attic: Attic) -> None:
    """After a month; results and checkpoints stay, and so do young and live runs."""
    old, live = attic.work("old"), attic.work("live")
    attic.finish(old)
    attic.print(f"{old['id']}-1", b"hello\n")
    assert attic.get("/v1/workloads/old/logs").body == b"hello\n"
    attic.pass_days(31)
    young = attic.work("young")
    attic.finish(young)
    would = attic.sweep(dry_run=True)
    assert (would["runs"]["count"], would["runs"]["bytes"], would["runs"]["left"]) == (1, 1000, 2)
    assert len(attic.tidy.runs) == 3
    done = attic.sweep()
    assert done["runs"] == would["runs"]
    assert set(attic.tidy.runs) == {f"{live['id']}-1", f"{young['id']}-1"}
    assert [len(kept) for kept in attic.tidy.kept.values()] == [3, 3]
    for query in ("", "?run=1", "?run=all", "?follow=1"):
        gone = attic.get(f"/v1/workloads/old/logs{query}")
        assert (gone.status, gone.json["code"], gone.json["exit"]) == (404, "find/output", 3)
    assert "run 1 of old isn't kept any more" in gone.json["detail"]
    assert attic.get("/v1/workloads/young/logs").status == 200
    assert attic.get("/v1/workloads/old").json["phase"] == "Succeeded"
    assert attic.sweep()["runs"]["count"] == 0


def test_results_go_only_when_that_is_asked_for(attic: Attic) -> None:
    """By kind and age; those of a live workload never."""
    old, live = attic.work("old"), attic.work("live")
    attic.finish(old)
    attic.pass_days(31)
    done = attic.sweep(only=["checkpoints"], older_than_ms=DAY_MS)
    assert list(done) == ["checkpoints"]
    assert done["checkpoints"]["count"] == 1
    assert attic.tidy.kept["checkpoints"] == {live["id"]: 500}
    assert len(attic.tidy.kept["outputs"]) == 2
    assert len(attic.tidy.runs) == 2


def test_what_every_workload_refers_to_stays(attic: Attic) -> None:
    """Code, task, variables and sealed secrets, however old: each can be run again."""
    files = [b"shared", b"one", b"two"]
    snapshots = [attic.code(files[0], files[1]), attic.code(files[0], files[2])]
    nobodys = attic.code(b"nobody's")
    for name, snapshot in zip(("a", "b"), snapshots, strict=True):
        told = attic.work(name, snapshot=snapshot, secrets={"TOKEN": SECRET + name})
        attic.finish(told)
    command = {
        "kind": "argv",
        "argv": ["true"],
        "in_place": True,
        "cwd": "/tmp",
        "caller_env": {"A": SECRET},
    }
    attic.finish(attic.post("/v1/workloads", command).json)
    age_all(attic.store.blobs.root)
    attic.pass_days(400)
    done = attic.sweep()
    assert done["runs"]["count"] == 2
    assert (done["blobs"]["count"], done["secrets"]["count"]) == (2, 0)
    assert attic.store.blobs.missing([nobodys]) == [nobodys]
    attic.driver.started.clear()
    for name in ("a", "b", "true"):
        again = attic.post(f"/v1/workloads/{name}/rerun")
        assert again.status == 201, again.body
        attic.started(again.json["id"])
        attic.finish(again.json)
    secrets = [order.secrets for order in attic.driver.started]
    assert secrets == [{"TOKEN": SECRET + "a"}, {"TOKEN": SECRET + "b"}, {"A": SECRET}]
    for content in files:
        assert attic.get(f"/v1/blobs/{hashlib.sha256(content).hexdigest()}").body == content


def test_workloads_leave_the_lists_where_a_setting_says_so(
    attic: Attic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what only they refer to; the journal tells their story, and their name is taken."""
    shared, own = attic.code(b"shared"), attic.code(b"own")
    old = attic.work("old", snapshot=own, secrets={"TOKEN": SECRET})
    attic.finish(old)
    attic.pass_days(50)
    young = attic.work("young", snapshot=shared, secrets={"TOKEN": SECRET})
    attic.finish(young)
    age_all(attic.store.blobs.root)
    monkeypatch.setenv("STELLWERK_KEEP_WORKLOADS_DAYS", "40")
    attic.pass_days(8)
    attic.tidy.off = ("n2",)
    kept = attic.post("/v1/gc", {"only": ["workloads"]}).json
    assert kept["skipped"] == ["lab/n2"]
    assert [item["count"] for item in kept["items"]] == [0], "its folder may be on what is off"
    attic.tidy.off = ()
    would, done = attic.sweep(dry_run=True), attic.sweep()
    assert {kind: item["count"] for kind, item in done.items() if item["count"]} == {
        "runs": 1,
        "workloads": 1,
        "commands": 1,
        "decisions": 1,
        "blobs": 3,
    }
    assert {kind: item["count"] for kind, item in would.items()} == {
        kind: item["count"] for kind, item in done.items()
    }
    assert attic.get(f"/v1/workloads/{old['id']}").status == 404
    assert attic.store.blobs.missing([own, shared]) == [own]
    facts = attic.get("/v1/events?limit=1000").json["items"]
    assert any(old["id"] in json.dumps(fact) for fact in facts)
    assert attic.store.verify() == []
    assert attic.submit("name: old\nrun: x\n")["name"] == "old-2"
    attic.pass_days(40)
    age_all(attic.store.blobs.root)
    done = attic.sweep()
    assert done["secrets"]["count"] == 1
    assert attic.store.secrets.list("default", "") == []


def test_what_could_not_be_removed_is_counted_and_stays(attic: Attic) -> None:
    """One that refuses doesn't keep the others."""
    one, two = attic.work("one"), attic.work("two")
    for told in (one, two):
        attic.finish(told)
    attic.tidy.stubborn.add(f"{one['id']}-1")
    attic.pass_days(31)
    done = attic.sweep()
    assert (done["runs"]["count"], done["runs"]["failed"], done["runs"]["left"]) == (1, 1, 1)
    assert list(attic.tidy.runs) == [f"{one['id']}-1"]


def test_strays_go_and_drivers_know_what_is_alive(attic: Attic) -> None:
    """The engine says which runs hold something."""
    live = attic.work("live")
    attic.tidy.stray = {"work/w-9-1.1": 70, "runtime-a.pyz": 30}
    assert attic.sweep(dry_run=True)["strays"]["count"] == 2
    done = attic.sweep(only=["strays"])
    assert (done["strays"]["count"], done["strays"]["bytes"]) == (2, 100)
    assert attic.tidy.stray == {}
    assert attic.tidy.seen_live == {f"{live['id']}-1"}


def test_what_is_unknown_is_left_alone(attic: Attic) -> None:
    """A run of another state on the same machine isn't ours to remove."""
    attic.tidy.runs["w-0000000000000-1"] = 5
    attic.pass_days(400)
    attic.until(lambda: "runs" in attic.sweep(dry_run=True), "the cluster answers again")
    done = attic.sweep(older_than_ms=0)
    assert (done["runs"]["count"], done["runs"]["left"]) == (0, 1)


def test_a_wish_that_cannot_be_understood_is_refused(attic: Attic) -> None:
    """An unknown kind, a negative age."""
    for wish in ({"only": ["nothing"]}, {"older_than_ms": -1}, {"drop": True}):
        answer = attic.post("/v1/gc", wish)
        assert (answer.status, answer.json["exit"]) == (400, 2), answer.body


def test_it_happens_by_itself_once_in_a_while(attic: Attic) -> None:
    """Not again before the time, also not by a new server on the same state."""

    def due() -> bool:
        keeper = Keeper(attic.services)
        return asyncio.run_coroutine_threadsafe(keeper.sweep_if_due(), attic.loop).result(10)

    assert due()
    assert not due()
    attic.pass_days(2)
    assert due()
    attic.post("/v1/gc", {"only": ["blobs"]})
    attic.pass_days(1)
    assert due()


def test_a_sweep_that_fails_is_tried_again(attic: Attic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever went wrong ends neither the server nor the tidying."""
    swept: list[bool] = []

    async def scene() -> None:
        keeper = Keeper(attic.services)
        sweep_if_due = keeper.sweep_if_due

        async def fail_first() -> bool:
            swept.append(False)
            if len(swept) == 1:
                raise OSError("the disk had a bad moment")
            return await sweep_if_due()

        monkeypatch.setattr(keeper, "sweep_if_due", fail_first)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(keeper.keep_house(), 1)

    monkeypatch.setattr("stellwerk.server.tidying.keeper.FIRST_S", 0.0)
    monkeypatch.setattr("stellwerk.server.tidying.keeper.LOOK_S", 0.01)
    asyncio.run_coroutine_threadsafe(scene(), attic.loop).result(10)
    assert len(swept) > 1
    assert attic.store.retention.swept_ms()
