"""Limits of people and projects under faults by seed: nobody ever holds more than they may."""

import pytest
from msgspec.structs import replace

from stellwerk.core.model import events as ev
from stellwerk.core.model.limits import Limit, Limits, tallies
from stellwerk.core.view import Viewer
from tests.world.world import World

LIMITS = Limits(
    person=Limit(running=2, gpus=2),
    people={"cyd": Limit(running=1)},
    project=Limit(running=3),
)
PEOPLE = (("ada", "vision"), ("ben", "vision"), ("cyd", "speech"), ("", ""))


class Shared(World):
    """The same world with people, each with work of their own."""

    most = 0

    @property
    def viewer(self) -> Viewer:
        return self._viewer

    @viewer.setter
    def viewer(self, _plain: Viewer) -> None:
        self._viewer = Viewer(self.state, LIMITS)

    def _fold(self, events: list[ev.Event]) -> None:
        for event in events:
            super()._fold([self._with_person(event)])
            if isinstance(event, ev.RunPlanned):
                self._within_limits()

    def _with_person(self, event: ev.Event) -> ev.Event:
        if not isinstance(event, ev.Submitted):
            return event
        person, project = PEOPLE[len(self.journal) % len(PEOPLE)]
        shape = replace(event.submit.shape, person=person, project=project)
        return replace(event, owner=person, submit=replace(event.submit, shape=shape))

    def _within_limits(self) -> None:
        held = (one for runs in self.state.allocations.values() for one in runs.values())
        for (kind, name), tally in tallies(held).items():
            limit = LIMITS.of_person(name) if kind == "person" else LIMITS.of_project(name)
            assert not limit.running or tally.running <= limit.running, (kind, name, tally)
            assert not limit.gpus or tally.gpus <= limit.gpus, (kind, name, tally)
            self.most = max(self.most, tally.running)


@pytest.mark.parametrize("seed", range(4))
def test_no_fault_lets_anybody_exceed_a_limit(seed: int) -> None:
    """After every start, whatever was killed, late or doubled; and all work comes to its end."""
    world = Shared(seed)
    for _ in range(120):
        world.step()
    world.settle()
    assert {key for key, phase in world.accepted.items() if phase == "accepted"} == set()
    assert world.most >= 2, "somebody reached a limit"
