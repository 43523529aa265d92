"""One fleet of many sources, merged anew only where somebody spoke anew."""

from random import Random

import pytest

from stellwerk.core.inventory.health import UNREACHABLE
from stellwerk.core.inventory.live import Inventory
from stellwerk.core.inventory.merge import Source, Trust, merge
from stellwerk.core.model.cluster import Cluster, Taint
from stellwerk.core.model.fleet import ClusterSet, Fleet, Link, SetBinding, Told
from stellwerk.core.model.resources import Allocation, NodeAllocation
from stellwerk.core.model.selectors import Selector

NAMES = ("a", "b", "c", "d")


def a_source(dice: Random, number: int) -> Source:
    """Somebody who speaks of some clusters, and of what is around them."""
    found = [
        Cluster(name, dice.choice(("", "ssh")), (), labels={f"l{number}": str(dice.randrange(3))})
        for name in NAMES
        if dice.random() < 0.6
    ]
    around = Fleet(
        tuple(found),
        sets=(ClusterSet(f"s{dice.randrange(3)}"),) if dice.random() < 0.3 else (),
        links=(Link("a", "b", float(number + 1)),) if dice.random() < 0.3 else (),
        taken=tuple(
            Allocation(one.name, (NodeAllocation("n", 1000 + number),))
            for one in found
            if dice.random() < 0.3
        ),
    )
    trust: Trust = dice.choice(("declared", "told"))
    return Source(f"source {number}", trust, around, number, whole=dice.random() < 0.8)


@pytest.mark.parametrize("seed", range(30))
def test_it_is_what_merging_everything_at_once_gives(seed: int) -> None:
    """After each change of some source, and what has changed is told exactly."""
    dice = Random(seed)
    inventory = Inventory()
    said: dict[str, Source] = {}
    known: dict[str, object] = {}
    for _ in range(12):
        key = f"file/{dice.randrange(4)}"
        source = a_source(dice, dice.randrange(9)) if dice.random() < 0.8 else None
        inventory.say(key, source)
        said.pop(key, None)
        if source is not None:
            said[key] = source
        inventory.refresh()
        whole = merge([said[each] for each in sorted(said)])
        fleet = inventory.fleet()
        assert fleet.clusters == whole.clusters
        taken = tuple(one for one in whole.taken if one.cluster in inventory.rows)
        assert [fleet.taken, fleet.links, fleet.told] == [taken, whole.links, whole.told]
        now = {name: (row.cluster, row.taken) for name, row in inventory.rows.items()}
        assert set(inventory.gone) == set(known) - set(now)
        assert set(inventory.changed) == {n for n in now if known.get(n) != now[n]}
        known = dict(now)
        inventory.seen()
    twin = inventory.copy()
    twin.refresh()
    assert twin.fleet() == inventory.fleet()


def test_a_file_that_says_less_is_taken_at_its_word() -> None:
    """Its old voices say nothing any more; others go on."""
    inventory = Inventory()
    two = [Source(name, "declared", Fleet((Cluster(name, "", ()),))) for name in ("a", "b")]
    inventory.say_file("x.yaml", two)
    inventory.say_file("y.yaml", two[:1])
    inventory.refresh()
    assert list(inventory.rows) == ["a", "b"]
    inventory.say_file("x.yaml", two[:1])
    inventory.refresh()
    assert (list(inventory.rows), list(inventory.gone)) == (["a"], ["b"])


def test_where_nobody_bound_a_set_namespaces_may_choose_from_all() -> None:
    """What is bound to others doesn't matter to them; what is bound to them does."""
    inventory = Inventory()
    inventory.probed(Cluster("a", "local", ()), (), 1)
    inventory.refresh()
    fleet = inventory.fleet(("lab",))
    assert fleet.bindings == (SetBinding("lab", "global", implied=True),)
    assert fleet.sets == (ClusterSet("global", exclusive=False, selector=Selector()),)
    bound = Fleet((), sets=(ClusterSet("s"),), bindings=(SetBinding("other", "s"),))
    inventory.say("file/z", Source("z", "declared", bound))
    inventory.refresh()
    assert inventory.fleet(("lab", "other")).bindings == (
        *bound.bindings,
        SetBinding("lab", "global", implied=True),
        SetBinding("lab", "s", implied=True),
    )
    assert inventory.fleet(("other",)).bindings == bound.bindings


def test_a_cluster_that_is_silent_is_unreachable_until_it_is_heard_again() -> None:
    """From the very moment at which its lease has run out, and nothing else is merged for that."""
    inventory = Inventory()
    quiet = Cluster("quiet", "ocm", (), available="True", lease_s=60)
    other = Cluster("other", "ocm", (), available="True")

    def renewed(at_ms: int) -> Source:
        told = {"quiet": {"lease": Told("Lease", at_ms)}}
        return Source("hub", "told", Fleet((quiet, other), told=told), at_ms)

    inventory.say("hub", renewed(1_000_000))
    inventory.at(1_299_999)
    inventory.refresh()
    assert inventory.rows["quiet"].cluster == quiet
    assert inventory.next_lapse_ms() == 1_300_000
    inventory.seen()
    inventory.at(1_300_000)
    inventory.refresh()
    assert list(inventory.changed) == ["quiet"]
    silent = inventory.rows["quiet"]
    assert silent.cluster.available == "Unknown"
    assert silent.cluster.taints == (Taint(UNREACHABLE, "NoSelect", added_ms=1_300_000),)
    assert silent.told["available"] == Told("Lease", 1_300_000)
    assert inventory.next_lapse_ms() == 0
    twin = inventory.copy()
    twin.refresh()
    assert twin.rows == inventory.rows
    inventory.say("hub", renewed(1_400_000))
    inventory.refresh()
    assert inventory.rows["quiet"].cluster == quiet
    assert inventory.next_lapse_ms() == 1_700_000
