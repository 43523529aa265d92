"""Quotas that follow from what the clusters have: by label, by weight, live."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.describe.queues import read_queues
from stellwerk.core.model import events as ev
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.queueing import (
    ClusterQueue,
    FlavorQuotas,
    Pair,
    QueueObjects,
    Quota,
    ResourceFlavor,
    ResourceGroup,
)
from stellwerk.core.place.derived import Deriving, derived, shared
from stellwerk.core.queue.tree import pairs_of
from stellwerk.core.queueing_objects import queueing_now
from stellwerk.core.queueing_quota import quota_of
from stellwerk.core.what_if import with_quota
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import GPU, a_queue, queueing

ONE = a_shape(a_request(cpus=1))


def deriving(name: str, *resources: str, weight: float = 1.0, cohort: str = "") -> ClusterQueue:
    """A queue that derives its quota of the flavor `std`."""
    quotas = {one: Quota(0, derived=True) for one in resources or ("cpu",)}
    group = ResourceGroup(tuple(quotas), (FlavorQuotas("std", quotas),))
    queue = a_queue(name, 0, cohort=cohort, weight=weight)
    return replace(queue, groups=(group,))


def lab(*cpus: int, state: str = "ready") -> Cluster:
    """A cluster of such nodes; the last one is in a state."""
    nodes = [a_node(f"n{i}", cpus=one, memory_gib=8, gpus=1) for i, one in enumerate(cpus)]
    nodes[-1] = replace(nodes[-1], state=state)
    return a_cluster("lab", *nodes)


def own(objects: QueueObjects, name: str, resource: str = "cpu") -> int:
    """What a queue has by itself."""
    queue = next(one for one in objects.queues if one.name == name)
    return dict(pairs_of(queue.groups))[Pair("std", resource)].nominal


def test_what_is_left_of_the_nodes_is_shared_by_weight() -> None:
    """Numbers of others come first; nodes that are kept free, or lack the label, don't count."""
    heavy, light = deriving("heavy", "cpu", GPU, weight=2), deriving("light", "cpu", GPU)
    objects = queueing(heavy, light, a_queue("fixed", 4))
    found = derived(objects, [lab(8, 8, 3, state="unreachable")])
    assert (own(found, "heavy"), own(found, "light")) == (10_000, 5_000)
    assert (own(found, "heavy", GPU), own(found, "light", GPU)) == (2_000, 1_000)
    assert own(derived(objects, [lab(8, 8, state="drained")]), "light") == 4_000 // 3
    assert own(derived(objects, [lab(3)]), "light") == 0, "less than the numbers: nothing is left"
    labelled = replace(objects, flavors=(ResourceFlavor("std", labels={"rack": "r1"}),))
    near, far = lab(8), replace(lab(8), name="far", labels={"rack": "r1"})
    assert own(derived(labelled, [near]), "heavy") == 0
    node = replace(near.nodes[0], domains={"rack": "r1"})
    assert own(derived(labelled, [replace(near, nodes=(node,)), far]), "heavy") == 8_000
    assert derived(found, [lab(8, 8, 3)]) == found, "deriving again gives the same"


@given(
    st.integers(0, 100_000),
    st.lists(st.floats(0, 10, allow_nan=False), min_size=1, max_size=6),
    st.sampled_from([1, 1000]),
)
def test_all_of_it_is_shared_in_whole_units(amount: int, weights: list[float], unit: int) -> None:
    """Nothing is lost but what is less than a unit, and who weighs more never has less."""
    queues = [deriving(f"q{i}", weight=one) for i, one in enumerate(weights)]
    parts = shared(amount, queues, unit)
    assert sum(parts.values()) == amount // unit * unit
    assert all(part >= 0 and part % unit == 0 for part in parts.values())
    ordered = sorted((one.weight, parts[one.name]) for one in queues)
    assert all(b[1] + unit >= a[1] for a, b in pairwise(ordered))


def test_it_follows_the_clusters_and_only_material_changes_count() -> None:
    """A node that comes lets more start; one that goes ends nothing; nothing else makes news."""
    hall = Hall(lab(2))
    hall.apply(queueing(deriving("team", cohort="all"), deriving("other", cohort="all")))
    keys = [hall.submit(ONE, queue="team") for _ in range(4)]
    assert hall.settle() == keys[:2], "one of its own, and one that is lent"
    hall.fold([ev.ClusterObserved(lab(2, 4))])
    assert hall.settle() == keys[2:]
    cohort, *_, team = quota_of(queueing_now(hall.state).objects, queueing_now(hall.state).live)
    assert (cohort.pairs[0].quota, cohort.pairs[0].derived) == (6_000, False)
    assert (team.name, team.pairs[0].nominal, team.pairs[0].derived) == ("team", 3_000, True)
    hall.fold([ev.ClusterObserved(lab(2, 4, state="drained"))])
    late = hall.submit(ONE, queue="team")
    assert hall.settle() == []
    assert len(hall.running()) == 4, "quota below what is used ends nothing"
    assert hall.told(late) == ["queue_quota"] or hall.told(late) == ["queue_exceeds"]
    known, objects, cluster = Deriving(), hall.state.queueing.objects, lab(2, 4)
    first = known.of(objects, [cluster])
    assert known.of(objects, [replace(cluster, labels={"seen": "again"})]) is first
    assert known.of(objects, [lab(2, 5)]) is not first
    plain = queueing(a_queue("team", 1))
    assert known.of(plain, [cluster]) is plain


def test_a_supposed_number_takes_the_place_of_what_is_derived() -> None:
    """`+1` is beside what it derives now; the others share what is left."""
    hall = Hall(lab(8))
    hall.apply(queueing(deriving("team"), deriving("other")))
    after = with_quota(hall.view(), ["team", "std", "cpu=+2"]).queueing
    assert after is not None
    found = derived(after, [lab(8)])
    assert (own(found, "team"), own(found, "other")) == (6_000, 2_000)


def test_the_annotation_is_read_and_the_object_stays_one_of_kueue() -> None:
    """What is written for Kueue stays; what nodes don't tell keeps its number, with a note."""
    quotas = "resources: [{name: cpu, nominalQuota: 3}, {name: pods, nominalQuota: 9}]"
    groups = f"[{{coveredResources: [cpu, pods], flavors: [{{name: std, {quotas}}}]}}]"
    text = (
        "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: team, "
        f"annotations: {{stellwerk/quota: WORD}}}}, spec: {{resourceGroups: {groups}}}}}"
    )
    read = read_queues([("q.yaml", text.replace("WORD", "derived"))])
    [queue] = read.require().objects.queues
    assert dict(pairs_of(queue.groups)) == {
        Pair("std", "cpu"): Quota(3_000, derived=True),
        Pair("std", "pods"): Quota(9_000),
    }
    assert any("`pods`" in one.message for one in read.notices)
    [fault] = read_queues([("q.yaml", text.replace("WORD", "guessed"))]).problems
    assert (fault.code, fault.path) == ("queue/derived", "metadata.annotations.stellwerk/quota")
