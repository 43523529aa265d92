"""What travels between a client and the server: the JSON of API v1 as structs.

Fields are only ever added, with defaults, so an older client reads a newer server's answers.
Times are `*_ms` integers UTC; `None` means that it hasn't happened.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from msgspec import Struct

from stellwerk.client.checkpoints import Checkpoint
from stellwerk.client.standing import Standing
from stellwerk.core.model.admission import CheckState
from stellwerk.core.model.decisions import QuotaSaid
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.gates import ArrayPart
from stellwerk.core.model.reasons import RenderedReason

Kind = Literal["task", "sbatch", "argv"]
Until = Literal["ended", "running"]
Stream = Literal["run", "setup", "all"]
Override = str | int | bool | list[str]
ENDED = ("Succeeded", "Failed", "Cancelled")


class ProblemReport(Struct):
    """Why a request was refused; `exit` is the exit code of a command line."""

    title: str = ""
    status: int = 0
    code: str = ""
    exit: int = 1
    detail: str = ""
    problems: list[Problem] = []


class Submission(Struct, omit_defaults=True):
    """One task to submit. `key` makes a repeated request the same request."""

    text: str
    file: str = ""
    kind: Kind = "task"
    overrides: dict[str, Override] = {}
    env: dict[str, str | None] = {}
    secrets: dict[str, str] = {}
    snapshot: str = ""
    mounts: dict[str, str] = {}
    argv: list[str] = []
    cwd: str = ""
    in_place: bool = False
    caller_env: dict[str, str] = {}
    labels: dict[str, str] = {}
    held: bool = False
    key: str = ""
    plan: str = ""
    after: list[str] = []
    array: str = ""
    sweep: dict[str, list[str]] = {}


class Given(TypedDict, total=False):
    """What may be said of a submission besides its file: exactly one of file, text and argv."""

    text: str | None
    argv: Sequence[str] | None
    name: str | None
    env: Mapping[str, str | None] | None
    secrets: Mapping[str, str] | None
    workdir: str | None
    labels: Mapping[str, str] | None
    hold: bool
    key: str
    plan: str
    allow_large: bool
    after: Sequence[str]
    array: str
    sweep: Mapping[str, Sequence[str]]


class Told(Struct):
    """Something accepted that a person should know."""

    code: str
    message: str
    help: str = ""


class Submitted(Struct):
    """The answer to a submission: the workload is durable from here on.

    `repeated`: the key was known, and the same task submitted under it at `submitted_ms`. Of an
    array it is the first element's id, the array's name, and the `count` of its elements.
    """

    id: str
    name: str
    phase: str = "Pending"
    notices: list[Told] = []
    repeated: bool = False
    submitted_ms: int = 0
    count: int = 1


class SubmittedMany(Struct):
    """The answer to a batch, in its order; the keys of `repeated` of them were known already."""

    ids: list[str]
    names: list[str]
    notices: list[Told] = []
    repeated: int = 0
    submitted_ms: int = 0


class Changed(Struct):
    """The answer to a verb that changes a workload's course.

    `over_since_ms`: it was over already, and nothing was changed.
    """

    id: str
    name: str
    phase: str
    over_since_ms: int | None = None


class Usage(Struct, kw_only=True):
    """What the newest run uses, as last sampled, and the peaks; of a run that is over, those."""

    at_ms: int = 0
    cpus: float | None = None
    cpu_ms: int = 0
    memory_bytes: int | None = None
    processes: int | None = None
    gpu_memory_bytes: int | None = None
    gpu_busy_percent: int | None = None
    peak_memory_bytes: int = 0
    peak_processes: int = 0
    peak_gpu_memory_bytes: int | None = None
    peak_gpu_card_bytes: int | None = None


class Headline(Struct, kw_only=True):
    """What a list and a page about one workload both say; `reason` is the worst that holds."""

    id: str
    name: str
    phase: str
    project: str = ""
    owner: str = ""
    kind: str = "job"
    priority: int = 0
    queue: str = ""
    submitted_ms: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    cluster: str | None = None
    nodes: list[str] = []
    wants: str = ""
    exit_code: int | None = None
    reason: RenderedReason | None = None
    labels: dict[str, str] = {}
    usage: Usage | None = None

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.phase in ENDED


class Row(Headline, kw_only=True):
    """A workload as lists show it; `runs` counts its attempts."""

    runs: int = 0


class Position(Struct):
    """A place in the queue: `ahead` workloads are looked at before this one."""

    place: int = 0
    ahead: int = 0
    waiting: int = 0


class End(Struct):
    """How a run ended."""

    how: str = ""
    code: int | None = None
    signal: int | None = None
    message: str = ""
    last_lines: list[str] = []
    peak_memory_bytes: int = 0
    cpu_ms: int = 0
    checkpointed: bool = False
    put_back: bool = False


class RunView(Struct):
    """One attempt of a workload."""

    id: str
    number: int
    phase: str = ""
    cluster: str = ""
    node: str = ""
    nodes: list[str] = []
    holds: str = ""
    planned_ms: int | None = None
    started_ms: int | None = None
    running_ms: int | None = None
    ended_ms: int | None = None
    notice: str = ""
    notice_ms: int | None = None
    reachable: bool = True
    end: End | None = None
    reason: RenderedReason | None = None
    decision: str = ""
    warning: RenderedReason | None = None


class Snapshot(Struct):
    """The code that was submitted."""

    hash: str
    files: int = 0
    bytes: int = 0
    commit: str = ""
    dirty: bool = False


class Moment(Struct):
    """One entry of a workload's timeline."""

    at_ms: int
    what: str


class Show(Headline, kw_only=True):
    """Everything about one workload."""

    can_read: bool = True
    task: str = ""
    element: ArrayPart | None = None
    runs: list[RunView] = []
    reasons: list[RenderedReason] = []
    decision: str | None = None
    shape: dict[str, Any] | None = None
    policies: dict[str, Any] = {}
    snapshot: Snapshot | None = None
    work_dir: str | None = None
    output_dir: str | None = None
    checkpoint_dir: str | None = None
    metrics: dict[str, dict[str, Any]] = {}
    position: Position | None = None
    timeline: list[Moment] = []
    seq: int = 0
    wishes: list[str] = []
    checkpoint: Checkpoint | None = None
    gpu_advice: str = ""
    checks: list[CheckState] = []


class ShortfallView(Struct):
    """How much of one resource was wanted, free, and the most that could be had."""

    resource: str
    wanted: int = 0
    free: int = 0
    largest: int = 0
    unit: str = ""
    text: str = ""


class CandidateView(Struct):
    """One cluster with its verdict and the numbers behind it."""

    cluster: str
    verdict: str
    wants: str = ""
    reasons: list[RenderedReason] = []
    shortfalls: list[ShortfallView] = []
    scores: dict[str, int] = {}
    total: int = 0
    alternative: int = 0
    figures: dict[str, float] = {}


class DecisionView(Struct):
    """A stored decision."""

    id: str
    at_ms: int = 0
    age_ms: int = 0
    candidates: list[CandidateView] = []
    chosen: str | None = None
    runner_up: str | None = None
    change: list[str] = []
    inputs: dict[str, Any] = {}
    quota: QuotaSaid | None = None


class Holder(Struct):
    """Who holds some of what another waits for; when it likely ends, and when at the latest.

    `passed`: it stands behind the waiting one in the queue and started before it.
    """

    id: str
    name: str
    owner: str
    cluster: str
    holds: str
    since_ms: int
    likely_ms: int | None = None
    latest_ms: int | None = None
    passed: bool = False


class Explained(Struct):
    """Why a workload is where it is, or why it waits.

    `current` is what would be decided on a waiting one at its `at_ms`; it isn't stored.
    """

    name: str
    phase: str
    id: str = ""
    run: int | None = None
    decision: DecisionView | None = None
    reasons: list[RenderedReason] = []
    position: Position | None = None
    seq: int = 0
    holders: list[Holder] = []
    more_holders: int = 0
    current: DecisionView | None = None
    passed_until_ms: int | None = None
    wishes: list[str] = []
    standing: Standing | None = None
    gpu_advice: str = ""
    nearness: str = ""


class EventRecord(Struct):
    """One fact of the journal; `event` has its `type` and what belongs to it."""

    seq: int
    at_ms: int
    event: dict[str, Any]
    actor: str = ""
    project: str = ""
    epoch: int = 0
    version: int = 1

    @property
    def type(self) -> str:
        """Which kind of fact it is."""
        return str(self.event.get("type", ""))


class Rows(Struct):
    """A page of a list, newest first; `next` continues it, `total` counts those on all pages."""

    items: list[Row] = []
    seq: int = 0
    next: str | None = None
    total: int | None = None


class Events(Struct):
    """A page of the journal; `next` continues it."""

    items: list[EventRecord] = []
    seq: int = 0
    next: int = 0


class SweptKind(Struct):
    """What of one kind was removed (or would be), and what is left; `keep_ms` null is for ever."""

    kind: str
    about: str = ""
    count: int = 0
    bytes: int = 0
    left: int | None = None
    left_bytes: int | None = None
    keep_ms: int | None = None
    failed: int = 0


class Swept(Struct):
    """The outcome of removing what is kept too long; with `more` another try removes more."""

    dry_run: bool = False
    at_ms: int = 0
    items: list[SweptKind] = []
    more: bool = False
    skipped: list[str] = []
