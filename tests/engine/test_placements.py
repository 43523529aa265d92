"""Placements in a running engine: decided, kept over a kill, replayed, and not told twice."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from stellwerk.core.inventory.live import FleetFacts, Inventory
from stellwerk.core.inventory.merge import Source
from stellwerk.core.model import events as ev
from stellwerk.core.model.cluster import Cluster, ScoreObject, Taint
from stellwerk.core.model.commands import ApplyFleet, Command
from stellwerk.core.model.fleet import ClusterSet, Fleet, SetBinding
from stellwerk.core.model.ids import BlobHash, DecisionId, RunId, WorkloadId
from stellwerk.core.model.placement import Placement, Predicate, Prioritizer, SpreadConstraint
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation
from stellwerk.core.model.selectors import Selector
from stellwerk.core.model.workload import RunEnd
from stellwerk.core.state import State
from stellwerk.engine.clock import SystemClock
from stellwerk.engine.loop import Engine
from stellwerk.engine.placements import Placements
from stellwerk.server.placements import PlacementPages
from stellwerk.server.standing_models import ExplainBody
from stellwerk.store import NewCommand, Store

EVERYTHING = ClusterSet("all", exclusive=False, selector=Selector())
BOUND = Fleet((), sets=(EVERYTHING,), bindings=(SetBinding("lab", "all"),))


def play(story: Coroutine[object, object, None]) -> None:
    """Runs a story to its end, in bounded real time."""
    asyncio.run(asyncio.wait_for(story, 50))


def clusters(chance: Random, count: int = 40) -> tuple[Cluster, ...]:
    """Clusters that differ in labels and scores."""
    return tuple(
        Cluster(
            f"c{number:02}",
            "ocm",
            (),
            labels={"tier": chance.choice(("gold", "iron")), "zone": f"z{number % 3}"},
            scores={"gpu": ScoreObject({"free": chance.randint(-100, 100)})},
        )
        for number in range(count)
    )


def placements() -> tuple[Placement, ...]:
    """Of several kinds, some with equal specs."""
    gold = (Predicate(Selector({"tier": "gold"})),)
    free = (Prioritizer("free", 2, "gpu"), Prioritizer("Balance"), Prioritizer("Steady"))
    spread = (SpreadConstraint("zone", when_unsatisfiable="DoNotSchedule"),)
    return (
        *(Placement("lab", f"same-{n}", count=3, prioritizers=free) for n in range(4)),
        Placement("lab", "gold", predicates=gold, count=2, prioritizers=free),
        Placement("lab", "spread", count=4, spread=spread, prioritizers=free),
        Placement("lab", "expression", predicates=(Predicate(cel=(EXPRESSION,)),)),
        Placement("lab", "ocm", count=3, prioritizers=free, compat="ocm"),
    )


EXPRESSION = 'managedCluster.metadata.labels["tier"] == "iron"'


class Desk:
    """An engine without drivers over a store, that can be killed and started again."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = Store.open(home)
        self.engine: Engine
        self.task: asyncio.Task[None]

    async def start(self) -> None:
        """Starts on what is durable."""
        self.engine = Engine(self.store, [], SystemClock())
        await self.engine.load()
        self.task = asyncio.create_task(self.engine.run())
        await self.engine.decided(30)

    async def kill(self) -> None:
        """Takes it away in the middle of whatever it does."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
        self.store.close()
        self.store = Store.open(self.home)

    async def put(self, command: Command) -> None:
        """Has a command carried out, with all that follows."""
        future = self.store.put_commands([NewCommand("ada", "default", "", command)], 1)
        [ack] = await asyncio.wrap_future(future)
        self.engine.notify()
        seq = 0
        while self.store.inbox_upto() < ack.seq:
            seq = await self.engine.changed(seq, 1)
        await self.engine.decided(30)

    async def apply(self, fleet: Fleet, policies: tuple[Placement, ...] = ()) -> None:
        """Applies a file."""
        source = Source("lab.yaml", "declared", replace(BOUND, clusters=fleet.clusters), 5)
        facts = self.store.blobs.put(msgspec.json.encode(FleetFacts((source,))))
        await self.put(ApplyFleet("lab.yaml", BlobHash(facts), BlobHash(facts), 1, policies))

    def chosen(self) -> dict[str, tuple[str, ...]]:
        """What each placement has."""
        standing = self.engine.state.standing.placements
        return {key: one.decided.clusters for key, one in standing.items() if one.decided}

    def sets(self) -> dict[str, list[str]]:
        """What each placement has, whatever the order: that may be renewed by a restart."""
        return {key: sorted(names) for key, names in self.chosen().items()}

    def decisions(self) -> list[ev.PlacementDecided]:
        """All that were journaled."""
        records = self.store.records()
        return [r.event for r in records if isinstance(r.event, ev.PlacementDecided)]


def changed(chance: Random, now: tuple[Cluster, ...]) -> tuple[Cluster, ...]:
    """The fleet with some scores, labels, taints or clusters that are others."""
    found = list(now)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(found))
        match chance.randrange(6):
            case 0:
                taints = chance.choice(((), (Taint("gone", "NoSelect"),)))
                found[at] = replace(found[at], taints=taints)
            case 1:
                tier = chance.choice(("gold", "iron"))
                found[at] = replace(found[at], labels={**found[at].labels, "tier": tier})
            case 2 if len(found) > 30:
                del found[at]
            case 3:
                found[at:at] = [replace(found[at], name=f"{found[at].name}-{len(found)}")]
            case _:
                score = ScoreObject({"free": chance.randint(-100, 100)})
                found[at] = replace(found[at], scores={"gpu": score})
    return tuple(found)


@pytest.mark.parametrize("seed", range(4))
def test_every_decision_comes_out_again_from_what_was_stored(tmp_path: Path, seed: int) -> None:
    """Whatever changes between them, and though the engine is killed once."""

    async def story() -> None:
        chance = Random(seed)
        desk = Desk(tmp_path)
        await desk.start()
        fleet = clusters(chance)
        await desk.apply(Fleet(fleet), placements())
        assert len(desk.chosen()) == len(placements())
        for step in range(8):
            fleet = changed(chance, fleet)
            await desk.apply(Fleet(fleet))
            if step == 4:
                before = desk.sets()
                await desk.kill()
                await desk.start()
                assert desk.sets() == before
        pages = PlacementPages(desk.store)
        made = desk.decisions()
        assert len(made) > len(placements())
        for one in made:
            replayed = pages.replay(one.decided.decision)
            assert replayed.identical, (one.key, replayed.differences)
            assert tuple(replayed.then) == one.decided.clusters
        await desk.kill()
        desk.store.close()

    play(story())


def test_what_changes_no_decision_is_not_journaled(tmp_path: Path) -> None:
    """A score that moves nobody, the same file again, and a restart write no decision."""

    async def story() -> None:
        desk = Desk(tmp_path)
        await desk.start()
        fleet = clusters(Random(7))
        free = (Prioritizer("free", 2, "gpu"),)
        plain = tuple(Placement("lab", f"p{n}", count=n, prioritizers=free) for n in range(5))
        await desk.apply(Fleet(fleet), plain)
        made = len(desk.decisions())
        worst = min(fleet, key=lambda one: one.scores["gpu"].values["free"])
        told = Cluster(worst.name, "", (), scores={"cpu": ScoreObject({"free": -100})})
        seq = desk.engine.seq
        source = Source("scores", "told", Fleet((told,)), 6, whole=False)
        desk.engine.placements.tell("gpu", source)
        await desk.engine.decided(30)
        assert desk.engine.seq == seq
        await desk.apply(Fleet(fleet), plain)
        await desk.kill()
        await desk.start()
        assert len(desk.decisions()) == made
        await desk.kill()
        desk.store.close()

    play(story())


def test_a_broken_placement_keeps_its_last_good_decision(tmp_path: Path) -> None:
    """It says so, and is decided again when it is mended; compat ocm does as the reference."""

    async def story() -> None:
        desk = Desk(tmp_path)
        await desk.start()
        good = Placement("lab", "p", count=2)
        await desk.apply(Fleet(clusters(Random(3))), (good,))
        before = desk.chosen()["lab/p"]
        broken = replace(good, predicates=(Predicate(cel=("nonsense(",)),))
        await desk.put(ApplyFleet("b", BlobHash("b" * 64), _empty(desk), 0, (broken,)))
        now = desk.engine.state.standing.placements["lab/p"].decided
        assert now is not None
        assert (now.clusters, now.kept) == (before, True)
        [wrong] = [one for one in now.conditions if one.type == "PlacementMisconfigured"]
        assert wrong.status == "True"
        strict = replace(broken, compat="ocm")
        await desk.put(ApplyFleet("b", BlobHash("c" * 64), _empty(desk), 0, (strict,)))
        assert desk.chosen()["lab/p"] == ()
        await desk.put(ApplyFleet("b", BlobHash("d" * 64), _empty(desk), 0, (good,)))
        assert desk.chosen()["lab/p"] == before
        await desk.kill()
        desk.store.close()

    play(story())


def test_a_taint_for_newcomers_is_told_to_newcomers_alone(tmp_path: Path) -> None:
    """Of a cluster that was there already only what made it leave is told."""

    async def story() -> None:
        desk = Desk(tmp_path)
        await desk.start()
        gold = Placement("lab", "p", count=1, predicates=(Predicate(Selector({"tier": "gold"})),))
        taints = (Taint("closing", "NoSelectIfNew"),)
        mine, other = (Cluster(name, "ocm", (), labels={"tier": "gold"}) for name in ("a", "b"))
        await desk.apply(Fleet((mine, other)), (gold,))
        assert desk.chosen() == {"lab/p": ("a",)}
        mine = replace(mine, labels={"tier": "iron"}, taints=taints)
        await desk.apply(Fleet((mine, other, replace(mine, name="c"))))
        assert desk.chosen() == {"lab/p": ("b",)}
        told = PlacementPages(desk.store).explain("lab/p", ExplainBody())
        rules = {one.cluster: [rule.filter for rule in one.failed] for one in told.candidates}
        assert rules == {"b": [], "a": ["Predicate"], "c": ["Predicate", "TaintToleration"]}
        await desk.kill()
        desk.store.close()

    play(story())


def _empty(desk: Desk) -> BlobHash:
    return BlobHash(desk.store.blobs.put(msgspec.json.encode(FleetFacts(()))))


def test_a_fault_in_deciding_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decided stays, and with the next change everything is decided again."""

    async def story() -> None:
        from stellwerk.engine import deciding

        desk = Desk(tmp_path)
        await desk.start()
        fleet = clusters(Random(3))
        await desk.apply(Fleet(fleet), (Placement("lab", "p", count=1),))
        [before] = desk.chosen()["lab/p"]

        def broken(*_: object) -> None:
            raise RuntimeError("a fault of ours")

        gone = tuple(one for one in fleet if one.name != before)
        with monkeypatch.context() as patch:
            patch.setattr(deciding.Decider, "answers", broken)
            await desk.apply(Fleet(gone))
        assert desk.chosen()["lab/p"] == (before,)
        await desk.apply(Fleet(gone[1:]))
        assert desk.chosen()["lab/p"] != (before,)
        await desk.kill()
        desk.store.close()

    play(story())


def test_a_fault_in_reading_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was declared when it failed is read with the next change, though it says nothing new."""

    async def story() -> None:
        desk = Desk(tmp_path)
        await desk.start()
        fleet = Fleet(clusters(Random(3)))
        one, other = Placement("lab", "one", count=1), Placement("lab", "other", count=1)

        def broken(*_: object) -> None:
            raise RuntimeError("a fault of ours")

        with monkeypatch.context() as patch:
            patch.setattr(Inventory, "say_file", broken)
            await desk.apply(fleet, (one,))
        assert desk.chosen() == {}
        await desk.apply(fleet, (one, other))
        assert [len(chosen) for chosen in desk.chosen().values()] == [1, 1]
        await desk.kill()
        desk.store.close()

    play(story())


def test_a_run_concerns_its_own_cluster_alone(tmp_path: Path) -> None:
    """Its start and its end, also of one that ran before the engine started."""
    store, state = Store.open(tmp_path), State()
    held = Allocation("b", ())
    state.clusters = {name: Cluster(name, "ssh", ()) for name in ("a", "b", "c")}
    state.allocations = {"b": {RunId("old-1"): held}}
    placements = Placements(store, SystemClock(), lambda _: None)
    placements.adopt(state)
    placements._work()
    ended = ev.RunEnded(RunId("old-1"), RunEnd(how="exited", code=0), Reason("done"))
    placements.keep_up([ended], 1)
    assert list(placements._dirty) == ["b"]
    placements._work()
    new = RunId("new-1")
    placements.keep_up([ev.RunPlanned(WorkloadId("w"), new, 1, held, DecisionId("d"))], 2)
    placements._work()
    placements.keep_up([replace(ended, run=new)], 3)
    assert list(placements._dirty) == ["b"]
    store.close()


def test_old_decisions_go_and_what_is_kept_still_comes_out_again(tmp_path: Path) -> None:
    """The last of each stays; what is decided afterwards has all its parts, though some went."""

    async def story() -> None:
        chance = Random(5)
        desk = Desk(tmp_path)
        await desk.start()
        fleet = first = clusters(chance)
        await desk.apply(Fleet(fleet), placements())
        for _ in range(3):
            fleet = changed(chance, fleet)
            await desk.apply(Fleet(fleet))
        parts = len(desk.store.part_ids())
        later_ms = max(record.at_ms for record in desk.store.records()) + 1
        gone = await asyncio.to_thread(desk.engine.placements.prune, later_ms)
        assert gone > 0
        assert 0 < len(desk.store.part_ids()) < parts
        await desk.apply(Fleet(first))
        await desk.apply(Fleet(changed(chance, first)))
        pages = PlacementPages(desk.store)
        for one in desk.store.placements():
            assert one.decided is not None
            [newest] = desk.store.placement_history(one.placement.key, 1)
            assert newest.id == one.decided.decision
            assert pages.replay(newest.id).then == list(one.decided.clusters)
            if newest.at_ms >= later_ms:
                assert pages.replay(newest.id).identical
        assert await asyncio.to_thread(desk.engine.placements.prune, 0) == 0
        await desk.kill()
        desk.store.close()

    play(story())
