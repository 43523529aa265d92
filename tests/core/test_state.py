"""The live state: folding facts, its image, and what a restart makes of both."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from msgspec.structs import replace

from stellwerk.core.intake import on_plan
from stellwerk.core.invariants import violations
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.ids import DecisionId, digest
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.workload import Policies, RunEnd
from stellwerk.core.plan import plan
from stellwerk.core.state import IMAGE_SCHEMA, State, StateImage, fold, queue_key
from stellwerk.core.state.folding import RUNS_KEPT
from stellwerk.core.view import Viewer
from stellwerk.testing.builders import a_cluster, a_node, an_allocation
from tests.core.hall import Hall
from tests.core.lively import a_lively_hall

SEEDS = (0, 1, 4, 5)


def test_the_lively_journal_has_everything_in_it() -> None:
    """What the tests here show, they show for every kind of fact."""
    told: dict[str, int] = {}
    for seed in SEEDS:
        for line in a_lively_hall(seed).journal:
            kind = type(msgspec.json.decode(line, type=ev.Record).event).__name__
            told[kind] = told.get(kind, 0) + 1
    elsewhere = {"LeaderChanged", "NoticeWithdrawn", "ActionDropped", "PriorityChanged"}
    elsewhere |= {"RoomClaimed", "RunWarned"}
    known = {kind.__name__ for kind in get_args(ev.Event)}
    assert known - set(told) - elsewhere == set()


def encoded(state: State) -> bytes:
    """The image as it is stored."""
    return msgspec.json.encode(state.image())


def folded(journal: list[bytes]) -> State:
    """The state that a journal leads to."""
    state = State()
    for line in journal:
        fold(state, msgspec.json.decode(line, type=ev.Record))
    return state


@pytest.mark.parametrize("seed", SEEDS)
def test_the_journal_leads_to_the_same_state(seed: int) -> None:
    """To the byte, in the image and in what is derived from it."""
    hall = a_lively_hall(seed)
    again = folded(hall.journal)
    assert encoded(again) == encoded(hall.state)
    assert plan(Viewer(again).take(hall.now_ms)) == plan(Viewer(hall.state).take(hall.now_ms))


@pytest.mark.parametrize("seed", SEEDS)
def test_an_image_is_the_state(seed: int) -> None:
    """What comes back is equal, sound, plans alike and goes on alike."""
    hall = a_lively_hall(seed, steps=80)
    back = State.from_image(msgspec.json.decode(encoded(hall.state), type=StateImage))
    assert encoded(back) == encoded(hall.state)
    assert violations(back) == []
    assert back.touched == {}
    there, here = Viewer(back).take(hall.now_ms), Viewer(hall.state).take(hall.now_ms)
    assert [shape.heads for shape in there.shapes] == [shape.heads for shape in here.shapes]
    assert [one.allocations for one in there.clusters] == [one.allocations for one in here.clusters]
    assert there.next_due_ms == here.next_due_ms
    assert there.stops == here.stops
    for state, view in ((back, there), (hall.state, here)):
        for event in on_plan(state, plan(view)):
            fold(state, ev.Record(state.seq + 1, hall.now_ms, 1, "ada", "p", event))
    assert encoded(back) == encoded(hall.state)


@pytest.mark.parametrize("seed", range(3))
def test_an_image_and_the_rest_of_the_journal_are_the_state(seed: int) -> None:
    """Wherever in the journal the image was taken."""
    hall = a_lively_hall(seed)
    expected = encoded(hall.state)
    for cut in range(0, len(hall.journal), 17):
        image = msgspec.json.decode(encoded(folded(hall.journal[:cut])), type=StateImage)
        state = State.from_image(image)
        for line in hall.journal[cut:]:
            fold(state, msgspec.json.decode(line, type=ev.Record))
        assert encoded(state) == expected


FOLD_ELSEWHERE = """
import hashlib, sys
import msgspec
from stellwerk.core.model import events as ev
from stellwerk.core.plan import plan
from stellwerk.core.state import State, fold
from stellwerk.core.view import Viewer

state = State()
for line in sys.stdin.buffer:
    fold(state, msgspec.json.decode(line, type=ev.Record))
image = msgspec.json.encode(state.image())
planned = msgspec.json.encode(plan(Viewer(state).take(state.at_ms + 1)))
print(hashlib.sha256(image + planned).hexdigest())
"""


def test_another_process_with_another_hash_seed_comes_to_the_same() -> None:
    """Image and plan are the same bytes: nothing hangs on the order of a set."""
    hall = a_lively_hall(11, steps=250)
    image = encoded(hall.state)
    planned = msgspec.json.encode(plan(Viewer(hall.state).take(hall.state.at_ms + 1)))
    expected = hashlib.sha256(image + planned).hexdigest()
    source = str(Path(__file__).resolve().parents[2] / "src")
    for hash_seed in ("1", "4242"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": source}
        told = subprocess.run(
            [sys.executable, "-c", FOLD_ELSEWHERE],
            input=b"\n".join(hall.journal),
            env=env,
            capture_output=True,
            check=True,
        )
        assert told.stdout.decode().strip() == expected


def test_the_streak_of_preemptions_is_counted_by_progress() -> None:
    """A new checkpoint ends it, and so does a release by hand."""
    hall = Hall(a_cluster())
    key = hall.submit()

    def preempted(end: RunEnd) -> int:
        hall.settle()
        run = hall.workload(key).runs[-1]
        hall.fold([ev.NoticeGiven(run.id, "preempt", 5_000)])
        hall.end(key, end)
        return hall.workload(key).preemptions

    cut_off = RunEnd(how="notice", code=143, put_back=True)
    assert preempted(cut_off) == 1
    assert preempted(cut_off) == 2
    assert preempted(replace(cut_off, new_checkpoint=True)) == 0
    assert preempted(cut_off) == 1
    assert preempted(RunEnd(how="notice", code=85, put_back=True, checkpointed=True)) == 0
    assert [preempted(cut_off) for _ in range(3)] == [1, 2, 3]
    assert hall.workload(key).phase == "Held"
    hall.command(cmd.Release(key))
    assert hall.workload(key).preemptions == 0


def test_only_the_newest_runs_stay_in_memory() -> None:
    """Numbers go on; the older ones are in the journal."""
    hall = Hall(a_cluster())
    key = hall.submit(policies=Policies(max_restarts_on_errors=100))
    for _ in range(RUNS_KEPT + 5):
        hall.now_ms += 1_000_000
        hall.settle()
        hall.end(key, RunEnd(how="exited", code=1))
    runs = hall.workload(key).runs
    assert len(runs) == RUNS_KEPT
    assert [run.number for run in runs] == list(range(6, RUNS_KEPT + 6))


def test_what_ends_leaves_memory_and_is_handed_over() -> None:
    """With its last value, once."""
    hall = Hall(a_cluster())
    key = hall.submit()
    hall.settle()
    hall.state.drain_touched()
    hall.end(key)
    assert hall.state.workloads == {}
    assert hall.state.shapes == {}
    (last,) = hall.state.drain_touched()
    assert (last.id, last.phase) == (key, "Succeeded")
    assert hall.state.drain_touched() == ()


def test_reasons_are_forgotten_when_nobody_waits() -> None:
    """The next one of that shape isn't told what was true of another."""
    hall = Hall(a_cluster("lab", a_node(cpus=1)))
    first, second = hall.submit(), hall.submit()
    hall.settle()
    assert hall.told(second) == ["no_room"]
    hall.command(cmd.Hold(second))
    assert hall.told(second) == []
    hall.end(first)


def test_records_follow_each_other() -> None:
    """A gap, a repetition and a step back in time are seen."""
    state = State()
    fold(state, ev.Record(1, 100, 1, "ada", "p", ev.LeaderChanged(1, "0")))
    for seq, at_ms in ((1, 100), (3, 100), (2, 99)):
        with pytest.raises(AssertionError):
            fold(state, ev.Record(seq, at_ms, 1, "ada", "p", ev.LeaderChanged(2, "0")))
    fold(state, ev.Record(2, 100, 1, "ada", "p", ev.LeaderChanged(2, "0")))
    assert state.epoch == 2


def test_a_withdrawn_notice_lets_a_run_go_on() -> None:
    """In the phase in which it was."""
    hall = Hall(a_cluster())
    key = hall.submit()
    hall.settle()
    hall.seen(key, "Running")
    run = hall.workload(key).runs[-1].id
    hall.fold([ev.NoticeGiven(run, "window", 60_000)])
    assert (hall.workload(key).phase, hall.workload(key).runs[-1].grace_ms) == ("Stopping", 60_000)
    hall.fold([ev.NoticeWithdrawn(run)])
    assert (hall.workload(key).phase, hall.workload(key).runs[-1].notice) == ("Running", "")


def test_the_order_of_a_queue_is_that_of_its_keys() -> None:
    """Priority first, then age, whatever the ids are."""
    hall = Hall(a_cluster("lab", a_node(cpus=1)))
    keys = [hall.submit(priority=number % 3) for number in range(30)]
    (queue,) = hall.state.shapes.values()
    expected = sorted(keys, key=lambda key: queue_key(hall.workload(key)))
    assert [key for _, _, key in queue.entries] == expected


def test_an_old_image_is_told_by_its_schema() -> None:
    """The hash covers the fields of everything that is stored, down to a device."""
    schema = msgspec.json.encode(msgspec.json.schema(StateImage)).decode()
    for field in ("not_before_ms", "foreign_bytes", "fraction_milli", "decision"):
        assert f'"{field}"' in schema
    assert digest(msgspec.json.schema(StateImage)) == IMAGE_SCHEMA


def test_shape_waits_for_an_unknown_shape_change_nothing() -> None:
    """The shape left memory before the fact was folded."""
    hall = Hall(a_cluster())
    key = hall.submit(held=True)
    shape = hall.workload(key).shape
    hall.command(cmd.Cancel(key))
    hall.fold([ev.ShapeWaits(shape, DecisionId("d-1"), (Reason("no_cluster"),))])
    assert hall.state.shapes == {}


def test_a_run_is_not_planned_on_what_already_runs() -> None:
    """Folding refuses what can't follow."""
    hall = Hall(a_cluster())
    key = hall.submit()
    hall.settle()
    again = ev.RunPlanned(key, hall.workload(key).runs[0].id, 1, an_allocation(), DecisionId("d-1"))
    with pytest.raises(AssertionError):
        fold(hall.state, ev.Record(hall.state.seq + 1, hall.now_ms, 1, "a", "p", again))
