"""What a machine can give follows from the facts found on it, and from nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.inventory.facts import cluster_of, material_change, node_of
from stellwerk.core.model.cluster import Cluster, Node
from stellwerk.core.model.quantity import GIB
from stellwerk.core.place.node import NodeRoom
from stellwerk.core.place.room import capacity
from stellwerk.testing.builders import a_cluster, a_device, a_node

MIB = GIB // 1024


def facts(**more: Any) -> dict[str, Any]:
    """A machine without GPUs as a probe finds it."""
    return {
        "v": 1,
        "at_ms": 1_700_000_000_000,
        "boot_id": "b-1",
        "machine_id": "m-1",
        "hostname": "lab7",
        "os": "Debian GNU/Linux 12 (bookworm)",
        "kernel": "6.1.0",
        "arch": "x86_64",
        "cpus": 3.5,
        "cpus_online": 8,
        "memory_bytes": 16 * GIB,
        "memory_available_bytes": 9 * GIB,
        "disk_bytes": 500 * GIB,
        "disk_free_bytes": 120 * GIB,
        "file_system": "ext4",
        "load": [0.1, 0.2, 0.3],
        "python": "3.11.7",
        "user": "ada",
        "tools": ["git", "uv"],
        "gpus": [],
        "gpu_driver": None,
        "gpu_trouble": "no NVIDIA driver here",
        **more,
    }


def gpu(index: int = 0, **more: Any) -> dict[str, Any]:
    """An A100 that nobody uses."""
    return {
        "index": index,
        "uuid": f"GPU-{index}",
        "name": "NVIDIA A100-SXM4-40GB",
        "memory_bytes": 40 * GIB,
        "memory_used_bytes": 3 * MIB,
        "memory_free_bytes": 39 * GIB,
        "memory_reserved_bytes": 600 * MIB,
        "mig": False,
        "processes": [],
        "trouble": None,
        **more,
    }


def process(run: str | None, gib: float | None) -> dict[str, Any]:
    return {"pid": 1, "run": run, "memory_bytes": None if gib is None else int(gib * GIB)}


def test_a_plain_machine() -> None:
    """Processors in thousandths, memory of the machine, the disk that is free, who it is."""
    cluster = cluster_of(facts(), name="lab7", driver="local")
    assert (cluster.name, cluster.driver, cluster.kind) == ("lab7", "local", "machine")
    (node,) = cluster.nodes
    assert node == Node(
        name="lab7",
        cpus_milli=3500,
        memory_bytes=16 * GIB,
        disk_bytes=120 * GIB,
        boot_id="b-1",
        machine_id="m-1",
    )
    assert cluster.claims == {
        "os": "Debian GNU/Linux 12 (bookworm)",
        "kernel": "6.1.0",
        "arch": "x86_64",
        "python": "3.11.7",
        "user": "ada",
        "file-system": "ext4",
        "tools": "git uv",
    }


def test_what_is_not_known_is_said_and_counts_as_nothing() -> None:
    """A fact that could not be found out gives no room, and the note names it."""
    node = node_of(facts(memory_bytes=None, boot_id=None))
    assert (node.memory_bytes, node.boot_id) == (0, "")
    assert node.note == (
        "the size of the memory could not be found out; "
        "the identity of this boot could not be found out"
    )


def test_what_another_stellwerk_holds_is_not_given_out() -> None:
    """It is told whose it is, and never counts for more than there is; our own runs are ours."""
    held = {"user": "bob", "cpus_milli": 3000, "memory_bytes": 2 * GIB, "gpus": {"0": 10 * GIB}}
    ours = {"run": "w-1-1", "user": "ann", "cpus_milli": 9_000_000}
    cards = [gpu(0, memory_used_bytes=0), gpu(1, memory_used_bytes=0)]
    node = node_of(facts(gpus=cards, claims=[{**held, "run": "w-9-1"}, ours]), runs=("w-1-1",))
    assert (node.foreign_cpus_milli, node.foreign_memory_bytes) == (3000, 2 * GIB)
    assert [device.foreign_bytes for device in node.devices] == [10 * GIB, 0]
    assert node.note == "taken by another Stellwerk (bob): 3 CPUs, 2 GiB, 10 GiB of GPU 0"
    room = NodeRoom(node)
    assert (room.cpus_milli, room.memory_bytes) == (
        node.cpus_milli - 3000,
        node.memory_bytes - 2 * GIB,
    )
    whole = capacity(cluster_of(facts(claims=[held]), name="lab7", driver="local"))
    assert whole.nodes["lab7"].cpus_milli == node.cpus_milli
    greedy = node_of(facts(claims=[{"cpus_milli": 10**12, "memory_bytes": 10**18}]))
    assert (NodeRoom(greedy).cpus_milli, NodeRoom(greedy).memory_bytes) == (0, 0)


def test_missing_gpus_are_noted_where_somebody_expects_them() -> None:
    """No driver on a machine without GPUs is no trouble; a driver's tool without GPUs is one."""
    assert node_of(facts()).note == ""
    broken = facts(tools=["nvidia-smi"], gpu_trouble="the NVIDIA driver doesn't answer: error 9")
    assert node_of(broken).note == ("GPUs can't be seen: the NVIDIA driver doesn't answer: error 9")


def test_a_card_has_its_canonical_name_and_real_memory() -> None:
    """Kind by name and size, memory as the driver tells it, nothing foreign on an idle card."""
    (device,) = node_of(
        facts(gpus=[gpu(name="NVIDIA A100-SXM4-80GB", memory_bytes=79 * GIB)])
    ).devices
    assert (device.kind, device.memory_bytes) == ("A100-80GB", 79 * GIB)
    assert (device.uuid, device.product) == ("GPU-0", "NVIDIA A100-SXM4-80GB")
    assert device.foreign_bytes == 0


@pytest.mark.parametrize(
    ("used_gib", "processes", "foreign_gib"),
    [
        (10, [process(None, 10)], 10),
        (10, [process("w-1-1", 10)], 0),
        (10, [process("w-1-1", 4), process(None, 6)], 6),
        (10, [process("w-9-1", 10)], 10),
        (10, [], 10),
        (0.25, [process(None, 0.25)], 0),
        (10, [process("w-1-1", None)], 0),
        (10, [process("w-1-1", None), process(None, None)], 10),
        (10, [process("w-1-1", 12)], 0),
        (None, [process(None, 3)], 0),
    ],
    ids=[
        "somebody else's", "ours", "both", "another Stellwerk's", "nobody is named", "a desktop",
        "ours without numbers", "both without numbers", "more than is used", "nothing is told",
    ],
)  # fmt: skip
def test_memory_in_use_is_foreign_unless_it_is_ours(
    used_gib: float | None, processes: list[dict[str, Any]], foreign_gib: float
) -> None:
    """Who holds memory is told by the run that a process belongs to."""
    used = None if used_gib is None else int(used_gib * GIB)
    card = gpu(memory_used_bytes=used, processes=processes)
    (device,) = node_of(facts(gpus=[card]), runs=("w-1-1",)).devices
    assert device.foreign_bytes == foreign_gib * GIB


@pytest.mark.parametrize(
    ("more", "note"),
    [
        ({"trouble": "it fell off the bus"}, "GPU 1 isn't given out: it fell off the bus"),
        ({"mig": True}, "GPU 1 isn't given out: it is split into MIG slices"),
        (
            {"memory_bytes": None, "name": "Mystery 9000"},
            "GPU 1 doesn't tell the size of its memory; it isn't given out",
        ),
    ],
)
def test_a_card_that_cannot_be_used_is_left_out(more: dict[str, Any], note: str) -> None:
    """The others keep their numbers, and the note says why one is missing."""
    node = node_of(facts(gpus=[gpu(0), gpu(1, **more), gpu(2)]))
    assert [device.index for device in node.devices] == [0, 2]
    assert node.note == note


def test_a_known_card_that_hides_its_memory_has_what_it_is_sold_with() -> None:
    """The table fills in, and the note says so."""
    node = node_of(facts(gpus=[gpu(memory_bytes=None, memory_used_bytes=None)]))
    assert [device.memory_bytes for device in node.devices] == [40 * GIB]
    assert "NVIDIA A100-SXM4-40GB is sold with 40 GiB" in node.note
    assert "GPU 0 doesn't tell how much of its memory is in use" in node.note


VALUE = st.none() | st.integers(-5, 1 << 50) | st.text(max_size=3)


@given(
    found=st.fixed_dictionaries(
        {}, optional={key: VALUE for key in facts(claims=0) if key not in {"gpus", "tools", "cpus"}}
    )
)
def test_facts_of_another_version_give_a_legal_node(found: dict[str, Any]) -> None:
    """Missing and strange facts cost what they stand for and never make an amount negative."""
    node = node_of(found)
    assert node.cpus_milli == 0
    assert node.memory_bytes >= 0
    assert node.disk_bytes >= 0
    assert isinstance(node.boot_id, str)


# what is material


def changed(**node: Any) -> bool:
    """Whether a change of the one node of a cluster is material."""
    old = a_cluster("lab", replace(a_node(gpus=1, disk_gib=100), **node.pop("before", {})))
    return material_change(old, replace(old, nodes=(replace(old.nodes[0], **node),)))


def test_the_first_look_is_material() -> None:
    """Nothing was known before; the same again is no news."""
    assert material_change(None, a_cluster())
    assert not material_change(a_cluster(), a_cluster())


@pytest.mark.parametrize(
    "node",
    [
        {"cpus_milli": 3_999},
        {"memory_bytes": 16 * GIB - 1},
        {"devices": ()},
        {"devices": (a_device(gib=80),)},
        {"state": "unreachable"},
        {"boot_id": "boot-2"},
        {"note": "GPU 0 isn't given out: it fell off the bus"},
        {"disk_bytes": 94 * GIB},
        {"disk_bytes": 0},
        {"devices": (a_device(foreign_gib=1),)},
        {"devices": (a_device(foreign_gib=30),)},
    ],
)
def test_what_decisions_depend_on_is_material(node: dict[str, Any]) -> None:
    """Capacity, devices, state, boot and notes at all; disk and foreign memory when it is much."""
    assert changed(**node)


@pytest.mark.parametrize(
    "node",
    [
        {"disk_bytes": 96 * GIB},
        {"disk_bytes": 104 * GIB},
        {
            "before": {"devices": (a_device(foreign_gib=10),)},
            "devices": (replace(a_device(), foreign_bytes=10 * GIB + 900 * MIB),),
        },
    ],
)
def test_drift_is_not_material(node: dict[str, Any]) -> None:
    """A little less disk, a little more of somebody's process: the picture stays as it is."""
    assert not changed(**node)


def test_nodes_and_claims_are_material() -> None:
    """One node more, another order of them, another kernel: a new picture each."""
    one, two = a_node("n1"), a_node("n2")
    assert material_change(a_cluster("lab", one), a_cluster("lab", one, two))
    assert material_change(a_cluster("lab", one, two), a_cluster("lab", two, one))
    assert material_change(a_cluster(claims={"kernel": "6"}), a_cluster(claims={"kernel": "7"}))


@given(disks=st.lists(st.integers(0, 200 * GIB), min_size=2, max_size=30))
def test_drift_cannot_creep(disks: list[int]) -> None:
    """However slowly a disk fills, the picture in use is never more than a twentieth off."""
    kept: Cluster | None = None
    for disk in disks:
        new = a_cluster("lab", replace(a_node(), disk_bytes=disk))
        if material_change(kept, new):
            kept = new
        assert kept is not None
        off = abs(kept.nodes[0].disk_bytes - disk)
        assert off <= max(256 * MIB, max(kept.nodes[0].disk_bytes, disk) // 20)


def test_slices_are_given_out_and_their_card_is_not() -> None:
    """A slice is as sick as its card; what the driver reserves is told."""
    cut = gpu(0, mig=True, recovery_action=1)
    pieces = [
        gpu(100 + n, part_of=0, name="NVIDIA A100-SXM4-40GB MIG 1g.5gb", memory_bytes=5 * GIB)
        for n in range(2)
    ]
    node = node_of(facts(gpus=[cut, *pieces, gpu(1)]))
    assert [(d.index, d.kind, d.label, d.part_of) for d in node.devices] == [
        (100, "A100-MIG-1g.5gb", "0:0", 0),
        (101, "A100-MIG-1g.5gb", "0:1", 0),
        (1, "A100", "1", -1),
    ]
    assert [device.health for device in node.devices] == ["sick", "sick", ""]
    assert (
        "GPU 0:1 gets nothing new: its driver asks for a reset: `nvidia-smi --gpu-reset -i 0`"
        in (node.note)
    )
    assert node.devices[2].usable_bytes == 40 * GIB - 600 * MIB


def test_joined_cards_are_an_island() -> None:
    """Directly, by others, or by a switch; one that is joined with nobody here is of none."""

    def at(number: int) -> str:
        return f"0000:0{number}:00.0"

    links = {0: [1], 1: [0, 2], 2: [1], 3: [9], 4: None}
    cards = [
        gpu(n, pci=at(n), nvlink={"links": 2, "peers": [at(p) for p in to], "switch": False})
        if to is not None
        else gpu(n, pci=at(n), nvlink=None)
        for n, to in links.items()
    ]
    switched = {"links": 18, "peers": [], "switch": True}
    cards += [gpu(n, pci=at(n), nvlink=switched) for n in (5, 6)]
    assert [device.island for device in node_of(facts(gpus=cards)).devices] == [
        *["nvlink-0"] * 3,
        "",
        "",
        *["nvlink-5"] * 2,
    ]


def test_memory_of_the_machine_and_other_makers_are_told() -> None:
    """What a device without memory of its own has is its machine's."""
    own, other = gpu(0, unified=True, name="NVIDIA GB10"), gpu(1, vendor="amd", name="MI210")
    one, two = node_of(facts(gpus=[own, other])).devices
    assert (one.unified, one.vendor, two.unified, two.vendor) == (True, "nvidia", False, "amd")


def test_what_a_driver_reserves_may_drift_a_little() -> None:
    """A few MiB more or less are no news; much is."""
    cards = [gpu(0, memory_reserved_bytes=mib * MIB) for mib in (600, 640, 900)]
    first, little, much = (
        cluster_of(facts(gpus=[one]), name="lab7", driver="local") for one in cards
    )
    assert not material_change(first, little)
    assert material_change(first, much)
