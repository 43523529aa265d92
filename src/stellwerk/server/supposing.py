"""Answers what changes would do to all live work: who starts earlier or later, or is stopped.

The present view is changed on a copy; both are planned for what follows at once, and played forward
in the same futures for what follows later. Nothing is carried out.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stellwerk.core.forecast import NEVER, Compared, Forecast
from stellwerk.core.lower import Lowered
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.queue_object import QueueObject
from stellwerk.core.model.queueing import QueueObjects
from stellwerk.core.model.workload import Workload
from stellwerk.core.place.change_verbs import BadChange, meant
from stellwerk.core.place.derived import derived
from stellwerk.core.preview import NOBODY, with_one_more, without
from stellwerk.core.queueing_objects import QueueingNow, objects_after
from stellwerk.core.queueing_preview import (
    STARTS,
    STOPS,
    WHEN_ROOM,
    Outcome,
    newly_over,
    outcomes_of,
    with_objects,
)
from stellwerk.core.view import View
from stellwerk.core.what_if import (
    FORMS,
    ROOM,
    placeless,
    with_priority,
    with_quota,
    with_reservation,
    with_room,
)
from stellwerk.server.outlook import forecast_view
from stellwerk.server.queueing import over_view
from stellwerk.server.queueing_models import OverQuota
from stellwerk.server.what_if_models import Fate, WhatIfRow

NO_PLACE = "no machine that could be used then could take it"
NEW = "new"
SOON_MS = 60_000
OF_WORK = ("priority", "cancel")


class Supposed(NamedTuple):
    """A view and what it would be after changes; the task that isn't submitted, if there is one."""

    before: View
    after: View
    task: Lowered | None = None


class Task(NamedTuple):
    """A task that isn't submitted."""

    name: str
    lowered: Lowered


def names_in(phrases: Sequence[str]) -> list[str]:
    """The workloads that changes are about, as they are written."""
    words = (phrase.split() for phrase in phrases)
    return [one[1] for one in words if len(one) > 1 and one[0] in OF_WORK]


def suppose(
    view: View,
    now: QueueingNow,
    phrases: Sequence[str],
    objects: Sequence[QueueObject],
    work: Mapping[str, Workload],
    task: Task | None,
) -> Supposed:
    """The changed view; raises a StellwerkError with every phrase that means nothing."""
    after = view
    if objects:
        after = with_objects(after, objects_after(now.kept, objects))
    problems: list[Problem] = []
    for phrase in phrases:
        try:
            after = _applied(after, phrase, work, task)
        except BadChange as bad:
            problems.append(Problem("if/change", f"`{phrase}`: {bad}", _help(phrase)))
        except StellwerkError as error:
            problems += error.problems
    if problems:
        raise StellwerkError(problems)
    return Supposed(view, after, task.lowered if task is not None else None)


def _applied(view: View, phrase: str, work: Mapping[str, Workload], task: Task | None) -> View:
    verb, *words = phrase.split() or [""]
    if verb == "quota":
        return with_quota(view, words)
    if verb in ROOM:
        return with_room(view, verb, words)
    if verb == "reserve":
        return with_reservation(view, words)
    if verb == "submit":
        if task is None:
            raise BadChange("its task isn't there")
        return with_one_more(view, task.lowered.shape, task.lowered.priority)
    if verb not in OF_WORK:
        known = meant(verb, FORMS) if verb else ""
        raise BadChange(f"`{verb}` is no change{known}" if verb else "nothing is changed")
    if len(words) != (2 if verb == "priority" else 1):
        raise BadChange(f"write `{FORMS[verb][0]}`")
    one = work[words[0]]
    if verb == "priority":
        return with_priority(view, one.id, one.name, words[1:])
    return without(view, one.id, one.live_run.id if one.live_run is not None else None)


def _help(phrase: str) -> str:
    verb = (phrase.split() or [""])[0]
    if verb in FORMS:
        return f"write `{FORMS[verb][0]}`"
    return f"changes are {', '.join(FORMS)}"


def rows_of(
    supposed: Supposed,
    starts: Mapping[WorkloadId, Compared],
    live: Mapping[WorkloadId, Workload],
    task: Task | None,
    owner: str,
) -> tuple[list[WhatIfRow], int]:
    """Everybody for whom the change matters, as they stand in line; how many wait as before."""
    was, now = outcomes_of(supposed.before), outcomes_of(supposed.after)
    had_none, have_none = placeless(supposed.before), placeless(supposed.after)
    found: list[WhatIfRow] = []
    unchanged = 0
    for id in dict.fromkeys((*now, *was, *starts)):
        if id not in live and id != NOBODY:
            continue
        pair = starts.get(id, Compared())
        before, after = _fate(was.get(id), pair.before), _fate(now.get(id), pair.after)
        if id in have_none and id not in had_none:
            after = replace(after, why=NO_PLACE, code="no_cluster")
        change = change_of(before, after, pair)
        if not change and id != NOBODY:
            unchanged += 1
            continue
        one = live.get(id)
        name = one.name if one is not None else task.name if task is not None else ""
        found.append(
            WhatIfRow(
                id=id,
                name=name,
                owner=one.owner if one is not None else owner,
                queue=one.queue
                if one is not None
                else supposed.task.queue
                if supposed.task
                else "",
                before=before,
                after=after,
                change=NEW if id == NOBODY else change,
                earlier=pair.earlier,
                later=pair.later,
                futures=pair.futures,
            )
        )
    return found, unchanged


def _fate(found: Outcome | None, forecast: Forecast | None) -> Fate:
    told = Fate() if found is None else Fate(found.what, found.why, found.code)
    return replace(told, forecast=None if forecast is None else forecast_view(forecast))


def change_of(before: Fate, after: Fate, pair: Compared) -> str:
    """What becomes of it, in a word; "" = nothing that matters."""
    if after.what != before.what and STOPS in (after.what, before.what):
        return "stopped" if after.what == STOPS else "spared"
    if after.what == STARTS != before.what:
        return "earlier"
    if after.what == WHEN_ROOM and before.what not in {STARTS, WHEN_ROOM}:
        return "earlier"
    if before.what and not after.what:
        return "gone"
    if pair.earlier and pair.later:
        return "mixed"
    if pair.earlier or pair.later:
        return "earlier" if pair.earlier else "later"
    moved_ms = _latest_ms(pair.after) - _latest_ms(pair.before)
    if abs(moved_ms) >= SOON_MS and pair.before is not None and pair.after is not None:
        return "later" if moved_ms > 0 else "earlier"
    return "reason" if (before.what, before.code) != (after.what, after.code) else ""


def _latest_ms(told: Forecast | None) -> int:
    """By when it starts in any case; where no length is known, limits may still bound it."""
    return NEVER if told is None or told.latest_ms is None else told.latest_ms


def over_of(supposed: Supposed, work: Sequence[Workload]) -> list[OverQuota]:
    """Queues and cohorts that would use more than they may."""
    before, after = (
        derived(one.queueing or QueueObjects(), [part.cluster for part in one.clusters])
        for one in supposed[:2]
    )
    return [over_view(one) for one in newly_over(before, after, work)] if before != after else []
