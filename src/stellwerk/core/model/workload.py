"""A submitted task with its phase, and its runs: what lives in memory until it is over."""

from typing import Literal

from msgspec import Struct

from stellwerk.core.model.admission import CheckState
from stellwerk.core.model.gates import After, ArrayPart, Gate
from stellwerk.core.model.holding import Claim, Holding
from stellwerk.core.model.ids import BlobHash, DecisionId, RunId, ShapeId, WorkloadId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation, Shape
from stellwerk.core.model.task import AbortRule

Phase = Literal[
    "Pending",
    "Held",
    "Starting",
    "Dispatched",
    "SettingUp",
    "Running",
    "Stopping",
    "Succeeded",
    "Failed",
    "Cancelled",
]
ENDED: tuple[Phase, ...] = ("Succeeded", "Failed", "Cancelled")
WAITING: tuple[Phase, ...] = ("Pending", "Held")

RunPhase = Literal["Starting", "SettingUp", "Running", "Stopping", "Ended"]
NoticeWhy = Literal["cancel", "preempt", "window", "time_limit", "abort", "drain", "console"]


class Policies(Struct, frozen=True, omit_defaults=True):
    """How a workload wants to be started, stopped, retried and put back.

    ``ranks`` is how often its script is started in all (0 = once on each node). ``time_limit_ms``
    bounds each run, ``max_exec_ms`` all of them together (0 = nothing does). ``full_nodes`` is how
    many nodes ``ranks`` are for, where a run may have fewer. A run isn't stopped
    for others for ``protected_ms`` (0: for as long as any work).
    """

    grace_ms: int = 30_000
    time_limit_ms: int = 0
    max_restarts_on_errors: int = 0
    recover_on_exit_codes: tuple[int, ...] = ()
    recovers: bool = False
    abort_when: tuple[AbortRule, ...] = ()
    ranks: int = 0
    max_exec_ms: int = 0
    full_nodes: int = 0
    protected_ms: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether it said that it goes on from what it saved, when it is put back."""
        return self.recovers or bool(self.recover_on_exit_codes)


class RunEnd(Struct, frozen=True, omit_defaults=True):
    """How a run ended, as the runtime saw it; ``how`` is the runtime's word.

    ``checkpointed``: the job said with its exit status that it saved. ``new_checkpoint``: a
    complete checkpoint was written during this run. ``oom_kills``: what the kernel killed on the
    machine for want of memory while the run was going on. ``of_machine``: the runtime itself could
    not do its part. ``disk_free_bytes``: what was left at the end where runs write (None: not
    known). ``peak_gpu_card_bytes``: the most that it held of any one device.
    """

    how: str
    code: int | None = None
    signal: int | None = None
    rank: int = 0
    ranks: dict[str, int] = {}
    put_back: bool = False
    checkpointed: bool = False
    started_at_ms: int = 0
    ended_at_ms: int = 0
    peak_memory_bytes: int = 0
    cpu_ms: int = 0
    message: str = ""
    last_lines: tuple[str, ...] = ()
    new_checkpoint: bool = False
    oom_kills: int = 0
    of_machine: bool = False
    disk_free_bytes: int | None = None
    peak_processes: int = 0
    peak_gpu_memory_bytes: int = 0
    peak_gpu_card_bytes: int = 0

    @property
    def got_further(self) -> bool:
        """Whether the next run has something newer to resume from than this one had."""
        return self.checkpointed or self.new_checkpoint


class Run(Struct, frozen=True, omit_defaults=True):
    """One attempt of a workload on a cluster. ``generation`` fences it against older orders.

    ``grace_ms`` is what a run that was given notice has from ``notice_ms`` on, and
    ``notice_reason`` says more than ``notice`` about why. ``holding`` is its part of quota.
    ``saved_ms`` is how new at least its last complete checkpoint is (0: none is known of).
    ``warning`` is what it was last told may end it.
    ``copy_ms`` is what its machine is needed for after its end: a notice that its grace and this
    must fit into is given so much earlier. ``closes_ms`` is when its window closes, where its
    machine was told of another time than its allocation has.
    """

    id: RunId
    number: int
    generation: int
    allocation: Allocation
    decision: DecisionId
    planned_ms: int
    phase: RunPhase = "Starting"
    started_ms: int = 0
    running_ms: int = 0
    notice: NoticeWhy | Literal[""] = ""
    notice_ms: int = 0
    grace_ms: int = 0
    notice_reason: Reason | None = None
    end: RunEnd | None = None
    ended_ms: int = 0
    reason: Reason | None = None
    reachable: bool = True
    holding: Holding | None = None
    saved_ms: int = 0
    copy_ms: int = 0
    warning: Reason | None = None
    closes_ms: int = 0

    @property
    def leaves_in_ms(self) -> int:
        """How long a run that was given notice holds its machine at most."""
        return self.grace_ms + self.copy_ms


def took_ms(run: Run, end: RunEnd, ended_ms: int) -> int:
    """How long a run that is over took, by its own clock if that is told; 0 if it never began."""
    if end.started_at_ms and end.ended_at_ms:
        return max(0, end.ended_at_ms - end.started_at_ms)
    return max(0, ended_ms - run.started_ms) if run.started_ms else 0


class Workload(Struct, frozen=True, omit_defaults=True):
    """A submitted task. ``task`` and ``snapshot`` name blobs: texts and code stay out of memory.

    ``version`` counts changes, so that an action planned on an older state is seen to be stale.
    ``order`` is the sequence number of its submission and breaks ties in the queue. ``resumes``
    names the workload with whose checkpoints it starts ("" = with none). ``gate`` is what keeps it
    from its turn: those named in ``after``, or others of its ``array``. ``claim`` is what it was
    promised while those who are in its way are stopped. ``checks`` are what was said of its last
    claim, ``check_retries`` how often it was put back for them in a row. ``executed_ms`` is what
    its ended runs took together. ``shape_after`` is what it asks for again when its next run is
    over.
    """

    id: WorkloadId
    name: str
    project: str
    owner: str
    shape: ShapeId
    task: BlobHash
    submitted_ms: int
    order: int
    phase: Phase = "Pending"
    version: int = 1
    priority: int = 0
    queue: str = "default"
    kind: str = "job"
    labels: dict[str, str] = {}
    snapshot: str = ""
    policies: Policies = Policies()
    runs: tuple[Run, ...] = ()
    retries: int = 0
    preemptions: int = 0
    queued_ms: int = 0
    not_before_ms: int = 0
    cancelling: bool = False
    cancel_now: bool = False
    cancelled_by: str = ""
    reasons: tuple[Reason, ...] = ()
    decision: str = ""
    ended_ms: int = 0
    resumes: WorkloadId = WorkloadId("")
    gate: Gate = ""
    after: tuple[After, ...] = ()
    array: ArrayPart | None = None
    claim: Claim | None = None
    shape_after: Shape | None = None
    checks: tuple[CheckState, ...] = ()
    check_retries: int = 0
    executed_ms: int = 0

    @property
    def limit_ms(self) -> int:
        """How long its run now, or its next one, may take before it is given notice; 0 = any time.

        What may run for a time in all, and has, has a moment left.
        """
        limit_ms, most_ms = self.policies.time_limit_ms, self.policies.max_exec_ms
        if not most_ms:
            return limit_ms
        left_ms = max(1, most_ms - self.executed_ms)
        return min(limit_ms, left_ms) if limit_ms else left_ms

    @property
    def live_run(self) -> Run | None:
        """The run that isn't known to be over, if there is one; there is never more than one."""
        if self.runs and self.runs[-1].phase != "Ended":
            return self.runs[-1]
        return None


def safe_until_ms(workload: Workload) -> int:
    """Until when the live run of a workload was promised not to be stopped for others (0: not)."""
    run, least = workload.live_run, workload.policies.protected_ms
    return (run.started_ms or run.planned_ms) + least if run is not None and least else 0
