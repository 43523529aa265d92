"""What machines hold, from what was found in their hub caches; and what estimates make of it."""

from typing import Any

from stellwerk.core.data import Catalogue, Grounds, estimate_all, profile_of
from stellwerk.core.inventory.caches import STEP_BYTES, held_by_all, held_of
from stellwerk.core.inventory.facts import cluster_of, material_change
from stellwerk.core.model.cluster import Cluster, Node
from stellwerk.core.model.fleet import Data, Fleet

WORDS = "hf://datasets/lab/words"
COMMIT = "c0ffee" * 6 + "0123"
GB = 10**9


def facts(whole: str = "proved", held: int = 20 * GB, missing: int | None = 0) -> dict[str, Any]:
    """What a machine tells that has one commit of a data set."""
    one = {"whole": whole, "bytes": held, "missing_bytes": missing, "refs": ["main"], "lacks": []}
    repo = {"name": WORDS, "commits": {COMMIT: one}, "partial_bytes": 3}
    return {"cpus": 4, "memory_bytes": GB, "hub": {"folder": "/hf/hub", "repos": [repo]}}


def cluster(name: str, told: dict[str, Any]) -> Cluster:
    """A cluster that is one machine."""
    return cluster_of(told, name=name, driver="ssh")


def test_a_machine_holds_what_its_cache_has() -> None:
    """By name and commit, with where it lies; a machine that tells nothing holds nothing."""
    (one,) = cluster("a", facts()).held
    assert (one.data, one.revision, one.bytes, one.missing_bytes) == (WORDS, COMMIT, 20 * GB, 0)
    assert (one.whole, one.place, one.refs) == ("proved", "/hf/hub", ("main",))
    for nothing in ({}, {"hub": None}, {"hub": {"folder": "/x", "repos": []}}):
        assert held_of(nothing) == ()


def test_a_download_makes_no_new_picture_until_it_matters() -> None:
    """Its bytes are told in steps; that something is whole is told at once."""
    before = cluster("a", facts("half", STEP_BYTES, 20 * GB))
    same = cluster("a", facts("half", STEP_BYTES + 10**6, 20 * GB - 10**6))
    more = cluster("a", facts("half", 2 * STEP_BYTES, 20 * GB - STEP_BYTES))
    assert [material_change(before, one) for one in (same, more)] == [False, True]
    assert material_change(before, cluster("a", facts()))
    assert before.held[0].missing_bytes == 20 * GB


def test_a_room_holds_what_all_of_its_machines_have_whole() -> None:
    """One that can't be reached isn't asked; where one has only half, the room hasn't it."""
    whole, half = held_of(facts()), held_of(facts("half"))

    def node(name: str, held: Any = (), state: Any = "ready") -> Node:
        return Node(name, 1, 1, held=held, state=state)

    a, b, c = node("a", whole), node("b", whole), node("c", half)
    assert held_by_all([a, b]) == whole
    assert held_by_all([a, b, node("d", state="unreachable")]) == whole
    assert held_by_all([a, b, c]) == held_by_all([a, node("e")]) == ()
    assert held_by_all([c]) == half
    assert held_by_all([node("d", state="unreachable"), node("d", state="unreachable")]) == ()


def test_work_is_over_first_where_its_data_is() -> None:
    """Whoever lacks it fetches it by itself: not refused, but nobody knows how long that takes."""
    fleet = Fleet((cluster("has", facts()), cluster("part", facts("half", 5 * GB, 15 * GB)),
                   cluster("none", {"cpus": 4, "memory_bytes": GB})))  # fmt: skip
    grounds = Grounds(fleet)
    job, wrong = profile_of(grounds.catalogue, data=[f"{WORDS}@{COMMIT}"], runtime_ms=3_600_000)
    assert wrong == ()
    has, part, none = estimate_all(job, grounds, fleet.clusters, 0)
    assert [one.admitted for one in (has, part, none)] == [True, True, True]
    assert [one.missing.value for one in (has, part, none)] == [0, 15.0 * GB + 5 * GB % STEP_BYTES,
                                                                20 * GB]  # fmt: skip
    assert (has.start.value, part.start.value, none.finish.value) == (0, None, None)


def test_nobody_knows_how_much_a_revision_is_that_nobody_has() -> None:
    """Then how much is missing is unknown too, and never nothing."""
    fleet = Fleet((cluster("none", {"cpus": 4, "memory_bytes": GB}),))
    job, wrong = profile_of(Grounds(fleet).catalogue, data=[f"{WORDS}@{COMMIT}"])
    (one,) = estimate_all(job, fleet, fleet.clusters, 0)
    assert (wrong, one.admitted) == ((), True)
    assert (one.missing.value, one.start.value) == (None, None)


def test_a_declared_data_set_is_held_by_its_origin() -> None:
    """A name in a fleet file stands for the repository that it names as its origin."""
    words = Data("words", COMMIT, 20 * GB, origin=WORDS)
    one = Catalogue((words,)).held(cluster("a", facts()), words)
    assert one.found_bytes == 20 * GB
