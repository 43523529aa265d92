"""One candidate of a workload, what if, why it was decided otherwise, and each decision again.

What takes columns (numpy) is loaded when it is first asked for, so that no start waits for it.
"""

import asyncio
from typing import Annotated

from litestar import get, post
from litestar.params import FromPath, JSONBody, QueryParameter

from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.ids import DecisionId
from stellwerk.core.model.workload import WAITING
from stellwerk.server import explain_models as models
from stellwerk.server import standing_models
from stellwerk.server.seeing import AnyRequest, seeing
from stellwerk.server.services import SETTLE_S, Given

RunOf = Annotated[
    int, QueryParameter(name="run", ge=0, description="The decision of this run; else the newest.")
]
FirstOf = Annotated[str, QueryParameter(name="first", description="A decision; else the last two.")]
SecondOf = Annotated[str, QueryParameter(name="second", description="Another one, or `now`.")]
DecisionOf = Annotated[str, QueryParameter(name="decision", description="Else the newest.")]


@get(
    "/workloads/{ref:str}/explain/{cluster:str}",
    tags=["workloads"],
    summary="Explain one candidate",
)
async def explain_candidate(
    ref: FromPath[str], cluster: FromPath[str], services: Given, run: RunOf = 0
) -> models.OnCluster:
    """Everything about one cluster as a candidate: rules with numbers, what would let the workload
    start there, its nodes, scores, and its place in the placement's decision. Of what waits it is
    as of now, of a run as it was decided.
    """
    workload = await services.find(ref)
    await services.settled(SETTLE_S)
    store, view = services.store, services.engine.view()
    known = services.engine.placements.rows
    if workload.phase in WAITING and not run:

        def ask_now() -> models.OnCluster:
            from stellwerk.server import one_cluster

            return one_cluster.of_now(store, view, workload, cluster, known)

        return await asyncio.to_thread(ask_now)
    runs = [one for one in workload.runs if not run or one.number == run]
    found = store.decision(DecisionId(runs[-1].decision)) if runs else None
    if not runs or found is None:
        what = f"{workload.name} has no run {run}" if run else f"{workload.name} never had a run"
        numbers = ", ".join(str(one.number) for one in workload.runs)
        help = f"its runs are {numbers}" if numbers else "so it was decided for no cluster"
        raise StellwerkError.of("find/run", what, help)
    decision = found[0]

    def ask() -> models.OnCluster:
        from stellwerk.server import one_cluster

        number, limits = runs[-1].number, view.limits
        return one_cluster.of_decision(store, workload, decision, number, cluster, known, limits)

    return await asyncio.to_thread(ask)


@post(
    "/workloads/{ref:str}/if",
    tags=["workloads"],
    summary="What if",
    status_code=200,
)
async def what_if(
    ref: FromPath[str], data: JSONBody[models.IfBody], services: Given
) -> models.IfAnswer:
    """Where the workload would go now if things were so, or why it would wait; before and after."""
    workload = await services.find(ref)
    await services.settled(SETTLE_S)
    store, engine, view = services.store, services.engine, services.engine.view()

    def ask() -> models.IfAnswer:
        from stellwerk.server import what_if as asking

        return asking.what_if(store, engine, view, workload, data.changes)

    return await asyncio.to_thread(ask)


@get(
    "/workloads/{ref:str}/difference",
    tags=["workloads"],
    summary="Compare decisions",
)
async def compare_decisions(
    ref: FromPath[str],
    request: AnyRequest,
    services: Given,
    first: FirstOf = "",
    second: SecondOf = "",
) -> standing_models.Difference:
    """Why one decision about the workload isn't another: inputs, verdicts and scores."""
    workload = await services.find(ref)
    store, view, eyes = services.store, services.engine.view(), seeing(request)

    def ask() -> standing_models.Difference:
        from stellwerk.server import decided

        def shows(owner: str) -> bool:
            return eyes.how(owner) != "nothing"

        return decided.difference(store, workload, view, first, second, shows)

    return await asyncio.to_thread(ask)


@get(
    "/workloads/{ref:str}/replay",
    tags=["workloads"],
    summary="Replay a decision",
)
async def replay_decision(
    ref: FromPath[str], services: Given, decision: DecisionOf = ""
) -> standing_models.Replayed:
    """Decides again what was decided, on what the journal says of that moment."""
    workload, store = await services.find(ref), services.store
    limits = services.engine.view().limits

    def ask() -> standing_models.Replayed:
        from stellwerk.server import decided

        return decided.replay(store, workload, decision, limits)

    return await asyncio.to_thread(ask)


HANDLERS = [explain_candidate, what_if, compare_decisions, replay_decision]
