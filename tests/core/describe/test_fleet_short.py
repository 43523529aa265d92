"""The short form of a fleet file: what a person writes of clusters, links and data."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.data.units import show_data
from stellwerk.core.describe import fleet_amounts
from stellwerk.core.describe.fleet import FleetRead, read_fleet
from stellwerk.core.describe.fleet_amounts import (
    parse_data_size,
    parse_kubernetes,
    write_kubernetes,
    write_moment,
    write_rate,
)
from stellwerk.core.describe.nodes import Node as Value
from stellwerk.core.describe.nodes import Report
from stellwerk.core.inventory.merge import Source, merge
from stellwerk.core.model.cluster import (
    Cluster,
    Costs,
    Device,
    Held,
    Node,
    ScoreObject,
    Taint,
)
from stellwerk.core.model.fleet import SET_LABEL, ClusterSet, Data, Fleet, Latency, Link
from stellwerk.core.model.quantity import GIB, BadQuantity
from stellwerk.core.model.resources import Allocation, DeviceShare, NodeAllocation
from tests import yamls

HEAD = "apiVersion: stellwerk/v1\nkind: "
ROOM = f"""{HEAD}Cluster
name: k017
driver: ssh
type: room
region: eu-west
zone: campus
set: lab
owner: room admins
labels: {{tier: student}}
claims: {{compliance: gdpr}}
taints:
- lectures=on:NoSelectIfNew
- {{key: x, effect: NoSelect, timeAdded: 2026-01-15T12:00:00Z}}
nodes:
- {{names: "pc[09-10]", cpus: 16, memory: 64, disk: 500, gpus: RTX4090, rack: r1, switch: s1}}
- name: server
  cpus: 64
  memory: 512GB
  gpus: [A100-80GB:2, Own-Chip:1]
  gpu_memory: 80GB
  state: drained
  address: 10.0.0.7
  domains: {{row: a}}
  free: {{cpus: 10, memory: 0, gpus: [80GB, 0, 40GB]}}
costs: {{usd_per_hour: 0.1, usd_per_gpu_hour: {{a100-80gb: 1.2}}, watts: 350}}
speed: 1.5
wait: 20m
reliability: 98%
windows:
- {{from: 2026-12-01T18:00:00+01:00, to: 2026-12-02T07:00:00+01:00}}
- 2026-12-02T17:00:00Z/2026-12-03T06:00:00Z
room: 500GB
evictable: 100GB
holds:
- toy
- {{data: c4-nl@r3, part: 50%, pinned: true}}
- {{data: other, revision: x, bytes: 3GB}}
scores: {{gpu: {{free: 50}}}}
available: true
"""
LAPTOP = f"""{HEAD}Cluster
name: laptop
cpus: 8
memory: 32
gpus: "RTX4070:1"
free: {{cpus: 4, gpus: 0}}
"""
LINKS = f"""{HEAD}Links
links:
- {{between: [k017, laptop], rate: 1Gbit/s}}
- {{from: store, to: k017, rate: 1.25GB/s, usd_per_gb: 0.02, shared: true, egress: deny}}
"""
LINK = f"{HEAD}Link\nfrom: laptop\nto: store\nrate: 100 Mbps\n"
LATENCY = f"""{HEAD}Latency
observed: 2026-01-15T12:00:00Z
source: ping
matrix:
  eu: {{k017: 12ms, laptop: 0.4ms}}
  us: {{k017: 0.1s}}
"""
C4 = f"{HEAD}Dataset\nname: c4-nl\nrevision: r3\nsize: 450GB\nresidency: [EU]\ncontent: sha256:1\n"
TOY = f"{HEAD}Model\nname: toy\nrevision: v1\nsize: 2GB\nresidency: EU\nmovable: false\n"
ALL = [ROOM, LAPTOP, LINKS, LINK, LATENCY, C4, TOY]
CARD = 80 * GIB
GB = 10**9


def read(*documents: str) -> FleetRead:
    """What these documents say together."""
    return read_fleet("---\n".join(documents), file="fleet.yaml", now_ms=9)


PC = Node(
    "pc09",
    16_000,
    64 * GIB,
    500 * GIB,
    (Device(0, "RTX4090", 24 * GIB),),
    domains={"rack": "r1", "switch": "s1"},
)
SERVER = Node(
    "server",
    64_000,
    512 * GIB,
    devices=(
        Device(0, "A100-80GB", CARD),
        Device(1, "A100-80GB", CARD),
        Device(2, "Own-Chip", CARD),
    ),
    state="drained",
    address="10.0.0.7",
    domains={"row": "a"},
)


def test_a_cluster_with_everything() -> None:
    """Every key has its place."""
    room, _ = read(*ALL).require().fleet.clusters
    assert room == Cluster(
        name="k017",
        driver="ssh",
        nodes=(PC, replace(PC, name="pc10"), SERVER),
        kind="room",
        labels={
            "tier": "student",
            "topology.kubernetes.io/region": "eu-west",
            "topology.kubernetes.io/zone": "campus",
            SET_LABEL: "lab",
        },
        claims={"compliance": "gdpr", "region": "eu-west", "zone": "campus"},
        taints=(
            Taint("lectures", "NoSelectIfNew", "on"),
            Taint("x", "NoSelect", added_ms=1_768_478_400_000),
        ),
        scores={"gpu": ScoreObject({"free": 50}, source="declared")},
        available="True",
        owner="room admins",
        costs=Costs(0.1, {"A100-80GB": 1.2}, 350.0),
        held=(
            Held("c4-nl", "r3", 225 * GB, pinned=True),
            Held("other", "x", 3 * GB),
            Held("toy", "v1", 2 * GB),
        ),
        room_bytes=500 * GB,
        evictable_bytes=100 * GB,
        windows=(
            (1_796_144_400_000, 1_796_191_200_000),
            (1_796_230_800_000, 1_796_277_600_000),
        ),
        speed=1.5,
        wait_s=1200.0,
        reliability=0.98,
    )


def test_what_is_in_use() -> None:
    """The rest of what is free; of cards the last ones, or what each has in use."""
    assert read(*ALL).fleet.taken == (
        Allocation(
            "k017",
            (
                NodeAllocation(
                    "server",
                    54_000,
                    512 * GIB,
                    devices=(DeviceShare(1, CARD), DeviceShare(2, 40 * GIB)),
                ),
            ),
        ),
        Allocation(
            "laptop", (NodeAllocation("laptop", 4000, devices=(DeviceShare(0, 12 * GIB),)),)
        ),
    )


def test_around_the_clusters() -> None:
    """Links, latencies, data; a set that a cluster names is there."""
    fleet = read(*ALL).require().fleet
    assert fleet.links == (
        Link("k017", "laptop", 1e9),
        Link("laptop", "k017", 1e9),
        Link("laptop", "store", 1e8),
        Link("store", "k017", 1e10, 0.02, True, "deny"),
    )
    assert fleet.latencies == (
        Latency("eu", "k017", 12.0, 1_768_478_400_000, "ping"),
        Latency("eu", "laptop", 0.4, 1_768_478_400_000, "ping"),
        Latency("us", "k017", 100.0, 1_768_478_400_000, "ping"),
    )
    assert fleet.data == (
        Data("c4-nl", "r3", 450 * GB, residency=("EU",), content="sha256:1"),
        Data("toy", "v1", 2 * GB, "model", ("EU",), movable=False),
    )
    assert ClusterSet("lab") in fleet.sets


@given(st.randoms(use_true_random=False))
def test_the_order_of_documents(dice: Random) -> None:
    """Means nothing."""
    assert read(*dice.sample(ALL, len(ALL))) == read(*ALL)


def test_a_short_word_about_a_probed_cluster() -> None:
    """A cluster without driver or nodes adds to one that a driver found."""
    found = read(f"{HEAD}Cluster\nname: pc\nregion: eu\ncosts: {{usd_per_hour: 2}}\n").require()
    probe = Cluster("pc", "local", (Node("pc", 4000, GIB),), claims={"os": "linux"})
    (cluster,) = merge([*found.sources, Source("probe", "probed", Fleet((probe,)))]).clusters
    assert cluster.driver == "local"
    assert cluster.nodes == probe.nodes
    assert cluster.claims == {"region": "eu", "os": "linux"}
    assert cluster.costs == Costs(2.0)


def changed(document: str, old: str, new: str) -> FleetRead:
    """A document with one slip in it, beside good ones."""
    assert old in document
    return read(C4, TOY, document.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ("speed: 1.5", "sped: 1.5", "spec/unknown-field", "did you mean `speed`?"),
        ("type: room", "type: rom", "spec/value", "did you mean `room`?"),
        ("name: k017", "name: k/017", "spec/name", "letters and digits"),
        ("name: k017", "metadata: {name: k017}", "spec/unknown-field", "at the top"),
        ("pc[09-10]", "pc[10-09]", "fleet/names", "pc[01-18]"),
        ("pc[09-10]", "pc[1-99999]", "fleet/names", "20,000"),
        ("pc[09-10]", "pc[1,1]", "fleet/names", "twice"),
        ("pc[09-10]", "server", "fleet/duplicate", "a name of its own"),
        ("cpus: 16,", "", "spec/missing", "`cpus`"),
        ("memory: 512GB", "memory: 512XB", "spec/value", "100GB"),
        ("gpus: RTX4090", "gpus: 24GB+:2", "spec/accelerator", "which cards"),
        ("gpus: RTX4090", "gpus: RTX4090:0.5", "spec/accelerator", "whole cards"),
        ("gpus: RTX4090", "gpus: RTX4091", "spec/accelerator", "did you mean `RTX4090`?"),
        ("gpus: RTX4090", "gpus: Chip", "spec/accelerator", "gpu_memory: 48GB"),
        ("cpus: 10", "cpus: 100", "fleet/free", "100 free of 64"),
        ("gpus: [80GB, 0, 40GB]", "gpus: 4", "fleet/free", "3 cards"),
        ("gpus: [80GB, 0, 40GB]", "gpus: [80GB, 0]", "fleet/free", "3 cards"),
        ("gpus: [80GB, 0, 40GB]", "gpus: [81GB, 0, 0]", "fleet/free", "3 cards"),
        ("lectures=on:NoSelectIfNew", "lectures:Never", "spec/value", "PreferNoSelect"),
        ("reliability: 98%", "reliability: 1.5", "spec/value", "98%"),
        ("speed: 1.5", "speed: 0", "spec/value", "more than 0"),
        ("usd_per_hour: 0.1", "usd_per_hour: -1", "spec/value", "at least 0"),
        ("from: 2026-12-01T18:00:00+01:00", "from: 2026-12-01 18:00:00", "spec/value", "time zone"),
        ("from: 2026-12-01T18", "from: 2027-12-01T18", "spec/value", "before it opens"),
        ("2026-12-02T17:00:00Z/", "", "spec/value", "isn't a window"),
        ("- toy", "- toi", "fleet/unknown-data", "did you mean `toy`?"),
        ("- toy", "- toy@v2", "fleet/unknown-data", "`toy@v1`"),
        ("- toy", "- '@v1'", "spec/value", "names no data"),
        ("part: 50%", "part: 50%, bytes: 3GB", "spec/value", "keep one"),
        ("free: 50", "free: 1e9", "fleet/score", "-100 to 100"),
        ("available: true", "available: maybe", "spec/type", "`true` or `false`"),
        ("room: 500GB", "cpus: 4", "spec/value", "beside `nodes`"),
    ],
)
def test_slips(old: str, new: str, code: str, words: str) -> None:
    """Each is told with its line and what to write."""
    (problem,) = changed(ROOM, old, new).problems
    assert problem.code == code
    assert words in problem.message + problem.help
    assert problem.line > 15
    assert problem.file == "fleet.yaml"


def test_a_node_without_a_name() -> None:
    """The typo and what is missing by it."""
    found = changed(ROOM, "names:", "nams:").problems
    assert [problem.code for problem in found] == ["spec/missing", "spec/unknown-field"]
    assert found[1].help == "did you mean `names`?"


@pytest.mark.parametrize(
    ("document", "old", "new", "words"),
    [
        (LINKS, "rate: 1Gbit/s", "rate: fast", "write `10Gbit/s`"),
        (LINKS, ", rate: 1Gbit/s", "", "add `rate"),
        (LINKS, "between: [k017, laptop]", "from: k017", "from where to where"),
        (LINKS, "between: [k017, laptop]", "between: [k017]", "two places"),
        (LINKS, "from: store, to: k017", "from: k017, to: laptop", "is there twice"),
        (LINK, "rate: 100 Mbps", "rate: 0bit/s", "isn't a rate"),
        (LATENCY, "12ms", "12", "write `12ms`"),
        (TOY.replace("toy", "toy2"), "size: 2GB", "size: 0", "nothing"),
        (TOY.replace("toy", "toy2"), "revision: v1\n", "", "`revision`"),
        (TOY, "name: toy", "name: toy", "is there twice"),
        (TOY.replace("toy", "toy2"), "name: toy2", "name: toy2@v1", "no `@`"),
    ],
)
def test_slips_beside_the_clusters(document: str, old: str, new: str, words: str) -> None:
    """Links, latencies, data."""
    (problem,) = changed(document, old, new).problems
    assert words in problem.message + problem.help


def test_which_revision() -> None:
    """Data held without a revision is the one that there is; of two, one must be named."""
    other = TOY.replace("revision: v1", "revision: v2")
    (problem,) = read(C4, TOY, other, ROOM).problems
    assert problem.help == "name the revision: `toy@v1`, `toy@v2`"


@pytest.mark.parametrize(
    ("written", "milli"),
    [
        ("4", 4000), ("500m", 500), (".5", 500), ("1k", 1_000_000), ("1Ki", 1_024_000),
        ("16Gi", (1 << 34) * 1000), ("1e3", 1_000_000), ("2E", 2 * 10**21), ("1.5", 1500),
        ("100u", 1), ("1500000n", 2), (8, 8000), (0.1, 100), ("0", 0), ("12e-1", 1200),
    ],
)  # fmt: skip
def test_kubernetes_quantities(written: str | float, milli: int) -> None:
    """Exactly, in thousandths, rounded up."""
    assert parse_kubernetes(written) == milli


@pytest.mark.parametrize("written", ["", "x", "1 Gi", "1GB", "-1", "1ki", "1e", "9" * 30, "1Ki2"])
def test_no_kubernetes_quantities(written: str) -> None:
    """What Kubernetes wouldn't take either."""
    assert isinstance(parse_kubernetes(written), BadQuantity)


@given(st.integers(0, 2**70))
def test_kubernetes_quantities_written(milli: int) -> None:
    """Written and read they are the same."""
    assert parse_kubernetes(write_kubernetes(milli)) == milli


@given(st.integers(0, 4_000_000_000_000), st.integers(1, 999_999), st.sampled_from([1, 1e3, 1e9]))
def test_moments_and_rates_written(at_ms: int, digits: int, scale: float) -> None:
    """Written and read they are the same."""
    report = Report("")
    assert fleet_amounts.moment(report, Value("scalar", 1, 1, write_moment(at_ms)), "") == at_ms
    written = Value("scalar", 1, 1, write_rate(digits * scale))
    assert fleet_amounts.rate(report, written, "") == pytest.approx(digits * scale)


def test_every_document_is_what_a_yaml_library_reads() -> None:
    """Nothing in the examples needs more than plain YAML."""
    assert all(isinstance(yamls.read(document), dict) for document in ALL)


@pytest.mark.parametrize(
    ("written", "bytes_"),
    [
        ("412GB", 412 * GB),
        ("412", 412 * GB),
        ("0.5 TB", 500 * GB),
        ("412GiB", 412 * GIB),
        ("64Gi", 64 * GIB),
        ("3g", 3 * GB),
        ("17B", 17),
        ("1.5kb", 1500),
    ],
)
def test_sizes_of_data_are_exact(written: str, bytes_: int) -> None:
    """Powers of 1000 as links and prices count, of 1024 with an `i`; and shown as written."""
    assert parse_data_size(written) == bytes_
    assert show_data(412 * GB) == "412 GB"
    assert show_data(412 * GIB) == "412 GiB"


@pytest.mark.parametrize("written", ["", "GB", "1 XB", "1i", "-1", "1GBit", "1e3"])
def test_what_is_no_size_of_data(written: str) -> None:
    """It isn't guessed."""
    assert parse_data_size(written) is None
