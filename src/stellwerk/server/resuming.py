"""Finds what an ended workload has saved, so that a new one can go on from it; or says why not."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.workload import ENDED, Workload
from stellwerk.drivers.base import DriverError, KnowsCheckpoints, Saved
from stellwerk.server.services import PROJECT, Services

LONGEST_CHAIN = 100
"""So many workloads that each went on from the one before are looked through."""


class Found(NamedTuple):
    """The workload whose checkpoints they are, the cluster where they lie, the newest last."""

    workload: Workload
    cluster: str
    checkpoints: Sequence[Saved]


async def saved_of(services: Services, workload: Workload) -> Found:
    """The whole checkpoints of a workload that is over; raises where there is nothing to go on
    from.

    One that ended before it got to save has what it started with itself.
    """
    if workload.phase not in ENDED:
        raise StellwerkError.of(
            "phase/not-ended",
            f"{workload.name} is {workload.phase}: while it isn't over it goes on by itself",
            f"`stw cancel {workload.name}` ends it, with time to save; then this again",
        )
    one: Workload | None = workload
    for _ in range(LONGEST_CHAIN):
        if one is None:
            break
        found = await _look(services, one)
        if found is not None:
            return found
        row = services.store.workload(one.resumes, PROJECT) if one.resumes else None
        one = row.workload if row is not None else None
    raise StellwerkError.of(
        "resume/no-checkpoints",
        f"{workload.name} left no whole checkpoint in its $STELLWERK_CHECKPOINT_DIR",
        f"`stw rerun {workload.name}` starts it anew; `stw ls {workload.name} checkpoints:` shows "
        "what is there",
    )


async def _look(services: Services, workload: Workload) -> Found | None:
    """What lies on the clusters where its runs were, the last one first."""
    names = dict.fromkeys(run.allocation.cluster for run in reversed(workload.runs))
    for cluster in names:
        driver: object = services.engine.driver(cluster)
        if not isinstance(driver, KnowsCheckpoints):
            continue
        try:
            checkpoints = await driver.checkpoints(workload.id)
        except DriverError as error:
            if error.code == "runtime/too_old":
                raise StellwerkError.of(
                    "resume/too-old",
                    f"the runtime on {cluster} is older, and starts nothing with checkpoints",
                    "once nothing runs there, `stw server stop` and `stw server start` replace it",
                ) from error
            raise StellwerkError.of(
                "resume/unreachable",
                f"the checkpoints of {workload.name} on {cluster} can't be looked at: "
                f"{_readable(error.message)}",
                "try again when `stw clusters` shows it ready",
            ) from error
        if checkpoints:
            told = [replace(one, name=_readable(one.name)) for one in checkpoints]
            return Found(workload, cluster, told)
    return None


def _readable(text: str) -> str:
    """A name of a file may hold what is no text, or moves a terminal's cursor."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def only_on(shape: Shape, cluster: str) -> Shape:
    """The same shape, to be placed on one cluster alone: where the checkpoints are."""
    alternatives = (replace(one, infra=cluster) for one in shape.alternatives)
    return replace(shape, alternatives=tuple(dict.fromkeys(alternatives)))
