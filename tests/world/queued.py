"""The world with queues: quota that changes, preemption, machines out of reach for a while.

Restarts happen in the middle of it, as everything does.
"""

import msgspec

from stellwerk.core.intake import on_report
from stellwerk.core.model import events as ev
from stellwerk.core.model import reports as rep
from stellwerk.core.model.actions import Plan
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId, WorkloadId, workload_of
from stellwerk.core.model.queueing import Preemption, QueueObjects, ResourceFlavor
from stellwerk.core.place.rooms import Memory
from stellwerk.core.plan import plan
from tests.core.hall import applied
from tests.core.queued import a_queue, limited, queueing
from tests.world.world import CLUSTERS, World

FLAVORS = (
    ResourceFlavor("big", {"stellwerk/cluster": "alone"}),
    ResourceFlavor("small", {"stellwerk/cluster": "room"}),
)
QUEUES = ("a", "b", "strict", "default", "nowhere")


def objects(*, fair: bool, scarce: bool) -> QueueObjects:
    """Three queues of one cohort over both clusters; less to share where it is ``scarce``."""
    less = 1 if scarce else 0
    rules = Preemption("LowerOrNewerEqualPriority", "Any", "LowerPriority")
    return queueing(
        a_queue("a", flavors={"big": 3 - less, "small": 2}, gpus=1, cohort="all", preemption=rules),
        a_queue("b", flavors={"small": limited(4 - less, 4), "big": 1}, gpus=1, cohort="all"),
        a_queue("strict", flavors={"big": 1, "small": 1}, gpus=0, cohort="all",
                strategy="StrictFIFO"),
        flavors=FLAVORS,
        fair=fair,
    )  # fmt: skip


class QueuedWorld(World):
    """Steps through one seed, with three queues, one that isn't there, and work of no queue."""

    def __init__(self, seed: int) -> None:
        self.promises = 0
        self.taken_back = 0
        super().__init__(seed)
        self.memory = Memory()
        self.fair = bool(seed % 2)
        self.away: dict[str, Cluster] = {}
        self._fold([*applied(objects(fair=self.fair, scarce=False))])

    def _queue(self) -> str:
        return self.dice.choice(QUEUES)

    def step(self) -> None:
        """Now and then quota changes, or a cluster is out of reach or back."""
        choice = self.dice.randrange(40)
        if choice == 0:
            scarce = self.dice.random() < 0.5
            self._fold([*applied(objects(fair=self.fair, scarce=scarce))])
        elif choice == 1 and not self.away:
            cluster = self.dice.choice(CLUSTERS)
            self.away[cluster.name] = cluster
            self._fold(on_report(self.state, rep.Reachability(cluster.name, "unreachable"), 0))
        elif choice < 4 and self.away:
            self.come_back()
        super().step()

    def come_back(self) -> None:
        """What was out of reach is there again."""
        for name, cluster in self.away.items():
            self._fold(on_report(self.state, rep.Reachability(name, "reachable"), 0))
            self._fold(on_report(self.state, rep.ClusterReport(cluster), 0))
        self.away.clear()

    def planned(self) -> Plan:
        """A plan with what is remembered, which changes nothing."""
        view = self.viewer.take(max(self.now_ms, self.state.at_ms))
        found = plan(view, self.memory)
        assert found == plan(view)
        return found

    def _fold(self, events: list[ev.Event]) -> None:
        """As any world; counts promises."""
        super()._fold(events)
        for event in events:
            if isinstance(event, ev.RoomClaimed):
                self.promises += event.claim is not None
                self.taken_back += event.claim is None
            elif isinstance(event, ev.RunEnded) and event.end.how == "declared_lost":
                self.alive.pop(event.run, None)

    def cycle(self) -> None:
        """As any cycle, with a second plan after its own."""
        super().cycle()
        self.planned()

    def _start(self, run: RunId) -> None:
        """What was declared lost meanwhile isn't started any more."""
        workload = self.state.workloads.get(workload_of(run))
        live = workload.live_run if workload is not None else None
        if live is not None and live.id == run:
            super()._start(run)

    def rest(self) -> Plan:
        """The plan when there is nothing more to do at this moment."""
        for _ in range(20):
            found = self.planned()
            if not found.actions:
                break
            self.cycle()
        return found

    def settle(self) -> None:
        """As any world, when all is within reach and there is quota for everybody."""
        self.come_back()
        self._fold([*applied(objects(fair=self.fair, scarce=False))])
        nowhere = a_queue("nowhere", flavors={"big": 4, "small": 6}, gpus=2)
        self._fold([*applied(queueing(nowhere, flavors=FLAVORS, fair=self.fair))])
        super().settle()


def kept_promises(world: QueuedWorld) -> int:
    """How many that were promised a place started exactly there."""
    claims: dict[WorkloadId, object] = {}
    kept = 0
    for line in world.journal:
        event = msgspec.json.decode(line, type=ev.Record).event
        if isinstance(event, ev.RoomClaimed):
            claims[event.id] = event.claim and event.claim.allocation
        elif isinstance(event, ev.RunPlanned):
            kept += claims.pop(event.workload, None) == event.allocation
    return kept
