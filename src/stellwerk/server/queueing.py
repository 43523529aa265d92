"""What is said of objects of queueing: what changes them, who needs them, how much is used."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

import msgspec

from stellwerk.core.describe.applied import OBJECT_KINDS
from stellwerk.core.describe.fleet_amounts import write_kubernetes
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.queue_object import SPACED, KeptObject, ObjectKey, QueueObject
from stellwerk.core.model.queueing import QueueObjects
from stellwerk.core.model.workload import Workload
from stellwerk.core.queueing_changes import ObjectChange, changes_of
from stellwerk.core.queueing_objects import (
    DEFAULT_NAMESPACE,
    QueueingNow,
    in_use,
    objects_after,
)
from stellwerk.core.queueing_preview import MovedWork, Over, consequences
from stellwerk.core.queueing_quota import PairUse, QuotaOf, queues_stand, quota_of, through
from stellwerk.core.view import View
from stellwerk.server import queueing_models as models

NAMES = 8
"""So many users of an object are named."""
MOST_MOVED = 50


def key_of(ref: models.ObjectRef) -> ObjectKey:
    """What a reference names; raises if there is no such kind."""
    if ref.kind not in OBJECT_KINDS:
        close = get_close_matches(ref.kind, OBJECT_KINDS, 1)
        help = f"did you mean `{close[0]}`?" if close else f"kinds are {', '.join(OBJECT_KINDS)}"
        raise StellwerkError.of("find/kind", f"there is no kind `{ref.kind[:80]}`", help)
    namespace = (ref.namespace or DEFAULT_NAMESPACE) if ref.kind in SPACED else ""
    return ObjectKey(ref.kind, namespace, ref.name)


def missing(kept: Mapping[ObjectKey, KeptObject], keys: Iterable[ObjectKey]) -> list[Problem]:
    """Which objects aren't there, and which ones may have been meant."""
    found = []
    for key in keys:
        if key in kept:
            continue
        names = [one.path for one in kept if one.kind == key.kind]
        close = get_close_matches(key.path, names, 1)
        help = f"did you mean `{close[0]}`?" if close else f"`stw get {key.kind.lower()}` lists all"
        found.append(Problem("find/object", f"there is no {key.shown}", help))
    return found


def change_view(one: ObjectChange, *, whole: bool) -> models.ObjectChangeView:
    """A change for people and programs."""
    return models.ObjectChangeView(
        kind=one.key.kind,
        namespace=one.key.namespace,
        name=one.key.name,
        change=one.change,
        fields=[models.FieldView(f.path, f.before, f.after) for f in one.fields],
        before=msgspec.json.decode(one.before) if whole and one.before else None,
        after=msgspec.json.decode(one.after) if whole and one.after else None,
    )


def uses_of(queueing: QueueingNow, keys: Sequence[ObjectKey]) -> list[models.UseView]:
    """Who needs objects that are to go."""
    names = {one.id: one.name for one in queueing.live}
    found = in_use(queueing.objects, keys, queueing.live, queueing.doors)
    return [
        models.UseView(
            kind=use.key.kind,
            namespace=use.key.namespace,
            name=use.key.name,
            objects=[key.shown for key in use.objects],
            workloads=[names[id] for id in use.workloads[:NAMES]],
            live=len(use.workloads),
        )
        for use in found
    ]


def in_use_problems(uses: Sequence[models.UseView]) -> list[Problem]:
    """Why objects aren't deleted."""
    return [Problem("queue/in-use", _used(one), _who_helps(one)) for one in uses]


def _used(one: models.UseView) -> str:
    path = f"{one.namespace}/{one.name}" if one.namespace else one.name
    parts = []
    if one.workloads:
        work = "workload" if one.live == 1 else "workloads"
        parts.append(f"{one.live} live {work} ({_named(one.workloads, one.live)})")
    if one.objects:
        parts.append(_named(one.objects, len(one.objects)))
    return f"{one.kind} {path} is in use by {' and '.join(parts)}"


def _who_helps(one: models.UseView) -> str:
    if one.objects and not one.workloads:
        return "delete those too, or --force"
    return "wait until they have ended, or --force: what runs goes on, what waits is blocked"


def _named(names: Sequence[str], count: int) -> str:
    shown = ", ".join(names[:NAMES])
    return f"{shown} and {count - NAMES} more" if count > NAMES else shown


def consequences_of(
    view: View, queueing: QueueingNow, put: Sequence[QueueObject], gone: Sequence[ObjectKey] = ()
) -> models.Consequences | None:
    """What would follow at once from applying and deleting objects; None if nothing changes."""
    if not gone and all(one.change == "unchanged" for one in changes_of(queueing.kept, put)):
        return None
    after = objects_after(queueing.kept, put, gone)
    found = consequences(view, after, queueing.live)
    work = {one.id: one for one in queueing.live}
    return models.Consequences(
        moved=[_moved(one, work[one.id]) for one in found.moved[:MOST_MOVED]],
        left=max(0, len(found.moved) - MOST_MOVED),
        over=[over_view(one) for one in found.over],
    )


def over_view(one: Over) -> models.OverQuota:
    """A queue or cohort that would use more than it may."""
    return models.OverQuota(
        name=one.node.name,
        kind=one.node.kind,
        flavor=one.pair.flavor,
        resource=one.pair.resource,
        used=write_kubernetes(one.pair.used),
        most=write_kubernetes(one.pair.most),
    )


def _moved(one: MovedWork, work: Workload) -> models.Moved:
    return models.Moved(
        workload=work.name,
        queue=work.queue,
        before=one.before.what,
        after=one.after.what,
        why=one.after.why,
        why_before=one.before.why,
        others=one.others,
    )


def object_view(one: KeptObject) -> models.ObjectView:
    """An object for people and programs."""
    found = one.object
    return models.ObjectView(
        kind=found.kind,
        namespace=found.namespace,
        name=found.name,
        object=msgspec.json.decode(found.manifest) if found.manifest else {},
        created_by=one.created_by,
        created_ms=one.created_ms,
        by=one.by,
        applied_ms=one.applied_ms,
        generation=one.generation,
        about=about(one),
    )


def about(one: KeptObject) -> str:
    """What an object says, in a line."""
    found = one.object
    if (queue := found.queue) is not None:
        parts = [f"cohort {queue.cohort}" if queue.cohort else "", queue.strategy]
        parts += [f"stopped: {queue.stop}" if queue.stop != "None" else ""]
        parts += [", ".join(each.flavor for group in queue.groups for each in group.flavors)]
        return "; ".join(filter(None, parts))
    if (cohort := found.cohort) is not None:
        return f"under {cohort.parent}" if cohort.parent else "a root"
    if (local := found.local_queue) is not None:
        stopped = f"; stopped: {local.stop}" if local.stop != "None" else ""
        return f"to {local.queue}{stopped}"
    if (flavor := found.flavor) is not None:
        labels = [f"{key}={value}" for key, value in sorted(flavor.labels.items())]
        taints = [f"taint {taint.key}" for taint in flavor.taints]
        return ", ".join([*labels, *taints]) or "any node"
    if (priority := found.priority_class) is not None:
        return str(priority.value)
    if (check := found.check) is not None:
        within = f"; answers within {check.timeout_ms // 1000} s" if check.timeout_ms else ""
        return f"{check.controller}{within if check.is_served else ': not served here'}"
    if found.topology is not None:
        return " > ".join(found.topology.levels)
    return ", ".join(f"{key}={value}" for key, value in sorted((found.labels or {}).items()))


def queue_rows(queueing: QueueingNow) -> list[models.QueueRow]:
    """All ClusterQueues with how work stands in them."""
    objects, live = queueing.objects, queueing.live
    pairs = {one.name: one.pairs for one in quota_of(objects, live) if one.kind == "queue"}
    return [
        models.QueueRow(
            name=one.queue.name,
            cohort=one.queue.cohort,
            strategy=one.queue.strategy,
            pending=len(one.pending),
            reserving=len(one.reserving),
            admitted=len(one.admitted),
            status=one.status,
            about=one.about,
            local_queues=list(one.local_queues),
            used=[pair_view(each) for each in pairs[one.queue.name]],
        )
        for one in queues_stand(objects, live, queueing.doors)
    ]


def quota_rows(objects: QueueObjects, live: Sequence[Workload], name: str) -> list[models.QuotaRow]:
    """The trees; with a name, the way to it and what is below it; raises if it isn't there."""
    rows = quota_of(objects, live)
    if name:
        chosen = through(rows, name)
        if not chosen:
            close = get_close_matches(name, [one.name for one in rows], 1)
            help = f"did you mean `{close[0]}`?" if close else "`stw quota` shows all of them"
            message = f"there is no ClusterQueue or Cohort `{name[:80]}`"
            raise StellwerkError.of("find/queue", message, help)
        rows = chosen
    return [_quota_row(one) for one in rows]


def _quota_row(one: QuotaOf) -> models.QuotaRow:
    return models.QuotaRow(
        name=one.name,
        kind=one.kind,
        depth=one.depth,
        parent=one.parent,
        weight=one.weight,
        share=one.share,
        pairs=[pair_view(each) for each in one.pairs],
    )


def pair_view(one: PairUse) -> models.PairView:
    """A flavor's resource for people and programs."""
    return models.PairView(
        flavor=one.flavor,
        resource=one.resource,
        nominal="" if one.nominal is None else write_kubernetes(one.nominal),
        quota=write_kubernetes(one.quota),
        used=write_kubernetes(one.used),
        borrowed=write_kubernetes(one.borrowed),
        available=_signed(one.available),
        borrowing_limit=_limit(one.borrowing_limit),
        lending_limit=_limit(one.lending_limit),
        used_share=one.used / one.quota if one.quota else None,
        derived=one.derived,
    )


def _limit(value: int | None) -> str:
    return "" if value is None else write_kubernetes(value)


def _signed(amount: int) -> str:
    return f"-{write_kubernetes(-amount)}" if amount < 0 else write_kubernetes(amount)
