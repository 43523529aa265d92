"""How a cluster is at a moment, from its own word and its silence."""

from stellwerk.core.inventory.health import (
    UNAVAILABLE,
    UNREACHABLE,
    at_moment,
    fleet_at,
    health_of,
    lapses_ms,
    next_lapse_ms,
)
from stellwerk.core.model.cluster import Cluster, Taint
from stellwerk.core.model.fleet import Fleet, Told

RENEWED = 1_000_000
LAPSE = RENEWED + 300_000
LEASE = {"lease": Told("lease", RENEWED), "available": Told("conditions", 5)}


def test_silence() -> None:
    """Five leases after the last renewal a cluster is unreachable, since that very moment."""
    cluster = Cluster("a", "ocm", (), available="True", lease_s=60)
    assert lapses_ms(cluster, LEASE) == LAPSE
    assert at_moment(cluster, LEASE, LAPSE - 1) is cluster
    silent = at_moment(cluster, LEASE, LAPSE)
    assert silent.available == "Unknown"
    assert silent.taints == (Taint(UNREACHABLE, "NoSelect", added_ms=LAPSE),)
    assert health_of(cluster, LEASE, LAPSE).reason == "LeaseUpdateStopped"


def test_its_own_word() -> None:
    """One that says it isn't available is tainted since it says so; silence is worse."""
    cluster = Cluster("a", "ocm", (), available="False", lease_s=60)
    assert at_moment(cluster, LEASE, LAPSE - 1).taints == (
        Taint(UNAVAILABLE, "NoSelect", added_ms=5),
    )
    assert at_moment(cluster, LEASE, LAPSE).taints == (
        Taint(UNREACHABLE, "NoSelect", added_ms=LAPSE),
    )


def test_the_hubs_own_taint() -> None:
    """It is kept as it is, with its own time."""
    taint = Taint(UNREACHABLE, "NoSelect", added_ms=77)
    cluster = Cluster("a", "ocm", (), available="Unknown", taints=(taint,))
    assert at_moment(cluster, {}, LAPSE) is cluster


def test_nobody_says_anything() -> None:
    """No word, no lease, no taint."""
    cluster = Cluster("a", "ssh", ())
    assert at_moment(cluster, {}, LAPSE) is cluster
    assert lapses_ms(cluster, LEASE) is None
    assert lapses_ms(Cluster("a", "ssh", (), lease_s=60), {}) is None


def test_a_fleet() -> None:
    """Only what is due changes; the next change is known ahead."""
    one = Cluster("a", "ocm", (), available="True", lease_s=60)
    two = Cluster("b", "ocm", (), available="True", lease_s=10)
    fleet = Fleet((one, two), told={"a": LEASE, "b": LEASE})
    assert fleet_at(fleet, RENEWED) is fleet
    assert next_lapse_ms(fleet, RENEWED) == RENEWED + 50_000
    later = fleet_at(fleet, RENEWED + 50_000)
    assert later.clusters[0] is one
    assert later.clusters[1].available == "Unknown"
    assert next_lapse_ms(fleet, RENEWED + 50_000) == LAPSE
    assert next_lapse_ms(fleet, LAPSE) is None
