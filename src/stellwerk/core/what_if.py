"""Decides what "what if" means on a live view: other quota, priorities, machines, work, on a copy.

Each change is one phrase. Nothing is carried out: who would start or be stopped in the next cycle,
and when others would get their turn, is found by planning and playing the copy.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from stellwerk.core.describe.fleet_amounts import parse_kubernetes
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.quantity import BadQuantity, parse_duration
from stellwerk.core.model.queueing import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    QueueObjects,
    Quota,
    ResourceGroup,
)
from stellwerk.core.model.reservations import HOLDERS, Holder, Reservation, Span, Wanted
from stellwerk.core.place.candidates import answers_to
from stellwerk.core.place.change_verbs import BadChange, World, meant
from stellwerk.core.place.changes import apply_changes
from stellwerk.core.place.derived import derived
from stellwerk.core.place.live_changes import fleet_of, with_fleet
from stellwerk.core.place.reservable import Ask, chosen
from stellwerk.core.place.room import capacity, fit
from stellwerk.core.queueing_preview import with_objects
from stellwerk.core.reservations import places_in
from stellwerk.core.view import Head, ShapeView, View

ROOM = ("drain", "resume", "free", "add", "window")
FORMS = {
    "quota": ("quota QUEUE FLAVOR RESOURCE=N", "another nominal quota; +N or -N for more or less"),
    "priority": ("priority NAME N", "another priority of one that waits"),
    "cancel": ("cancel NAME", "it isn't there; what it holds is free at once"),
    "submit": ("submit FILE", "a task more"),
    "reserve": (
        "reserve CLUSTER gpus=8 for=queue:exam in=2h lasting=2h",
        "room is promised to somebody (nodes=, gpus= or cpus=)",
    ),
    "drain": ("drain CLUSTER [NODE]", "nothing new comes onto it"),
    "resume": ("resume CLUSTER [NODE]", "it can be used again"),
    "window": (
        "window CLUSTER open|closed",
        "it is always open, or never",
    ),
    "free": ("free CLUSTER [gpus=4]", "nobody has anything there, or so many cards are free"),
    "add": ("add CLUSTER H100:8", "one node more, with these"),
}
"""How each change is written, and what it means; files of queues (-f) are changes too."""

MOST_PRIORITY = 1000
HasQuota = TypeVar("HasQuota", ClusterQueue, Cohort)


def with_quota(view: View, words: list[str]) -> View:
    """Another nominal quota of a ClusterQueue or Cohort; raises BadChange."""
    if len(words) != 3:
        raise BadChange("`quota` takes a queue, a flavor and RESOURCE=N after it")
    name, flavor, (resource, given, written) = words[0], words[1], words[2].partition("=")
    if not given:
        raise BadChange(f"`{words[2]}` is no RESOURCE=N")
    objects = derived(view.queueing or QueueObjects(), [one.cluster for one in view.clusters])
    queues = {one.name: one for one in objects.queues}
    cohorts = {one.name: one for one in objects.cohorts}
    if name in queues:
        queue = _quota_set(queues[name], flavor, resource, written)
        queues[name] = queue
        return with_objects(view, replace(objects, queues=tuple(queues.values())))
    named = [*(one.cohort for one in objects.queues), *(one.parent for one in objects.cohorts)]
    if name not in cohorts and name not in named:
        known = [*queues, *cohorts, *filter(None, named)]
        raise BadChange(f"there is no ClusterQueue or Cohort `{name}`{meant(name, known)}")
    cohort = cohorts.get(name) or Cohort(name)
    if not _has(cohort, flavor, resource):
        known = [one.name for one in objects.flavors]
        if flavor not in known:
            raise BadChange(f"there is no flavor `{flavor}`{meant(flavor, known)}")
        whole = _whole_name(objects, resource)
        empty = ResourceGroup((whole,), (FlavorQuotas(flavor, {whole: Quota(0)}),))
        cohort = replace(cohort, groups=(*cohort.groups, empty))
    cohorts[name] = _quota_set(cohort, flavor, resource, written)
    return with_objects(view, replace(objects, cohorts=tuple(cohorts.values())))


def _is(resource: str, written: str) -> bool:
    """Whether a resource is meant: by its name, or by what follows the last `/` in it."""
    return resource == written or resource.rpartition("/")[2] == written


def _whole_name(objects: QueueObjects, written: str) -> str:
    groups = (group for one in objects.queues for group in one.groups)
    known = dict.fromkeys(name for group in groups for name in group.covered)
    return next((name for name in known if _is(name, written)), written)


def _has(holder: ClusterQueue | Cohort, flavor: str, resource: str) -> bool:
    return any(
        one.flavor == flavor and any(_is(name, resource) for name in one.quotas)
        for group in holder.groups
        for one in group.flavors
    )


def _quota_set(holder: HasQuota, flavor: str, resource: str, written: str) -> HasQuota:
    if not _has(holder, flavor, resource):
        pairs = [
            f"{one.flavor} {name}" for group in holder.groups for one in group.flavors
            for name in one.quotas
        ]  # fmt: skip
        wanted = f"{flavor} {resource}"
        raise BadChange(f"{holder.name} has no quota of `{wanted}`{meant(wanted, pairs)}")

    def changed(one: FlavorQuotas) -> FlavorQuotas:
        if one.flavor != flavor:
            return one
        quotas = {
            name: replace(quota, nominal=_amount(written, quota.nominal), derived=False)
            if _is(name, resource)
            else quota
            for name, quota in one.quotas.items()
        }
        return replace(one, quotas=quotas)

    groups = tuple(
        replace(group, flavors=tuple(map(changed, group.flavors))) for group in holder.groups
    )
    return replace(holder, groups=groups)


def _amount(written: str, now: int) -> int:
    """`8`, `+4`, `-500m`; never less than nothing."""
    relative = written[:1] in {"+", "-"}
    found = parse_kubernetes(written[1:] if relative else written)
    if isinstance(found, BadQuantity):
        raise BadChange(found.message)
    if not relative:
        return found
    return max(0, now + found if written[0] == "+" else now - found)


def with_priority(view: View, id: WorkloadId, name: str, words: list[str]) -> View:
    """Another priority of one that waits, and its new place in line; raises BadChange."""
    [written] = words or [""]
    try:
        priority = int(written)
    except ValueError:
        raise BadChange(f"`{written}` is no whole number") from None
    if abs(priority) > MOST_PRIORITY:
        raise BadChange(f"{priority} is no priority from -{MOST_PRIORITY} to {MOST_PRIORITY}")
    return raised(view, id, name, priority)


def raised(view: View, id: WorkloadId, name: str, priority: int) -> View:
    """The same for a number."""
    if not any(head.id == id for part in view.shapes for head in part.heads):
        raise BadChange(f"{name} doesn't wait in line, or is too far behind to be looked at")

    def moved(part: ShapeView) -> ShapeView:
        heads = [replace(one, priority=priority) if one.id == id else one for one in part.heads]
        return replace(part, version=-1, heads=tuple(sorted(heads, key=_turn)), waits=None)

    shapes = tuple(
        moved(part) if any(one.id == id for one in part.heads) else part for part in view.shapes
    )
    return replace(view, shapes=shapes)


def _turn(head: Head) -> tuple[int, int]:
    return -head.priority, head.order


def with_room(view: View, verb: str, words: list[str]) -> View:
    """Machines drained, resumed, freed or added; raises BadChange or a StellwerkError."""
    if not words:
        raise BadChange(f"`{verb}` takes a cluster after it")
    if verb in {"drain", "resume"} and len(words) == 2:
        words = [f"{words[0]}/{words[1]}"]
    cluster = words[0].partition("/")[0]
    known = [one.cluster.name for one in view.clusters]
    if cluster not in known:
        raise BadChange(f"no driver here reaches a cluster `{cluster}`{meant(cluster, known)}")
    world = World(fleet_of(view), (), view.now_ms)
    return with_fleet(view, apply_changes(world, (" ".join((verb, *words)),)).fleet)


AMOUNTS = ("nodes", "gpus", "cpus")


def with_reservation(view: View, words: list[str]) -> View:
    """Room that is promised to somebody; raises BadChange where it can't be kept."""
    cluster, *rest = words or [""]
    known = [one.cluster.name for one in view.clusters]
    if cluster not in known:
        raise BadChange(f"no driver here reaches a cluster `{cluster}`{meant(cluster, known)}")
    given = dict(one.partition("=")[::2] for one in rest)
    odd = [one for one in given if one not in {*AMOUNTS, "for", "in", "lasting", "kind"}]
    amounts = {name: given[name] for name in AMOUNTS if name in given}
    if odd or len(amounts) != 1 or not all(one.isdecimal() for one in amounts.values()):
        raise BadChange(f"write `{FORMS['reserve'][0]}`")
    kind, _, name = given.get("for", "").partition(":")
    holder = next((Holder(one, name) for one in HOLDERS if one == kind and name), None)
    if holder is None:
        raise BadChange("`for` takes queue:NAME, project:NAME or person:NAME")
    from_ms = view.now_ms + _time(given.get("in", "0s"))
    spans = (Span(from_ms, from_ms + _time(given.get("lasting", "1h"))),)
    wanted = Wanted(
        int(amounts.get("nodes", 0)),
        int(amounts.get("gpus", 0)),
        1000 * int(amounts.get("cpus", 0)),
        given.get("kind", ""),
        (cluster,),
    )
    found = chosen(Ask(wanted, spans, view.reservations, view.now_ms), places_in(view, holder))
    if isinstance(found, str):
        raise BadChange(found)
    one = Reservation("what-if", "", holder, wanted, cluster, found.parts, spans)
    return replace(view, reservations=(*view.reservations, one))


def _time(written: str) -> int:
    found = parse_duration(written)
    if isinstance(found, BadQuantity):
        raise BadChange(found.message)
    return found


def placeless(view: View) -> dict[WorkloadId, None]:
    """Those that wait which no machine could take that can be used, were it quite free."""
    whole = [capacity(part.cluster).only_ready(part.cluster) for part in view.clusters]
    found: dict[WorkloadId, None] = {}
    for part in view.shapes:
        shape = part.shape
        could = any(
            answers_to(room.cluster, one.infra)
            and fit(room, one.request, shape.num_nodes) is not None
            for one in shape.alternatives
            for room in whole
        )
        if not could:
            found.update((head.id, None) for head in part.heads)
    return found
