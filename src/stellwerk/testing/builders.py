"""Makes values for tests: what a test doesn't name has a small and legal default."""

from stellwerk.core.model.cluster import Cluster, Device, Node, NodeState
from stellwerk.core.model.ids import (
    BlobHash,
    DecisionId,
    RunId,
    ShapeId,
    WorkloadId,
    digest,
    run_id,
)
from stellwerk.core.model.resources import (
    Allocation,
    Alternative,
    DeviceShare,
    GpuRequest,
    NodeAllocation,
    Request,
    Shape,
)
from stellwerk.core.model.workload import Phase, Policies, Run, RunEnd, RunPhase, Workload
from stellwerk.drivers.base import RankOrder, StartOrder

GIB = 1 << 30


def a_device(index: int = 0, kind: str = "A100", gib: int = 40, foreign_gib: int = 0) -> Device:
    """One accelerator."""
    return Device(
        index=index,
        kind=kind,
        memory_bytes=gib * GIB,
        uuid=f"GPU-{index:08x}",
        product=f"NVIDIA {kind}",
        foreign_bytes=foreign_gib * GIB,
    )


def a_node(
    name: str = "n1",
    *,
    cpus: float = 4,
    memory_gib: int = 16,
    disk_gib: int = 100,
    gpus: int = 0,
    gpu: str = "A100",
    gpu_gib: int = 40,
    state: NodeState = "ready",
    boot_id: str = "boot-1",
) -> Node:
    """One machine with ``gpus`` equal devices."""
    return Node(
        name=name,
        cpus_milli=round(cpus * 1000),
        memory_bytes=memory_gib * GIB,
        disk_bytes=disk_gib * GIB,
        devices=tuple(a_device(index, gpu, gpu_gib) for index in range(gpus)),
        state=state,
        boot_id=boot_id,
        machine_id=f"machine-{name}",
        address="127.0.0.1",
    )


def a_cluster(
    name: str = "lab",
    *nodes: Node,
    driver: str = "simulated",
    kind: str = "machine",
    labels: dict[str, str] | None = None,
    claims: dict[str, str] | None = None,
) -> Cluster:
    """A cluster of these nodes, or of one small one."""
    return Cluster(
        name=name,
        driver=driver,
        nodes=nodes or (a_node(),),
        kind=kind,
        labels=labels or {},
        claims=claims or {},
    )


def a_request(
    *,
    cpus: float = 1,
    memory_gib: float = 0,
    disk_gib: float = 0,
    gpus: int = 0,
    gpu: str = "",
    gpu_fraction_milli: int = 1000,
    gpu_share_gib: float = 0,
) -> Request:
    """What one node must give."""
    wanted = GpuRequest(
        count=gpus,
        kind=gpu,
        fraction_milli=gpu_fraction_milli,
        share_bytes=round(gpu_share_gib * GIB),
    )
    return Request(
        cpus_milli=round(cpus * 1000),
        memory_bytes=round(memory_gib * GIB),
        disk_bytes=round(disk_gib * GIB),
        gpu=wanted if gpus else None,
    )


def a_shape(
    *requests: Request,
    ordered: bool = False,
    num_nodes: int = 1,
    infra: str = "",
    placement: str = "",
) -> Shape:
    """A shape with one alternative for each request, or with one small one."""
    return Shape(
        alternatives=tuple(
            Alternative(request=request, infra=infra) for request in requests or (a_request(),)
        ),
        ordered=ordered,
        num_nodes=num_nodes,
        placement=placement,
    )


def an_allocation(
    cluster: str = "lab",
    node: str = "n1",
    *,
    cpus: float = 1,
    memory_gib: int = 0,
    devices: dict[int, int] | None = None,
    ranks: tuple[int, ...] = (0,),
) -> Allocation:
    """Room on one node; ``devices`` gives GiB by device index."""
    shares = tuple(DeviceShare(index, gib * GIB) for index, gib in (devices or {}).items())
    share = NodeAllocation(
        node=node,
        cpus_milli=round(cpus * 1000),
        memory_bytes=memory_gib * GIB,
        devices=shares,
        ranks=ranks,
    )
    return Allocation(cluster=cluster, nodes=(share,))


def a_run(
    workload: str = "w-1",
    number: int = 1,
    *,
    generation: int = 1,
    allocation: Allocation | None = None,
    phase: RunPhase = "Starting",
    planned_ms: int = 0,
    end: RunEnd | None = None,
) -> Run:
    """The ``number``-th run of a workload."""
    return Run(
        id=run_id(WorkloadId(workload), number),
        number=number,
        generation=generation,
        allocation=allocation or an_allocation(),
        decision=DecisionId("d-1"),
        planned_ms=planned_ms,
        phase=phase,
        end=end,
    )


def a_workload(
    id: str = "w-1",
    *,
    name: str = "",
    shape: Shape | None = None,
    phase: Phase = "Pending",
    priority: int = 0,
    submitted_ms: int = 0,
    order: int = 1,
    runs: tuple[Run, ...] = (),
    policies: Policies | None = None,
    labels: dict[str, str] | None = None,
) -> Workload:
    """A workload that waits, unless told otherwise."""
    return Workload(
        id=WorkloadId(id),
        name=name or id,
        project="default",
        owner="ada",
        shape=ShapeId(digest(shape or a_shape())),
        task=BlobHash("0" * 64),
        submitted_ms=submitted_ms,
        order=order,
        phase=phase,
        priority=priority,
        runs=runs,
        policies=policies or Policies(),
        labels=labels or {},
    )


def an_order(
    run: str = "w-1-1",
    *,
    generation: int = 1,
    epoch: int = 1,
    node: str = "n1",
    script: str = "true",
    num_ranks: int = 1,
    allocation: Allocation | None = None,
    grace_ms: int = 5_000,
    setup: str = "",
    snapshot: str = "",
    env: dict[str, str] | None = None,
    secrets: dict[str, str] | None = None,
) -> StartOrder:
    """An order to start a run of a script on one node."""
    return StartOrder(
        run=RunId(run),
        generation=generation,
        epoch=epoch,
        workload=run.rsplit("-", 1)[0],
        name=run.rsplit("-", 1)[0],
        project="default",
        ranks=tuple(RankOrder(rank=rank, node=node, env={}) for rank in range(num_ranks)),
        env=env or {},
        secrets=secrets or {},
        setup=setup,
        script=script,
        snapshot=snapshot,
        grace_ms=grace_ms,
        allocation=allocation,
    )
