"""Data of the hub over HTTP: who has it, copies in a room, and what is refused in which words."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from stellwerk.core.inventory.caches import held_of
from stellwerk.core.model.reports import ClusterReport
from stellwerk.drivers.agents.checkpoint_places import Place
from stellwerk.drivers.agents.hands import refusal_of
from stellwerk.runtime import hub_cache, hub_hand, hub_passing, hub_removing
from stellwerk.runtime.hand_files import FileTrouble, Here
from stellwerk.runtime.hub_cache import HubCache
from stellwerk.server.reading import read_item
from stellwerk.testing.builders import a_node
from tests.runtime.hub import COMMIT, OTHER, make_repo
from tests.server.stage import Stage

WORDS = f"hf://datasets/lab/words@{COMMIT}"
FILES = {"README.md": b"# words", "data/train.bin": b"words" * 1_000_000}
NODES = ("pc1", "pc2", "pc3")


class Pc(Place):
    """A machine of the room: its hand works in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.here = Here(str(folder))
        self.cache = folder / "hub"

    @property
    def is_up(self) -> bool:
        return True

    async def ask(
        self, op: str, timeout_s: float = 0, **fields: Any
    ) -> tuple[dict[str, Any], bytes]:
        del timeout_s
        known = {**hub_hand.OPERATIONS, **hub_removing.OPERATIONS, **hub_passing.OPERATIONS}
        operation = known[op]
        data = fields.pop("data", b"")
        try:
            return operation(self.here, fields, data)
        except FileTrouble as trouble:
            told = {"code": trouble.code, "message": trouble.message}
            raise refusal_of(str(self.cache.parent.name), told) from trouble


class Room:
    """A server with a room of three, whose caches are folders here."""

    def __init__(self, stage: Stage, home: Path) -> None:
        self.stage = stage
        self.pcs = {name: Pc(home / name) for name in NODES}
        places = {f"lab/{name}": pc for name, pc in self.pcs.items()}
        stage.services.checkpoint_home = SimpleNamespace(places=places)  # type: ignore[assignment]

    def look(self) -> None:
        """Has the cluster tell what its machines have."""
        nodes = []
        for name, pc in self.pcs.items():
            hub = HubCache().look(str(pc.cache))
            nodes.append(replace(a_node(name, cpus=4), held=held_of({"hub": hub})))
        driver = self.stage.driver
        driver.facts = replace(driver.facts, nodes=tuple(nodes), kind="room")
        report = ClusterReport(driver.facts)
        self.stage.loop.call_soon_threadsafe(driver.out.put_nowait, report)

    def there(self) -> dict[str, str]:
        """How whole the commit is, by machine."""
        items = self.stage.get("/v1/data").json["items"]
        return {one["node"]: one["whole"] for one in items if one["revision"] == COMMIT}

    def ask(self, verb: str, **wish: object) -> Any:
        """Asks for a copy or a removal."""
        return self.stage.post(f"/v1/clusters/lab/data/{verb}", {"data": WORDS, **wish})

    def copies(self) -> list[dict[str, Any]]:
        """Those that are known, when none is under way."""

        def over() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = self.stage.get("/v1/data").json["copies"]
            return [] if any(one["state"] in {"waiting", "copying"} for one in found) else found

        self.stage.until(over, "copies are over")
        return over()


@pytest.fixture
def room(home_of_its_own: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    monkeypatch.setattr(
        hub_cache, "environment_of",
        lambda root: {"HF_HUB_CACHE": str(Path(root).parent / "hub")},
    )  # fmt: skip
    with Stage(Path(home_of_its_own), read=read_item) as stage:
        yield Room(stage, Path(home_of_its_own) / "room")


def test_data_goes_round_a_room(room: Room) -> None:
    """Looked for, copied to all that lack it, used, kept while it is used, removed."""
    make_repo(room.pcs["pc1"].cache, FILES)
    make_repo(room.pcs["pc2"].cache, FILES, without=("data/train.bin",))
    make_repo(room.pcs["pc2"].cache, FILES, commit=OTHER, without=("README.md",))
    room.look()
    room.stage.until(lambda: room.there() == {"pc1": "proved", "pc2": "half"}, "both are seen")
    size = sum(map(len, FILES.values()))

    refused = room.ask("stage", node="pc3", source="lab/pc2")
    assert (refused.status, refused.json["code"]) == (409, "data/half")
    assert "lab/pc2 has only half" in refused.json["detail"]
    assert "`data/train.bin` is missing" in refused.json["detail"]
    nowhere = room.ask("stage", data=f"{WORDS[:-1]}f")
    assert (nowhere.status, nowhere.json["code"]) == (404, "data/nowhere")
    for wrong, code in (("imgs@r3", "spec/data-name"), (f"{WORDS[:-41]}@main", "spec/data-rev")):
        assert room.ask("stage", data=wrong).json["code"].startswith(code)
    assert room.ask("stage", node="pc9").json["code"] == "find/node"
    full = room.ask("stage", node="pc3", keep_free_bytes=2**62)
    assert full.json["items"][0]["source"] == "lab/pc1"
    (failed,) = room.copies()
    assert (failed["state"], failed["code"]) == ("failed", "data/no-room")
    assert "stw data rm" in failed["help"]

    begun = room.ask("stage").json["items"]
    assert [one["node"] for one in begun] == ["pc2", "pc3"]
    _, second, third = room.copies()
    for one in (second, third):
        assert (one["state"], one["total_bytes"], one["done_bytes"]) == ("done", size, size)
        assert one["note"] == ""  # straight from the other machine
    room.look()
    room.stage.until(lambda: room.there() == dict.fromkeys(NODES, "proved"), "all have it")
    assert room.ask("stage").json["items"] == []

    task = f"run: x\nresources: {{labels: {{stellwerk/data: '{WORDS}'}}}}\n"
    room.stage.submit(task, overrides={"name": "reads"})
    room.stage.until(lambda: room.stage.driver.started, "the job is started")
    (order,) = room.stage.driver.started
    (rank,) = order.ranks
    assert rank.env["HF_HUB_OFFLINE"] == "1"
    assert rank.env["HF_HUB_CACHE"] == str(room.pcs[rank.node].cache)
    items = room.stage.get("/v1/data").json["items"]
    used = {one["node"]: one["used_by"] for one in items if one["revision"] == COMMIT}
    assert used == {**{name: [] for name in NODES}, rank.node: ["reads"]}
    kept = room.ask("remove")
    assert (kept.status, kept.json["code"]) == (409, "data/in-use")
    assert (
        f"reads uses hf://datasets/lab/words at c0ffeec0ffee on lab/{rank.node}"
        in (kept.json["detail"])
    )
    other = next(name for name in NODES if name != rank.node)
    (gone,) = room.ask("remove", node=other).json
    assert gone["node"] == f"lab/{other}"
    room.look()
    room.stage.until(lambda: len(room.there()) == 2, "it is gone from one")
    assert room.ask("remove", node=other).json["code"] == "data/not-there"


def test_a_machine_that_no_hand_reaches(room: Room) -> None:
    """Is told of, and refused in words for copies to it and from it."""
    make_repo(room.pcs["pc1"].cache, FILES)
    room.look()
    room.stage.until(lambda: room.there() == {"pc1": "proved"}, "it is seen")
    del room.stage.services.checkpoint_home.places["lab/pc3"]  # type: ignore[union-attr]
    assert room.ask("stage", node="pc3").json["code"] == "data/no-way"
    assert room.ask("stage", node="pc2").status == 200
    assert [one["state"] for one in room.copies()] == ["done"]


def test_what_nobody_can_prove_is_passed_on_as_that(room: Room) -> None:
    """Without a list of its files; whoever has it like that isn't refused along with the rest."""
    make_repo(room.pcs["pc1"].cache, FILES, tree=False)
    room.look()
    room.stage.until(lambda: room.there() == {"pc1": "links"}, "it is seen")
    assert [one["node"] for one in room.ask("stage").json["items"]] == ["pc2", "pc3"]
    assert ["can prove it whole" in one["note"] for one in room.copies()] == [True, True]
    room.look()
    room.stage.until(lambda: room.there() == dict.fromkeys(NODES, "links"), "all have it")
    assert room.ask("stage").json["items"] == []
