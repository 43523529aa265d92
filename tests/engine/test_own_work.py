"""What a placement's own work holds is no reason for it to leave, and counts against others."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.inventory.live import FleetFacts, Inventory
from stellwerk.core.inventory.merge import Source
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.commands import ApplyFleet
from stellwerk.core.model.fleet import ClusterSet, Fleet, SetBinding
from stellwerk.core.model.ids import BlobHash
from stellwerk.core.model.placement import Placement, Predicate
from stellwerk.core.model.resources import Allocation
from stellwerk.core.model.selectors import Selector
from stellwerk.core.model.standing import Inputs, Standing, StoredDecision
from stellwerk.drivers.simulated.behaviour import Behaviour, always
from stellwerk.engine.deciding import Decider
from stellwerk.engine.kept_facts import needed_parts
from stellwerk.server.placements import PlacementPages
from stellwerk.server.standing_models import ExplainBody
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape, an_allocation
from tests.engine.stage import Stage

DAY_MS = 86_400_000
EVERYTHING = ClusterSet("all", exclusive=False, selector=Selector())
BOUND = Fleet((), sets=(EVERYTHING,), bindings=(SetBinding("team", "all"),))
PAIR = a_request(gpus=2)
LAB, OTHER = (a_cluster(name, a_node("n1", gpus=2)) for name in ("lab", "other"))


def asking(name: str, request: str = "gpus") -> Placement:
    """One cluster with two GPUs free, the first by name if there are several."""
    demand = PAIR if request else None
    return Placement("team", name, count=1, demand=demand)


class TwoClusters(Stage):
    """A cluster that runs work, and another that is only declared."""

    async def apply(self, *policies: Placement) -> None:
        """Applies both clusters and placements over them."""
        declared = replace(OTHER, driver="ocm")
        source = Source("lab.yaml", "declared", replace(BOUND, clusters=(declared,)), 5)
        facts = BlobHash(self.store.blobs.put(msgspec.json.encode(FleetFacts((source,)))))
        await self.put(ApplyFleet("lab.yaml", facts, facts, 1, policies))
        await self.settle()

    async def settle(self) -> None:
        """Until what is known is decided on."""
        assert self.engine is not None
        await self.pass_ms(1000)
        await self.engine.decided(30)

    async def until(self, *runs: str) -> None:
        """Until these workloads hold something, and no others."""
        assert self.engine is not None
        for _ in range(500):
            await self.pass_ms(1000)
            if sorted(run.rsplit("-", 1)[0] for run in self.held()) == sorted(runs):
                await self.engine.decided(30)
                return
        raise AssertionError(f"{self.held()} hold something")

    def held(self) -> list[str]:
        """The runs that hold something on the cluster here."""
        assert self.engine is not None
        return list(self.engine.state.allocations.get("lab", {}))

    def chosen(self, name: str) -> tuple[str, ...]:
        """What a placement has."""
        assert self.engine is not None
        decided = self.engine.state.standing.placements[f"team/{name}"].decided
        return decided.clusters if decided else ()


def test_a_placement_stays_where_its_own_work_takes_all(tmp_path: Path) -> None:
    """Over a restart too; another's work there sends it away, and all comes out again."""

    async def story() -> None:
        stage = TwoClusters(
            tmp_path,
            script=always(Behaviour(run_ms=DAY_MS)),
            cluster=LAB,
        )
        await stage.revive()
        await stage.settle()
        await stage.apply(asking("mine"))
        assert stage.chosen("mine") == ("lab",)
        await stage.submit(a_shape(PAIR, placement="team/mine"))
        await stage.until("w-00001")
        await stage.apply(asking("mine"), asking("late"))
        assert (stage.chosen("mine"), stage.chosen("late")) == (("lab",), ("other",))
        await stage.kill()
        engine = await stage.revive()
        await stage.settle()
        await stage.apply(asking("mine"), asking("late"), asking("later"))
        assert (stage.chosen("mine"), stage.chosen("later")) == (("lab",), ("other",))
        changed = replace(asking("mine"), predicates=(Predicate(Selector()),))
        await stage.apply(changed)
        assert stage.chosen("mine") == ("lab",)
        pages = PlacementPages(stage.store)
        _all_come_out_again(pages, "team/mine", "team/late", "team/later")
        fleet, own = engine.placements.fleet(["team"]), engine.placements.own("team/mine")
        assert [one.cluster for one in own] == ["lab"]
        body = ExplainBody(changes=["lose other"])
        asked = pages.what_if("team/mine", body, fleet, stage.virtual.now_ms, own)
        assert asked.clusters == ["lab"]
        assert pages.what_if("team/late", body, fleet, stage.virtual.now_ms).clusters == []
        past = pages.history("team/mine", 50).items
        assert [one.clusters for one in past] == [["lab"]] * len(past)
        await _replaced_by_anothers_work(stage)
        _all_come_out_again(pages, "team/mine", "team/late", "team/later")
        await stage.kill()
        stage.store.close()

    asyncio.run(asyncio.wait_for(story(), 50))


async def _replaced_by_anothers_work(stage: TwoClusters) -> None:
    await stage.cancel("w-00001")
    await stage.until()
    await stage.submit(a_shape(PAIR))
    await stage.until("w-00002")
    assert stage.chosen("mine") == ("other",)
    assert stage.engine is not None
    assert stage.engine.placements.own("team/mine") == ()


def _all_come_out_again(pages: PlacementPages, *keys: str) -> None:
    stored = [one for key in keys for one in pages.history(key, 50).items]
    assert len(stored) > len(keys)
    for one in stored:
        replayed = pages.replay(one.decision)
        assert replayed.identical, replayed.differences


class Held:
    """A decider over clusters with two GPUs each."""

    def __init__(self, *names: str) -> None:
        self.inventory = Inventory()
        self.clusters = {name: a_cluster(name, a_node("n1", gpus=2)) for name in names}
        listed = tuple(self.clusters.values())
        self.inventory.say("lab", Source("lab", "declared", replace(BOUND, clusters=listed)))
        self.decider = Decider(self.inventory)

    def take(self, cluster: Cluster, *taken: Allocation) -> None:
        """Lets allocations hold something."""
        self.inventory.probed(cluster, taken, 1)


def _full(cluster: str, cpus: float = 1) -> Allocation:
    return an_allocation(cluster, cpus=cpus, devices={0: 40, 1: 40})


def test_what_is_held_is_told_of_placements_that_ask_for_room_alone() -> None:
    """It is a stored part of the decision that needs it; a spec that asks no more needs none."""
    world = Held("lab", "other")
    world.decider.hold({"team/mine": (_full("lab"),)})
    world.take(world.clusters["lab"], _full("lab"))
    world.decider.apply([Standing(asking("mine"))], (), ())
    [made] = world.decider.answers(1000)
    inputs = msgspec.msgpack.decode(made.data, type=StoredDecision).inputs
    assert made.answer.decided.clusters == ("lab",)
    assert inputs.own in made.parts
    world.decider.apply([Standing(asking("mine", ""), version=2)], (), ())
    [made] = world.decider.answers(2000)
    assert msgspec.msgpack.decode(made.data, type=StoredDecision).inputs.own == ""


def test_a_decision_of_before_reads_on() -> None:
    """One that says nothing of own work was made without it."""
    old = {"spec": "a", "facts": "b", "now_ms": 1, "looked_ms": 1, "core_version": "0"}
    assert msgspec.convert(old, Inputs).own == ""


def test_parts_with_own_work_are_needed() -> None:
    """Tidying away old decisions leaves what those that stay refer to."""
    world = Held("lab")
    world.take(world.clusters["lab"], _full("lab"))
    world.decider.hold({"team/mine": (_full("lab"),)})
    world.decider.apply([Standing(asking("mine"))], (), ())
    [made] = world.decider.answers(1000)

    class Parts:
        """What was made alone."""

        def parts(self, ids: Iterable[str]) -> dict[str, bytes]:
            """Those asked for."""
            return {id: made.parts[id] for id in ids}

    assert sorted(needed_parts(Parts(), [made.data])) == sorted(made.parts)


@given(st.lists(st.sampled_from(["mine", "theirs", "none"]), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_only_what_others_hold_counts(holders: list[str]) -> None:
    """Told one after the other or all at once, the choice is the one among those not full of
    others.
    """
    names = [f"c{number}" for number in range(len(holders))]
    stepwise, at_once = Held(*names), Held(*names)
    own = tuple(_full(name) for name, who in zip(names, holders, strict=True) if who == "mine")
    stepwise.decider.apply([Standing(asking("mine"))], (), ())
    list(stepwise.decider.answers(1000))
    for name, who in zip(names, holders, strict=True):
        for world in (stepwise, at_once):
            if who != "none":
                world.take(world.clusters[name], _full(name, 1 if who == "mine" else 2))
        stepwise.decider.hold({"team/mine": tuple(one for one in own if one.cluster <= name)})
        list(stepwise.decider.answers(2000))
    at_once.decider.hold({"team/mine": own})
    at_once.decider.apply([Standing(asking("mine"))], (), ())
    [made] = at_once.decider.answers(3000)
    open_to = [name for name, who in zip(names, holders, strict=True) if who != "theirs"]
    assert made.answer.decided.clusters == tuple(open_to[:1])
    standing = stepwise.decider._standing["team/mine"].decided
    assert standing is not None
    assert [name in open_to for name in standing.clusters] == [True] * min(1, len(open_to))
