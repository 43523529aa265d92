"""Makes the order that a driver carries out, from a run, its workload and the task as written."""

import signal

import msgspec
from msgspec.structs import replace

from stellwerk.core.describe.places import image_of, speaks_of_workdir
from stellwerk.core.model.cluster import Cluster, Node
from stellwerk.core.model.launch import (
    FIRST_NODE_ALONE,
    common_environment,
    node_environment,
    ranks_of_node,
    setup_environment,
)
from stellwerk.core.model.resources import NodeAllocation
from stellwerk.core.model.task import Task
from stellwerk.core.model.workload import Run, Workload
from stellwerk.core.windows import gone_by_ms
from stellwerk.drivers.base import MountOrder, RankOrder, StartOrder
from stellwerk.engine.gpu_environment import gpu_environment
from stellwerk.engine.hub_environment import hub_environment, named_on_hub
from stellwerk.store import Store
from stellwerk.store.errors import refusal

CUT_OFF_MS = 9 * 60_000
"""So long the machines of a run wait for one that is cut off: NCCL gives up after ten minutes."""

LOOPBACK = "127.0.0.1"
AT_ONCE_MS = 24 * 3_600_000
"""Longer than any grace."""
LAST_LEAD_MS = 5_000
"""The last of several signals comes so long before the end, where nobody has said when."""


class Launch(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is stored of a submission: the task, and for a command in place where and how it runs.

    ``argv`` runs without a shell in ``cwd`` with the caller's own environment; that is sealed under
    the name ``caller_env``, as a JSON object. ``secrets`` maps variables to names in the secret
    store, under the workload's owner and project; ``secret_files`` those of ``mounts`` to the same.
    """

    task: Task
    text: str = ""
    file: str = ""
    argv: tuple[str, ...] = ()
    cwd: str = ""
    caller_env: str = ""
    secrets: dict[str, str] = {}
    mounts: tuple[MountOrder, ...] = ()
    secret_files: dict[str, str] = {}


def start_order(
    workload: Workload, run: Run, cluster: Cluster, epoch: int, store: Store
) -> StartOrder:
    """Reads what the run needs from the store and puts the order together."""
    launch = msgspec.json.decode(store.blobs.get(workload.task), type=Launch)
    values, files = (
        {variable: _reveal(store, workload, name) for variable, name in references.items()}
        for references in (launch.secrets, launch.secret_files)
    )
    caller_env: dict[str, str] = {}
    if launch.caller_env:
        sealed = _reveal(store, workload, launch.caller_env)
        caller_env = msgspec.json.decode(sealed, type=dict[str, str])
    order = build_order(workload, run, cluster, epoch, launch)
    return replace(order, secrets={**caller_env, **values}, secret_files=files)


def _reveal(store: Store, workload: Workload, name: str) -> str:
    found = store.secrets.get(workload.project, workload.owner, name)
    if found is None:
        raise refusal(
            "store/no-secret",
            f"the secret `{name}` is not there any more",
            "give it again with --secret and submit again",
        )
    return found.reveal()


def build_order(
    workload: Workload, run: Run, cluster: Cluster, epoch: int, launch: Launch
) -> StartOrder:
    """Puts an order together, without secrets; the same inputs give the same order."""
    task = launch.task
    nodes = {node.name: node for node in cluster.nodes}
    placed = [(rank, part) for part in run.allocation.nodes for rank in part.ranks]
    placed.sort(key=lambda item: item[0])
    addresses = [_address(nodes.get(part.node)) for _, part in placed]
    alternative = run.allocation.alternative
    common = common_environment(
        task,
        task_id=workload.id,
        user=workload.owner,
        cluster=cluster.name,
        cloud=cluster.driver,
        job_number=workload.order,
        addresses=addresses,
        alternative=alternative,
    )
    return StartOrder(
        run=run.id,
        generation=run.generation,
        epoch=epoch,
        workload=workload.id,
        name=workload.name,
        project=workload.project,
        ranks=_ranks(task, placed, nodes, alternative, of_server=not run.allocation.person),
        env={**task.envs, **common, **of_array(workload)},
        setup=task.setup,
        setup_env=setup_environment(task, addresses=addresses, rank=0, alternative=alternative),
        script="" if launch.argv else task.run,
        argv=launch.argv,
        cwd=launch.cwd,
        inherit_env=bool(launch.caller_env),
        allocation=run.allocation,
        person=run.allocation.person,
        lost_generation=_given_up(workload),
        window_end_ms=gone_by_ms(workload, run),
        snapshot=workload.snapshot,
        resumes=workload.resumes,
        mounts=launch.mounts,
        sky_workdir=bool(launch.mounts) or speaks_of_workdir(task),
        setup_inputs=task.setup_inputs,
        image=image_of(task.resources[alternative]),
        grace_ms=workload.policies.grace_ms,
        cut_off_ms=CUT_OFF_MS if task.cut_off_after_ms is None else task.cut_off_after_ms,
        term_signals=_term_signals(task),
        recover_on_exit_codes=workload.policies.recover_on_exit_codes,
        time_limit_ms=workload.limit_ms,
        shell="interactive" if task.shell == "interactive" else "snapshot",
    )


def _term_signals(task: Task) -> tuple[tuple[int, int], ...]:
    """The signals of a notice, and how long before the end of the grace each is given.

    Where that isn't said, a single one comes at once, and the last of several just before the end.
    """
    wanted = task.notice_signals
    return tuple(
        (
            signal.Signals[f"SIG{one.signal}"].value,
            one.lead_ms or (AT_ONCE_MS if len(wanted) == 1 else LAST_LEAD_MS),
        )
        for one in wanted
    )


def _given_up(workload: Workload) -> int:
    """The newest run of which somebody has said that it is lost."""
    lost = [one.generation for one in workload.runs if one.end and one.end.how == "declared_lost"]
    return max(lost, default=0)


def of_array(workload: Workload) -> dict[str, str]:
    """What an element of an array is given beside what all of them see."""
    part = workload.array
    return part.environment(part.id) if part is not None else {}


def _ranks(
    task: Task,
    placed: list[tuple[int, NodeAllocation]],
    nodes: dict[str, Node],
    alternative: int,
    *,
    of_server: bool,
) -> tuple[RankOrder, ...]:
    """Says what is started on each node, and what that alone finds.

    Caches are seen of the user whose runtime looks, which is another one's where people share.
    """
    wanted = named_on_hub(task) if of_server else ()
    if task.launcher in FIRST_NODE_ALONE:
        placed = _first_of_each_machine(task, placed, nodes)
    return tuple(
        RankOrder(
            rank,
            part.node,
            {
                **node_environment(task, node_rank, local_rank, alternative),
                **gpu_environment(part, nodes.get(part.node), task.envs),
                **hub_environment(wanted, nodes.get(part.node), task.envs),
            },
        )
        for node_rank, part in placed
        for local_rank, rank in enumerate(ranks_of_node(task, node_rank, alternative))
    )


def _first_of_each_machine(
    task: Task, placed: list[tuple[int, NodeAllocation]], nodes: dict[str, Node]
) -> list[tuple[int, NodeAllocation]]:
    """Leaves one rank a machine: the first has the script, the others what it starts there.

    Raises a refusal where their addresses don't tell the machines apart.
    """
    firsts = {part.node: (rank, part) for rank, part in reversed(placed)}
    if len({_address(nodes.get(name)) for name in firsts}) < len(firsts):
        raise refusal(
            "launch/same-address",
            f"`stellwerk/launcher: {task.launcher}`: {', '.join(sorted(firsts))} have one address, "
            "by which `mpirun` can't tell them apart; use `processes`, or other machines",
        )
    return sorted(firsts.values(), key=lambda one: one[0])


def _address(node: Node | None) -> str:
    return node.address if node is not None and node.address else LOOPBACK
