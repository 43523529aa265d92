"""Who waits for others to end, who for a place in an array, and what opens or ends that."""

from typing import Any

import msgspec
import pytest

from stellwerk.core.gates import gate_reasons, resolved, settle
from stellwerk.core.intake import on_command
from stellwerk.core.invariants import violations
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.gates import GONE, After, ArrayPart, Tally, When
from stellwerk.core.model.ids import BlobHash, WorkloadId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.state import State, StateImage, fold
from stellwerk.testing.builders import a_request, a_shape

W = WorkloadId


class Desk:
    """A state that is spoken to by commands and told of ends."""

    def __init__(self) -> None:
        self.state = State()
        self.journal: list[ev.Record] = []

    def fold(self, *events: ev.Event) -> None:
        for event in events:
            seq = self.state.seq + 1
            record = ev.Record(seq, seq, 1, "ann", "p", event)
            self.journal.append(record)
            fold(self.state, record)
        assert violations(self.state) == []

    def say(self, command: cmd.Command) -> None:
        self.fold(*on_command(self.state, command, "ann"))
        self.settle()

    def settle(self) -> None:
        while found := settle(self.state):
            self.fold(*found)

    def submit(self, id: str, *after: After, part: ArrayPart | None = None, **more: Any) -> None:
        shape = a_shape(a_request(cpus=1))
        task = BlobHash("0")
        self.say(cmd.Submit(W(id), id, "p", shape, task, after=after, array=part, **more))

    def array(self, id: str, count: int, limit: int, *after: After) -> None:
        for index in range(count):
            part = ArrayPart(W(f"a-{id}"), id, index, count, limit=limit)
            self.submit(f"{id}-{index}", *after, part=part)

    def end(self, id: str, phase: Any = "Succeeded") -> None:
        self.fold(ev.WorkloadEnded(W(id), phase, Reason("succeeded")))
        self.settle()

    def queued(self) -> list[str]:
        return [entry[2] for queue in self.state.shapes.values() for entry in queue.entries]

    def again(self) -> "Desk":
        """The same after a crash, from its image."""
        desk = Desk()
        image = msgspec.json.decode(msgspec.json.encode(self.state.image()), type=StateImage)
        desk.state = State.from_image(image)
        return desk


def after(when: When, id: str) -> After:
    return After(when, W(id), id)


@pytest.mark.parametrize(
    ("when", "phase", "starts"),
    [
        ("ok", "Succeeded", True),
        ("ok", "Failed", False),
        ("ok", "Cancelled", False),
        ("any", "Succeeded", True),
        ("any", "Cancelled", True),
        ("fail", "Failed", True),
        ("fail", "Cancelled", True),
        ("fail", "Succeeded", False),
    ],
)
def test_it_starts_after_another(when: When, phase: str, starts: bool) -> None:
    """Or ends, if what it waits for can't come true any more; a crash between changes nothing."""
    desk = Desk()
    desk.submit("w-1")
    desk.submit("w-2", after(when, "w-1"))
    assert desk.queued() == ["w-1"]
    desk = desk.again()
    assert desk.queued() == ["w-1"]
    desk.fold(ev.WorkloadEnded(W("w-1"), phase, Reason("succeeded")))  # type: ignore[arg-type]
    desk = desk.again()
    desk.settle()
    assert desk.queued() == (["w-2"] if starts else [])
    assert (W("w-2") in desk.state.workloads) == starts


def test_it_waits_for_all_of_several() -> None:
    """And names those that are left."""
    desk = Desk()
    for id in ("w-1", "w-2"):
        desk.submit(id)
    desk.submit("w-3", after("ok", "w-1"), after("any", "w-2"))
    told = render(gate_reasons(desk.state.workloads[W("w-3")])[0])
    assert told.sentence == "it waits for ok:w-1, any:w-2"
    assert told.remedy.startswith("wait until w-1, w-2 have ended")
    desk.end("w-2", "Failed")
    assert "w-3" not in desk.queued()
    assert render(gate_reasons(desk.state.workloads[W("w-3")])[0]).sentence == "it waits for ok:w-1"
    desk.end("w-1")
    assert desk.queued() == ["w-3"]


def test_a_chain_ends_with_its_first_link() -> None:
    """Each says whom it was to start after."""
    desk = Desk()
    desk.submit("w-1")
    desk.submit("w-2", after("ok", "w-1"))
    desk.submit("w-3", after("ok", "w-2"))
    desk.submit("w-4", after("fail", "w-3"))
    desk.end("w-1", "Failed")
    assert desk.queued() == ["w-4"]
    ends = [one.event for one in desk.journal if isinstance(one.event, ev.WorkloadEnded)]
    told = [render(end.reason).sentence for end in ends[1:]]
    assert told == [
        "it was to start after ok:w-1, but w-1 failed",
        "it was to start after ok:w-2, but w-2 was cancelled",
    ]


def test_what_is_over_already_counts_as_it_ended() -> None:
    """Whoever takes the command looks it up; of what is gone only that it is over is known."""
    desk = Desk()
    for id, when, ended in (("w-2", "ok", "Succeeded"), ("w-3", "any", GONE), ("w-4", "ok", GONE)):
        command = cmd.Submit(
            id=W(id),
            name=id,
            project="p",
            shape=a_shape(a_request(cpus=1)),
            task=BlobHash("0"),
            after=(After(when, W("w-1"), "w-1"),),  # type: ignore[arg-type]
        )
        desk.say(resolved(desk.state, command, lambda _, ended=ended: ended))  # type: ignore[misc]
    assert desk.queued() == ["w-2", "w-3"]


def test_one_that_is_held_too_waits_for_both() -> None:
    """Released, it still waits for the other; its condition may come true while it is held."""
    desk = Desk()
    desk.submit("w-1")
    desk.submit("w-2", after("ok", "w-1"))
    desk.submit("w-3", after("ok", "w-1"), held=True)
    desk.say(cmd.Hold(W("w-2")))
    desk.say(cmd.Release(W("w-2")))
    assert desk.queued() == ["w-1"]
    desk.end("w-1")
    assert desk.queued() == ["w-2"]
    desk.say(cmd.Release(W("w-3")))
    assert desk.queued() == ["w-2", "w-3"]


def test_one_that_waits_for_others_is_cancelled_at_once() -> None:
    """And nobody remembers it."""
    desk = Desk()
    desk.submit("w-1")
    desk.submit("w-2", after("ok", "w-1"))
    desk.say(cmd.Cancel(W("w-2")))
    assert list(desk.state.workloads) == ["w-1"]
    assert desk.state.gates.dependents == {}


def test_an_array_has_so_many_under_way() -> None:
    """The next in line follows one that ended, was cancelled, or is held."""
    desk = Desk()
    desk.array("fit", 5, 2)
    assert desk.queued() == ["fit-0", "fit-1"]
    [reason] = gate_reasons(desk.state.workloads[W("fit-4")])
    assert render(reason).sentence == "at most 2 of fit may be under way at a time"
    desk.end("fit-0", "Failed")
    assert desk.queued() == ["fit-1", "fit-2"]
    desk.say(cmd.SetPriority(W("fit-4"), 5))
    desk.say(cmd.Hold(W("fit-1")))
    assert desk.queued() == ["fit-2", "fit-4"] or desk.queued() == ["fit-4", "fit-2"]
    desk.say(cmd.Release(W("fit-1")))
    assert "fit-1" not in desk.queued()
    desk = desk.again()
    desk.say(cmd.Cancel(W("fit-2")))
    assert set(desk.queued()) == {"fit-4", "fit-1"}


def test_an_array_is_over_with_its_last_element() -> None:
    """Who waits for it waits for all, also over a crash; one failure makes it failed."""
    for phase, starts in (("Succeeded", True), ("Failed", False)):
        desk = Desk()
        desk.array("fit", 3, 0)
        desk.submit("w-9", After("ok", W("a-fit"), "fit"))
        desk.end("fit-2", phase)
        desk = desk.again()
        desk.end("fit-0")
        assert W("w-9") in desk.state.workloads
        assert "w-9" not in desk.queued()
        desk.end("fit-1")
        assert (desk.queued() == ["w-9"]) == starts
        assert desk.state.gates.tallies == {}


def test_an_array_may_wait_and_have_a_limit() -> None:
    """One after the other."""
    desk = Desk()
    desk.submit("w-1")
    desk.array("fit", 3, 1, after("ok", "w-1"))
    assert desk.queued() == ["w-1"]
    desk.end("w-1")
    assert desk.queued() == ["fit-0"]


def test_tallies_tell_the_worst_end() -> None:
    """Failed before cancelled before succeeded, and nothing before all are over."""
    tally = Tally(2).plus("Cancelled")
    assert tally.ended == ""
    assert tally.plus("Succeeded").ended == "Cancelled"
    assert tally.plus("Failed").ended == "Failed"


def test_an_element_knows_its_index() -> None:
    """By Stellwerk's name and by Slurm's."""
    part = ArrayPart(W("a-1"), "fit", 4, 3, lowest=2, highest=6, step=2, env={"lr": "0.1"})
    environment = part.environment("77")
    assert environment["lr"] == "0.1"
    assert environment["STELLWERK_ARRAY_INDEX"] == environment["SLURM_ARRAY_TASK_ID"] == "4"
    assert environment["SLURM_ARRAY_TASK_MAX"] == "6"
