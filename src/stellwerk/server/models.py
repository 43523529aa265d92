"""The bodies of requests and answers: the only models of the API, and the source of its schema.

Times are UTC milliseconds; `null` means "not yet" or "not known". Fields are only ever added.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from stellwerk.core.model.admission import CheckState
from stellwerk.core.model.gates import ArrayPart
from stellwerk.core.model.reasons import RenderedReason
from stellwerk.server.checkpoint_models import CheckpointView
from stellwerk.server.story_models import Moment, SnapshotView
from stellwerk.server.telemetry_views import MetricView, UsageView
from stellwerk.server.waiting_models import HolderView, StandingView

Kind = Literal["task", "sbatch", "argv"]
Until = Literal["ended", "running"]
Sort = Literal["newest", "line"]
LogOf = Literal["run", "setup", "all"]

TEXT_BYTES, VALUE_BYTES = 2 * 2**20, 128 * 1024
BATCH_ITEMS = 100_000
AFTER_NAMES = 1_000

Text = Annotated[str, Meta(max_length=TEXT_BYTES)]
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Empty(msgspec.Struct, frozen=True):
    """Nothing to say beyond the status."""


class SubmitItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task to be submitted.

    `text` is a task file or a batch script as written and `file` its name in messages; `argv` is a
    command instead. `snapshot` is the hash of the packed work directory's manifest, whose content
    must be in the store already; `mounts` has such a hash for each target of `file_mounts` whose
    source is the caller's own. `env` fills or overrides variables (`null`: take it from the file),
    `secrets` are sealed and never shown. `in_place` runs `argv` in `cwd` with `caller_env`.
    A repeated `key` gives the same workload again instead of another one. With the id of a `plan`
    it is refused when that isn't true any more. `array` (`0-99%8`) or `sweep` (values by variable)
    make many workloads of it; `after` (`ok:NAME`) names those whose end it waits for.
    """

    text: Text = ""
    file: str = ""
    kind: Kind = "task"
    overrides: dict[str, Any] = {}
    env: dict[str, str | None] = {}
    secrets: dict[str, str] = {}
    snapshot: str = ""
    mounts: dict[str, Hash] = {}
    argv: list[str] = []
    cwd: str = ""
    in_place: bool = False
    caller_env: dict[str, str] = {}
    labels: dict[str, str] = {}
    held: bool = False
    key: Annotated[str, Meta(max_length=200)] = ""
    plan: Annotated[str, Meta(max_length=200)] = ""
    after: Annotated[list[str], Meta(max_length=AFTER_NAMES)] = []
    array: str = ""
    sweep: dict[str, list[str]] = {}


class Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many tasks at once: `items`, or `count` copies of one `item`. All are accepted or none."""

    items: Annotated[list[SubmitItem], Meta(max_length=BATCH_ITEMS)] = []
    item: SubmitItem | None = None
    count: Annotated[int, Meta(ge=1, le=BATCH_ITEMS)] = 1
    key: Annotated[str, Meta(max_length=200)] = ""


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something accepted that one should know."""

    code: str
    message: str
    help: str = ""
    line: int = 0


class Submitted(msgspec.Struct, frozen=True):
    """The workload that a submit made or, if `repeated`, that the same key had made before.

    `submitted_ms` is when that was. Of an array it is the first element's id, the array's name, and
    the `count` of its elements.
    """

    id: str
    name: str
    phase: str
    notices: list[Told]
    repeated: bool = False
    submitted_ms: int = 0
    count: int = 1


class SubmittedMany(msgspec.Struct, frozen=True):
    """The workloads of a batch, in its order; the keys of `repeated` of them were known already.

    `submitted_ms` is when the first of them was submitted.
    """

    ids: list[str]
    names: list[str]
    notices: list[Told]
    repeated: int = 0
    submitted_ms: int = 0


class CancelBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`now` leaves out the notice and the grace."""

    now: bool = False


class PriorityBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The new priority; a higher one goes first."""

    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)]


class Changed(msgspec.Struct, frozen=True):
    """A workload as it was when the command for it was taken down; the change itself follows.

    `over_since_ms` is set where it was over already, and nothing was taken down.
    """

    id: str
    name: str
    phase: str
    over_since_ms: int | None = None


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """What a list and a page about one workload both say; `reason` is the worst that holds."""

    id: str
    name: str
    project: str
    owner: str
    kind: str
    phase: str
    priority: int
    queue: str
    submitted_ms: int
    started_ms: int | None
    ended_ms: int | None
    cluster: str | None
    nodes: list[str]
    wants: str
    exit_code: int | None
    reason: RenderedReason | None
    labels: dict[str, str]
    usage: UsageView | None


class Row(Headline, frozen=True, kw_only=True):
    """A workload in a list; `runs` counts its attempts."""

    runs: int


class Rows(msgspec.Struct, frozen=True):
    """A page of workloads; `next` continues it as `after`, `null` is the end.

    `total` counts those of all pages, where that was asked for.
    """

    items: list[Row]
    seq: int
    next: str | None
    total: int | None = None


class EndView(msgspec.Struct, frozen=True):
    """How a run ended; `how` is the runtime's word, `code` and `signal` the process's own."""

    how: str
    code: int | None
    signal: int | None
    message: str
    last_lines: list[str]
    peak_memory_bytes: int
    cpu_ms: int
    checkpointed: bool
    put_back: bool


class RunView(msgspec.Struct, frozen=True):
    """One attempt of a workload. `node` is its first node, `nodes` all of them."""

    id: str
    number: int
    phase: str
    cluster: str
    node: str
    nodes: list[str]
    holds: str
    planned_ms: int
    started_ms: int | None
    running_ms: int | None
    ended_ms: int | None
    notice: str
    notice_ms: int | None
    reachable: bool
    end: EndView | None
    reason: RenderedReason | None
    decision: str
    warning: RenderedReason | None = None


class Position(msgspec.Struct, frozen=True):
    """A place in the queue, from 1: `ahead` workloads are looked at before this one."""

    place: int
    ahead: int


class Show(Headline, frozen=True, kw_only=True):
    """Everything about one workload; folders and metrics are those of its newest run."""

    can_read: bool = True
    task: str
    element: ArrayPart | None = None
    runs: list[RunView]
    reasons: list[RenderedReason]
    decision: str | None
    shape: dict[str, Any] | None
    policies: dict[str, Any]
    snapshot: SnapshotView | None
    work_dir: str | None
    output_dir: str | None
    checkpoint_dir: str | None
    metrics: dict[str, MetricView]
    position: Position | None
    timeline: list[Moment]
    seq: int
    wishes: list[str] = []
    checkpoint: CheckpointView | None = None
    gpu_advice: str = ""
    checks: list[CheckState] = []


class ShortfallView(msgspec.Struct, frozen=True):
    """How much of a resource was wanted, was free and can be had at most; `text` says it."""

    resource: str
    wanted: int
    free: int
    largest: int
    unit: str
    text: str


class CandidateView(msgspec.Struct, frozen=True):
    """One cluster for one alternative of the request, with its verdict and why."""

    cluster: str
    alternative: int
    wants: str
    verdict: str
    reasons: list[RenderedReason]
    shortfalls: list[ShortfallView]
    scores: dict[str, int]
    total: int
    figures: dict[str, float] = {}


class DecisionView(msgspec.Struct, frozen=True):
    """A stored decision; `inputs` names by hash what it was made of.

    `quota` is what its queue said, where there are queues: by flavor the outcome and the numbers of
    every level up to the root, in thousandths of a resource's unit; a queue "" means that no quota
    binds it.
    """

    id: str
    at_ms: int
    age_ms: int
    candidates: list[CandidateView]
    chosen: str | None
    runner_up: str | None
    change: list[str]
    inputs: dict[str, Any]
    quota: dict[str, Any] | None = None


class ForecastView(msgspec.Struct, frozen=True):
    """When something that waits could start, seen from `at_ms`.

    `likely_ms` is the median and `p90_ms` the 90 % quantile over so many `futures`, each with
    lengths drawn from those of past work; `latest_ms` is what time limits make of it. `null` is not
    known, and `unknown` then counts the work of unknown length that it hangs on.
    """

    at_ms: int
    seq: int
    earliest_ms: int | None
    likely_ms: int | None
    latest_ms: int | None
    confidence: str
    unknown: int
    assumes: list[str]
    p90_ms: int | None
    futures: int


class PlanAnswer(msgspec.Struct, frozen=True):
    """What would become of a task if it were submitted now.

    `chosen` is where it starts, or where it would if it were its turn; `ahead` counts those that
    wait before it. `id` stays the same as long as nothing that was looked at changes.
    """

    id: str
    name: str
    wants: str
    starts_now: bool
    chosen: str | None
    runner_up: str | None
    candidates: list[CandidateView]
    reasons: list[RenderedReason]
    change: list[str]
    ahead: int
    priority: int
    queue: str
    policies: dict[str, Any]
    notices: list[Told]
    at_ms: int
    seq: int
    forecast: ForecastView | None = None


class Explain(msgspec.Struct, frozen=True):
    """Why here, why not there, why not yet; `more_holders` counts those that aren't listed.

    `decision` is stored: of what waits the one that first told of reasons of this kind. `current`
    and the `reasons` are what would be decided at its `at_ms`. Until `passed_until_ms` smaller work
    may pass; then what this needs is kept for it.
    """

    id: str
    name: str
    phase: str
    run: int | None
    decision: DecisionView | None
    reasons: list[RenderedReason]
    position: Position | None
    seq: int
    holders: list[HolderView] = []
    more_holders: int = 0
    current: DecisionView | None = None
    passed_until_ms: int | None = None
    wishes: list[str] = []
    standing: StandingView | None = None
    gpu_advice: str = ""
    nearness: str = ""


class EventView(msgspec.Struct, frozen=True):
    """One record of the journal; `event` has its `type` and the fields of that type."""

    seq: int
    at_ms: int
    epoch: int
    actor: str
    project: str
    event: dict[str, Any]
    version: int


class Events(msgspec.Struct, frozen=True):
    """A page of the journal; ask on with `after` set to `next`."""

    items: list[EventView]
    seq: int
    next: int
