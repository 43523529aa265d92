"""The world with queues whose work must pass checks, which are answered, forgotten, or come and go.

One queue orders its work by past use as well, so that restarts have it in their images.
"""

from msgspec.structs import replace

from stellwerk.core.checks import overdue
from stellwerk.core.intake import on_command
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.admission import AdmissionCheck, CheckWord
from stellwerk.core.model.queueing import CheckRule, PastUse, QueueSettings, Requeuing
from tests.core.hall import applied
from tests.world.queued import QueuedWorld, objects

WORDS: tuple[CheckWord, ...] = (*("Ready",) * 9, "Retry", "Rejected", "Pending")
CHECKS = (AdmissionCheck("budget", "example.com/budget", 600_000), AdmissionCheck("papers", "us"))
RULES = QueueSettings(requeuing=Requeuing(base_ms=1_000, limit=2), past_use=PastUse(600_000))


class CheckedWorld(QueuedWorld):
    """Steps through one seed; answers come at any time, about anything."""

    def __init__(self, seed: int) -> None:
        self.answers = self.agreed = 0
        super().__init__(seed)
        self._check()

    def _check(self) -> None:
        """Lets the work of two queues pass checks from now on."""
        rules = (CheckRule("budget"), CheckRule("papers", ("small",)))
        known = objects(fair=self.fair, scarce=False)
        queues = [
            replace(one, checks=rules, usage_based=one.name == "a")
            for one in known.queues
            if one.name != "strict"
        ]
        self._fold([*applied(replace(known, queues=tuple(queues), checks=CHECKS, settings=RULES))])

    def _fold(self, events: list[ev.Event]) -> None:
        """As any world; nothing starts before all checks that it was asked about have agreed."""
        for event in events:
            super()._fold([event])
            if isinstance(event, ev.RunPlanned):
                said = [one.state for one in self.state.workloads[event.workload].checks]
                assert all(one == "Ready" for one in said), said
                self.agreed += bool(said)

    def step(self) -> None:
        """Somebody answers, or is silent for too long, before anything else happens."""
        if self.dice.randrange(30) == 0:
            self._check()
        if self.dice.randrange(40) == 0:
            self._fold(overdue(self.state, max(self.now_ms, self.state.at_ms)))
        asked = sorted(key for key, one in self.state.workloads.items() if one.checks)
        for _ in range(3 if asked else 0):
            key = self.dice.choice(asked)
            check = self.dice.choice(CHECKS).name
            command = cmd.SetCheck(key, check, self.dice.choice(WORDS))
            self.answers += 1
            self._fold(on_command(self.state, command, "boss", self.now_ms))
        super().step()
