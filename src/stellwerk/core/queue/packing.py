"""Finds places for the pods of a workload in the topologies of its flavors."""

from __future__ import annotations

from collections.abc import Mapping

from stellwerk.core.queue.entries import PODS, Assigned, Mode, PodSetFit, Verdict, World
from stellwerk.core.queue.topology import NoPlace, Place, Room


def pack(world: World, result: Assigned) -> None:
    """Gives pods their places; what has none must evict, or finds none even in empty domains."""
    if not any(room_of(world, one) for one in result.pod_sets):
        return
    if result.mode is Mode.FIT:
        found = places_of(world, result)
        if not isinstance(found, tuple):
            result.pod_sets = found
            return
        _tell(result, *found)
        result.mode = Mode.NO_CANDIDATES
    found = places_of(world, result, empty=True)
    if isinstance(found, tuple):
        _tell(result, *found)
        result.mode = Mode.NO_FIT
    else:
        _worsen(world, result)


def room_of(world: World, one: PodSetFit) -> Room | None:
    """The domains of the flavor that a pod set got, if it has a topology."""
    for flavor in one.flavors.values():
        room = world.rooms.get(flavor)
        if room is not None:
            return room
    return None


def places_of(
    world: World, result: Assigned, *, empty: bool = False
) -> list[PodSetFit] | tuple[PodSetFit, NoPlace]:
    """The pod sets with their places, or the first that finds none, and why."""
    found: list[PodSetFit] = []
    taken: list[tuple[Room, Place]] = []
    failed: tuple[PodSetFit, NoPlace] | None = None
    for one in result.pod_sets:
        room = room_of(world, one)
        if room is None:
            found.append(one)
            continue
        places = room.find(one.pods, one.size, each_of(one), empty=empty)
        if isinstance(places, NoPlace):
            failed = one, places
            break
        found.append(one._replace(places=places))
        for place in places:
            room.take(place)
            taken.append((room, place))
    for room, place in taken:
        room.take(place, -1)
    return failed or found


def each_of(one: PodSetFit) -> Mapping[str, int]:
    """What a single pod takes of its domain."""
    return {**one.pods.requests, PODS: 1000}


def _tell(result: Assigned, one: PodSetFit, why: NoPlace) -> None:
    flavor = next(iter(one.flavors.values()), "")
    verdict = Verdict(
        one.pods.name, flavor, "", "topology", why.wanted, why.fitting, note=why.level
    )
    result.verdicts.append(verdict)


def _worsen(world: World, result: Assigned) -> None:
    """Everything of a flavor with a topology is what must be made free."""
    result.pod_sets = [
        one
        if room_of(world, one) is None
        else one._replace(modes=dict.fromkeys(one.modes, Mode.NO_CANDIDATES))
        for one in result.pod_sets
    ]
