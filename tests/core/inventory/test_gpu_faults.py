"""Which cards are sick, what becomes of them, and whose fault a run's failure is then."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from stellwerk.core.inventory.facts import cluster_of, node_of
from stellwerk.core.inventory.gpu_faults import XIDS, health_of
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.workload import RunEnd
from stellwerk.core.state import State, StateImage
from stellwerk.testing.builders import a_request, a_shape
from tests.core.hall import Hall
from tests.core.inventory.test_facts import facts, gpu

ONE = a_shape(a_request(gpus=1))
BROKEN = {"ecc_uncorrected": 2}


@pytest.mark.parametrize(
    ("told", "health", "words"),
    [
        ({}, "", ""),
        ({"ecc_uncorrected": None, "xids": None, "recovery_action": None}, "", ""),
        ({"ecc_uncorrected": 0}, "ok", ""),
        ({"ecc_uncorrected": 1}, "sick", "1 uncorrectable memory error (ECC): `nvidia-smi"),
        ({"ecc_uncorrected": 3}, "sick", "3 uncorrectable memory errors (ECC): `nvidia-smi"),
        ({"ecc_uncorrected": 3, "recovery_action": 0, "xids": [79]}, "ok", ""),
        ({"recovery_action": 1}, "sick", "asks for a reset: `nvidia-smi --gpu-reset -i 3`"),
        ({"recovery_action": 2}, "sick", "asks for a restart of the machine: restart the machine"),
        ({"recovery_action": 9}, "sick", "asks for recovery 9"),
        ({"recovery_action": 0, "rows_failed": True}, "sick", "have the card replaced"),
        ({"xids": [13, 31, 43]}, "", ""),
        ({"xids": [13, 79]}, "sick", "XID 79, it fell off the bus"),
        ({"lost": True, "recovery_action": 0}, "gone", "NVML error 15"),
        ({"gone": True}, "gone", "tells of it no more"),
    ],
)
def test_health_is_what_the_driver_says(told: dict[str, Any], health: str, words: str) -> None:
    """Its advice before its counters, these before numbers; what it doesn't say is unknown."""
    found, fault = health_of(3, told)
    assert (found, words in fault) == (health, True), fault
    assert bool(fault) == (health in {"sick", "gone"})


def test_the_errors_of_programs_are_none_of_the_card() -> None:
    """Illegal addresses and killed programs are reported with numbers too."""
    assert not {13, 31, 43, 45, 68, 94} & set(XIDS)


def test_a_gone_card_is_shown_and_one_that_was_never_seen_is_told() -> None:
    """The first is remembered with its size, so what it is stays known."""
    lost = {"index": 1, "lost": True, "trouble": "it is lost from the bus"}
    known = node_of(facts(gpus=[gpu(0), {**gpu(1), **lost}]))
    assert [(one.health, bool(one.fault)) for one in known.devices] == [("", False), ("gone", True)]
    unknown = node_of(facts(gpus=[gpu(0), lost]))
    assert len(unknown.devices) == 1
    assert unknown.note == known.note
    assert known.note.startswith("GPU 1 gets nothing new: it is lost from the bus")


def test_a_driver_that_hangs_is_told_where_no_tool_of_it_is() -> None:
    """It was there when its library was loaded."""
    note = node_of(facts(gpu_trouble="the NVIDIA driver hangs", gpu_driver_broken=True)).note
    assert note == "GPUs can't be seen: the NVIDIA driver hangs"


def seen(*told: dict[str, Any]) -> Cluster:
    """A server whose cards say so."""
    cards = [gpu(index, memory_used_bytes=0, **more) for index, more in enumerate(told)]
    return cluster_of(facts(gpus=cards), name="big", driver="ssh")


def test_a_sick_card_gets_nothing_new_until_its_driver_says_so() -> None:
    """The other is used; what waits says which card and what helps."""
    hall = Hall(seen({}, BROKEN))
    first, second = hall.submit(ONE), hall.submit(ONE)
    hall.settle()
    assert hall.workload(first).runs[-1].allocation.nodes[0].devices[0].index == 0
    assert sorted(hall.told(second)) == ["gpu_sick", "no_room"]
    waits = hall.state.shapes[hall.workload(second).shape].waits
    assert waits is not None
    said = next(render(one) for one in waits.reasons if one.code == "gpu_sick")
    assert "nothing new is put on GPU 1 of big/lab7: 2 uncorrectable memory errors" in said.sentence
    assert "stw resume big/lab7" in said.remedy
    hall.fold([ev.ClusterObserved(seen({}, {"ecc_uncorrected": 0}))])
    assert hall.settle() == [second]


def test_a_person_may_say_that_a_card_works_until_something_new_is_told() -> None:
    """The word is kept over restarts; a card that is gone isn't brought back by it."""
    hall = Hall(seen(BROKEN))
    waiting = hall.submit(ONE)
    hall.settle()
    hall.command(cmd.ResumeCluster("big", ("lab7",)))
    (device,) = hall.state.clusters["big"].nodes[0].devices
    assert (device.fault, device.foreign_bytes) == ("", 0)
    image = msgspec.json.decode(msgspec.json.encode(hall.state.image()), type=StateImage)
    assert State.from_image(image).clusters == hall.state.clusters
    assert hall.settle() == [waiting]
    for told, fault in (
        (BROKEN, False),
        ({"ecc_uncorrected": 3}, True),
        (BROKEN, True),
        ({"gone": True}, True),
    ):
        hall.fold([ev.ClusterObserved(seen(told))])
        assert bool(hall.state.clusters["big"].nodes[0].devices[0].fault) == fault, told
    hall.command(cmd.ResumeCluster("big"))
    assert hall.state.clusters["big"].nodes[0].devices[0].fault


def test_a_run_that_fails_on_a_sick_card_goes_elsewhere_uncharged() -> None:
    """What it says itself explains less; a run on a well card stays its own fault."""
    other = replace(seen({}), name="other")
    hall = Hall(seen({}), other)
    id = hall.submit(ONE)
    hall.settle()
    where = hall.workload(id).runs[-1].allocation.cluster
    hall.seen(id)
    cluster = hall.state.observed[where]
    (node,) = cluster.nodes
    (device,) = node.devices
    sick = replace(device, health="sick", fault="XID 79")
    hall.fold([ev.ClusterObserved(replace(cluster, nodes=(replace(node, devices=(sick,)),)))])
    hall.end(id, RunEnd(how="exited", code=1, last_lines=("RuntimeError: CUDA error",)))
    ended = hall.workload(id)
    assert (ended.phase, ended.retries) == ("Pending", 0)
    reason = ended.runs[-1].reason
    assert reason is not None
    assert (reason.code, reason.params["line"]) == ("gpu_broken", "GPU 0: XID 79")
    hall.now_ms += 60_000
    hall.settle()
    assert hall.workload(id).runs[-1].allocation.cluster != where


def test_who_computes_on_a_card_has_it_however_little_that_holds() -> None:
    """A desktop that draws leaves it whole; so does a run of ours, which is counted elsewhere."""
    little, draws = {"pid": 1, "memory_bytes": 200 << 20, "run": None}, {"computes": False}
    for told, runs, starts in (
        ({**little, "computes": True}, (), False),
        ({**little, **draws}, (), True),
        ({**little, "computes": True, "run": "w-9-1"}, ("w-9-1",), True),
    ):
        card = gpu(0, memory_used_bytes=200 << 20, processes=[told])
        seen_now = cluster_of(facts(gpus=[card]), name="big", driver="ssh", runs=runs)
        hall = Hall(seen_now)
        id = hall.submit(ONE)
        assert hall.settle() == ([id] if starts else []), told
        assert starts or hall.told(id) == ["no_room"]
