"""Says how waiting work stands in its queue: of one everything, of many who holds what it lacks."""

from collections.abc import Mapping, Sequence

import msgspec

from stellwerk.core.contenders import Contender
from stellwerk.core.describe.fleet_amounts import write_kubernetes
from stellwerk.core.in_line import InLine, in_line, quota_in
from stellwerk.core.model.ids import ShapeId, WorkloadId
from stellwerk.core.model.workload import Workload
from stellwerk.core.view import View
from stellwerk.server import models
from stellwerk.server.holders import holders_of
from stellwerk.server.seeing import Seeing
from stellwerk.server.services import PROJECT, Services
from stellwerk.server.waiting_models import (
    ContenderView,
    LineItem,
    NarrowView,
    RisesView,
    StandingView,
    WayView,
)
from stellwerk.store import Store

MOST_CONTENDERS = 20
NAMES = 3


def standing_of(store: Store, view: View, id: WorkloadId) -> StandingView | None:
    """How one stands; None if it is too far back to be looked at."""
    found = in_line(view, id, quota_in(view))
    if found is None:
        return None
    shown = found.contenders[:MOST_CONTENDERS]
    return StandingView(
        queue=found.queue,
        place=found.place,
        waiting=found.waiting,
        ahead_wants=_written(found.ahead_wants),
        narrow=[
            NarrowView(
                one.flavor, one.resource, write_kubernetes(one.wanted),
                _signed(one.available), one.level,
            )
            for one in found.narrow
        ],
        contenders=[_contender(store, one) for one in shown],
        more_contenders=len(found.contenders) - len(shown),
        rises=_rises(found),
        ways=[WayView(one.kind, _named(store, one.change), one.then) for one in found.ways],
    )  # fmt: skip


def _rises(found: InLine) -> RisesView | None:
    one = found.rises
    return None if one is None else RisesView(**msgspec.structs.asdict(one))


def _contender(store: Store, one: Contender) -> ContenderView:
    row = store.workload(one.workload, PROJECT)
    return ContenderView(
        id=one.workload,
        name=one.name,
        owner=row.workload.owner if row is not None else "",
        queue=one.queue,
        priority=one.priority,
        holds=_written(one.holds),
        standing=one.standing,
        why=one.why,
        until_ms=one.until_ms or None,
    )


def _named(store: Store, change: str) -> str:
    """A change with the name of a workload in the place of its id."""
    verb, _, id = change.partition(" ")
    row = store.workload(id, PROJECT) if verb == "cancel" else None
    return f"{verb} {row.workload.name}" if row is not None else change


def _written(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: write_kubernetes(amount) for name, amount in amounts.items() if amount}


def _signed(amount: int) -> str:
    return f"-{write_kubernetes(-amount)}" if amount < 0 else write_kubernetes(amount)


def line_of(services: Services, view: View, ids: Sequence[str], eyes: Seeing) -> list[LineItem]:
    """Every reason of those that wait, and who holds what they lack; equal work only once."""
    known: dict[ShapeId, tuple[InLine | None, list[tuple[str, str]]]] = {}
    quota, items = quota_in(view), []
    for id in ids:
        row = services.store.workload(id, PROJECT)
        if row is None or eyes.how(row.workload.owner) == "nothing":
            continue
        one = row.workload
        page = services.pages.explain(one, 0, view)
        if one.shape not in known:
            stands = in_line(view, one.id, quota, ways=False)
            known[one.shape] = stands, _holders(services, view, one, stands, page)
        stands, holders = known[one.shape]
        seen = [name for name, owner in holders if name and eyes.how(owner) != "nothing"]
        items.append(
            LineItem(
                id=one.id,
                reasons=page.reasons,
                held_by=seen[:NAMES],
                more_holders=len(holders) - len(seen[:NAMES]),
                queue=stands.queue if stands is not None else "",
            )
        )
    return items


def _holders(
    services: Services,
    view: View,
    one: Workload,
    stands: InLine | None,
    page: models.Explain,
) -> list[tuple[str, str]]:
    """Names and owners of those who hold most of what it lacks, by quota or by room."""
    if stands is not None and stands.narrow:
        holders = sorted(stands.contenders, key=lambda each: -sum(each.holds.values()))
        rows = [(each.name, services.store.workload(each.workload, PROJECT)) for each in holders]
        return [(name, row.workload.owner if row is not None else "") for name, row in rows]
    lacked = page.current or page.decision
    found, more = holders_of(services.store, services.engine.lengths, view, one, lacked)
    return [(each.name, each.owner) for each in found] + [("", "")] * more
