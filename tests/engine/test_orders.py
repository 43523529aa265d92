"""What an order says of a job's ranks: on which node each is, and what it finds there."""

import pytest
from msgspec.structs import replace

from stellwerk.core.describe.tasks import read_tasks
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.resources import Allocation
from stellwerk.core.model.task import Task
from stellwerk.drivers.base import StartOrder
from stellwerk.engine.orders import Launch, build_order
from stellwerk.store.errors import StoreError
from stellwerk.testing.builders import a_cluster, a_node, a_run, a_workload, an_allocation


def order_of(launcher: str, *addresses: str, each: int = 2) -> StartOrder:
    """The order for a job of one node for each address, with so many processes each."""
    task = read_tasks(
        f"run: x\nnum_nodes: {len(addresses)}\nresources: {{labels: "
        f"{{stellwerk/launcher: {launcher}, stellwerk/processes-per-node: '{each}'}}}}"
    )
    assert isinstance(task, Task)
    names = [f"n{number}" for number in range(len(addresses))]
    nodes = (
        replace(a_node(name), address=where) for name, where in zip(names, addresses, strict=True)
    )
    cluster: Cluster = a_cluster("room", *nodes)
    parts = tuple(
        an_allocation(node=name, ranks=(rank,)).nodes[0] for rank, name in enumerate(names)
    )
    run = a_run(allocation=Allocation(cluster.name, parts))
    return build_order(a_workload(runs=(run,)), run, cluster, 1, Launch(task))


def test_each_process_is_a_rank_on_its_node() -> None:
    """Numbered through over the nodes; the address is that of the first."""
    order = order_of("processes", "10.0.0.1", "10.0.0.2")
    assert [(rank.rank, rank.node) for rank in order.ranks] == [
        (0, "n0"), (1, "n0"), (2, "n1"), (3, "n1"),
    ]  # fmt: skip
    assert [rank.env["LOCAL_RANK"] for rank in order.ranks] == ["0", "1", "0", "1"]
    assert (order.env["MASTER_ADDR"], order.env["WORLD_SIZE"]) == ("10.0.0.1", "4")


@pytest.mark.parametrize(
    ("written", "signals"),
    [
        ("", ()),
        ("USR1", ((10, 86_400_000),)),
        ("TERM, USR1@5m", ((10, 300_000), (15, 5_000))),
    ],
)
def test_signals_come_in_time(written: str, signals: tuple[tuple[int, int], ...]) -> None:
    """A single one at once; of several the last a moment before the end of the grace."""
    label = f"labels: {{stellwerk/notice: '{written}'}}" if written else ""
    task = read_tasks(f"run: x\nresources: {{{label}}}")
    assert isinstance(task, Task)
    order = build_order(a_workload(runs=(a_run(),)), a_run(), a_cluster(), 1, Launch(task))
    assert order.term_signals == signals


def test_a_launcher_of_its_own_is_started_once_a_node() -> None:
    """Whatever it starts is its own affair."""
    order = order_of("torchrun", "10.0.0.1", "10.0.0.2")
    assert [(rank.rank, rank.env["PET_NODE_RANK"]) for rank in order.ranks] == [(0, "0"), (1, "1")]


def test_mpi_has_a_rank_on_each_machine() -> None:
    """The first has the script; the others stand for what it starts there. They need addresses."""
    order = order_of("mpi", "10.0.0.1", "10.0.0.2")
    assert [(rank.rank, rank.node) for rank in order.ranks] == [(0, "n0"), (1, "n1")]
    assert order.env["STELLWERK_MPI_HOSTS"] == "10.0.0.1=2,10.0.0.2=2"
    assert order.env["MASTER_ADDR"] == "10.0.0.1"
    with pytest.raises(StoreError) as caught:
        order_of("mpi", "10.0.0.1", "10.0.0.1")
    assert caught.value.code == "launch/same-address"
