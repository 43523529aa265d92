"""What running work on a cluster would take: bytes to move, time, money and energy, with units.

An estimate is a number that says its unit, what it rests on and how old that is; one that nobody
can compute has no value, and never a made-up one. Times count from the moment of the estimate.
"""

from typing import Literal

from msgspec import Struct

from stellwerk.core.model.fleet import Data
from stellwerk.core.model.placement import Objective
from stellwerk.core.model.reasons import Param, Reason

Unit = Literal["bytes", "s", "usd", "kWh"]

Basis = Literal["known", "expected", "assumed", "unknown"]
"""``known``: computed from what was given, declared or told. ``expected``: a mean over what may
happen (a cache that may be lost). ``assumed``: something that nobody told was taken as nothing.
``unknown``: not enough is known for a number."""


class Estimate(Struct, frozen=True, omit_defaults=True):
    """A number with its unit; ``value`` None = unknown.

    ``age_ms`` is the age of the oldest fact behind it, None where nobody said when it was seen.
    """

    value: float | None
    unit: Unit
    basis: Basis = "known"
    age_ms: int | None = None

    @property
    def order(self) -> tuple[bool, float]:
        """Sorts lowest first, and what is unknown behind everything known."""
        return self.value is None, self.value or 0.0


class JobProfile(Struct, frozen=True, omit_defaults=True):
    """All that estimates look at in a workload.

    ``runtime_s`` is its length on a machine of speed 1, None = nobody said; ``runtime_origin`` says
    who did. ``devices`` counts accelerators of each kind on one node. ``prewarm`` = data may be
    moved while the work still waits. ``deadline_ms`` (UTC) 0 = none. ``concurrent`` is how many
    jobs like this one fetch over a shared link at the same time.

    ``mode`` stream reads while it runs, ``epochs`` times, of which the cache on the cluster
    (``cache_bytes``, None = all the room there is) serves what it can hold.
    ``compute_s_per_epoch`` is then the length of an epoch that never waits for data.
    """

    runtime_s: float | None = None
    runtime_origin: str = ""
    nodes: int = 1
    devices: dict[str, int] = {}
    data: tuple[Data, ...] = ()
    objective: Objective = "finish"
    usd_per_hour_of_waiting: float = 0.0
    prewarm: bool = False
    deadline_ms: int = 0
    concurrent: int = 1
    mode: Literal["copy", "stream"] = "copy"
    epochs: int = 1
    compute_s_per_epoch: float | None = None
    cache_bytes: int | None = None


class Way(Struct, frozen=True, omit_defaults=True):
    """A way to feed the nodes of a cluster over one uplink.

    ``copies_over_uplink`` times the data comes from outside; then it is passed on inside, in
    ``rounds_in_switch`` rounds. ``uplink_bits_per_s`` 0 = as fast as the link from the source.
    """

    name: str
    copies_over_uplink: int = 1
    rounds_in_switch: int = 0
    switch_bits_per_s: float = 0.0
    uplink_bits_per_s: float = 0.0


class Move(Struct, frozen=True):
    """What must come from where: bytes over the link, seconds it takes, what leaving costs."""

    data: str
    source: str
    bytes: float
    seconds: float
    usd: float


class SourceVerdict(Struct, frozen=True, omit_defaults=True):
    """How one replica would do as the source of one data set for a cluster.

    ``reason`` is set where it can't be used. ``finish`` and ``cost`` are those of the work if this
    replica fed it and the other data sets came from where they do.
    """

    data: str
    source: str
    chosen: bool = False
    reason: Reason | None = None
    seconds: float | None = None
    usd: float | None = None
    finish_s: float | None = None
    cost_usd: float | None = None


class HeldPart(Struct, frozen=True, omit_defaults=True):
    """How much of one data set a cluster has, and how that was counted.

    ``counted_bytes`` is what estimates rely on: an expected value where the cache may be lost.
    ``found_bytes`` None = it has something and nobody knows how much, which counts as nothing.
    ``through`` names another revision whose content is shared. ``partial_bytes`` don't count.
    """

    data: str
    revision: str
    size_bytes: int
    counted_bytes: float
    found_bytes: int | None = 0
    lost_probability: float = 0.0
    through: str = ""
    partial_bytes: int = 0
    source: str = ""
    observed_ms: int = 0


class ClusterEstimate(Struct, frozen=True, omit_defaults=True):
    """What a cluster would take for a job; with ``rejections`` it isn't a candidate at all.

    ``missing`` is what must come over the link (every copy of it), ``transfer`` the time for that.
    ``start``, ``run`` and ``finish`` are seconds; start and finish count from the moment of the
    estimate. ``cost`` contains ``egress``. ``evict_bytes`` of unused data must go first.
    ``objective`` is what the ranking compares first.
    """

    cluster: str
    missing: Estimate
    transfer: Estimate
    start: Estimate
    run: Estimate
    finish: Estimate
    cost: Estimate
    egress: Estimate
    energy: Estimate
    objective: Estimate
    wait_s: float = 0.0
    opens_in_s: float = 0.0
    evict_bytes: float = 0.0
    read_bytes: float | None = None
    way: str = ""
    held: tuple[HeldPart, ...] = ()
    moves: tuple[Move, ...] = ()
    sources: tuple[SourceVerdict, ...] = ()
    rejections: tuple[Reason, ...] = ()

    @property
    def admitted(self) -> bool:
        """Whether it takes part in a ranking."""
        return not self.rejections


class Fact(Struct, frozen=True, omit_defaults=True):
    """One thing an explanation says about a cluster: its numbers, and the sentence over them."""

    code: str
    cluster: str
    sentence: str
    numbers: dict[str, Param] = {}


class Course(Struct, frozen=True, omit_defaults=True):
    """What follows from a ranking: run where the data is, move it, or wait for a warm cluster.

    ``instead`` is the cluster that could begin sooner, had the data been there.
    """

    kind: Literal["run", "move", "wait", "none"]
    cluster: str = ""
    instead: str = ""
