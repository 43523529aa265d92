"""Takes a fleet file in: all that is wrong with it at once, else what it changes."""

import os
import re
from collections.abc import Iterable, Sequence

import msgspec

from stellwerk.core.describe.applied import KINDS, AppliedRead, read_applied
from stellwerk.core.describe.fleet import FleetRead
from stellwerk.core.inventory.live import FleetFacts
from stellwerk.core.inventory.merge import merge
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.commands import ApplyFleet, ApplyQueues
from stellwerk.core.model.errors import Notice, Problem, SpecError
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.ids import BlobHash
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.queue_object import QueueObject
from stellwerk.core.model.scoring import ScoreSource
from stellwerk.core.model.standing import NOT_YET, Declared, Standing
from stellwerk.core.queueing_changes import changes_of
from stellwerk.core.queueing_objects import QueueingNow, moved
from stellwerk.core.standing import left_to_jobs
from stellwerk.engine.placements import Placements
from stellwerk.engine.standing_work import read_facts
from stellwerk.server import standing_models as models
from stellwerk.server.placements import condition
from stellwerk.server.queueing import change_view
from stellwerk.store import Store

NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,79}")
STDIN = "stdin"
LOCAL = "local"
NO_CLUSTER = "fleet/no-cluster"
EMPTIED = "placement/emptied"


class Reading(msgspec.Struct, frozen=True):
    """A fleet file without a fault."""

    name: str
    read: FleetRead
    facts: FleetFacts
    objects: tuple[QueueObject, ...] = ()
    notices: tuple[Notice, ...] = ()

    @property
    def of_a_fleet(self) -> bool:
        """Whether it says anything of a fleet, not of queueing alone."""
        return bool(self.facts.sources or self.facts.placements or self.facts.score_sources)


def read(body: models.ApplyBody, now_ms: int, queueing: QueueingNow) -> Reading:
    """Reads a file; raises SpecError with everything that is wrong with it, by itself or beside the
    objects of queueing that there are.
    """
    name = body.name or os.path.basename(body.file) or STDIN
    whole = read_applied(body.text, file=body.file, now_ms=now_ms, known=queueing.objects)
    found = whole.fleet
    problems = [*whole.problems, *moved(queueing.kept, whole.objects, whole.places)]
    problems += _nothing(whole, body.file)
    if NAME.fullmatch(name) is None:
        message = f"`{name[:80]}` can't be the name of a fleet file"
        help = "letters, digits, `-`, `_` and `.`; give one with `--as NAME`"
        problems.append(Problem("fleet/name", message, help))
    problems += _troubles(found.placements, body)
    if problems:
        raise SpecError(sorted(problems, key=lambda one: (one.line, one.column)))
    keys = tuple(one.key for one in found.placements)
    facts = FleetFacts(found.sources, keys, found.score_sources)
    return Reading(name, found, facts, whole.objects, whole.notices)


def _nothing(whole: AppliedRead, file: str) -> list[Problem]:
    """That a file has objects, and none of them means anything here."""
    counted = whole.objects or whole.fleet.sources or whole.fleet.placements
    if counted or whole.fleet.score_sources or whole.problems or not whole.passed_over:
        return []
    told = whole.notices[0].message if whole.notices else "its objects are of other kinds"
    message = f"nothing in the file can be applied: {told}"
    return [Problem("apply/nothing", message, f"kinds are {', '.join(KINDS)}", file=file)]


def refuse_nothing(one: Reading, was: "Was", file: str) -> None:
    """Refuses a file without any object; of a file that is known it says that all of it is gone."""
    if not (one.of_a_fleet or one.objects or was.known is not None):
        message, help = "there is no object in the file", f"kinds are {', '.join(KINDS)}"
        raise SpecError([Problem("apply/nothing", message, help, file=file)])


def _troubles(placements: Sequence[Placement], body: models.ApplyBody) -> list[Problem]:
    """What makes placements ones that can't be decided."""
    if not placements:
        return []
    from stellwerk.core.place.placement_problems import problems_in

    return problems_in(placements, body.text, body.file)


def commands_of(
    store: Store, body: models.ApplyBody, one: Reading, was: "Was"
) -> list[ApplyFleet | ApplyQueues]:
    """The commands that take a file over: of a fleet where it says or said anything of one."""
    found: list[ApplyFleet | ApplyQueues] = []
    if one.of_a_fleet or was.known is not None or not one.objects:
        found.append(command_of(store, body, one, was))
    if one.objects:
        found.append(ApplyQueues(one.objects))
    return found


def command_of(store: Store, body: models.ApplyBody, one: Reading, was: "Was") -> ApplyFleet:
    """The command, with what it refers to stored; facts that say the same are those there are."""
    known = was.known
    if known is not None and was.said == said(one.facts):
        return ApplyFleet(one.name, known.text, known.facts, known.clusters, one.read.placements)
    return ApplyFleet(
        name=one.name,
        text=BlobHash(store.blobs.put(body.text.encode())),
        facts=BlobHash(store.blobs.put(msgspec.json.encode(one.facts))),
        clusters=len(one.read.fleet.clusters),
        placements=one.read.placements,
    )


Said = tuple[Fleet, tuple[str, ...], tuple[ScoreSource, ...]]


def said(facts: FleetFacts) -> Said:
    """What a file says, whenever that was."""
    merged = msgspec.structs.replace(merge(facts.sources), told={})
    return merged, facts.placements, facts.score_sources


def answer(
    store: Store,
    one: Reading,
    was: "Was",
    now: dict[str, tuple[list[str], list[models.ConditionView]]],
    queueing: QueueingNow,
    *,
    dry_run: bool,
) -> models.Applied:
    """What a file changed, or would change; `now` are the decisions after it, `queueing` the
    objects of queueing before it.
    """
    clusters = {each.name: each for each in one.read.fleet.clusters}
    declared = was.declared
    own = [placement.key for placement in one.read.placements]
    listed = []
    for placement in one.read.placements:
        before = was.standing.get(placement.key)
        change = "new"
        if before is not None:
            change = "same" if before.placement == placement else "changed"
        listed.append(_applied(placement.key, change, was, now))
    moved = [
        _applied(key, "same", was, now)
        for key in now
        if key not in own and now[key][0] != was.clusters(key)
    ]
    return models.Applied(
        name=one.name,
        dry_run=dry_run,
        clusters=len(clusters),
        added=[name for name in clusters if name not in declared],
        changed=[n for n in clusters if n in declared and declared[n] != clusters[n]],
        removed=[name for name in declared if name not in clusters],
        placements=listed,
        moved=moved,
        notices=[
            *_emptied(moved, one.name, dry_run=dry_run),
            *_from_others(was, own),
            *_of_jobs(one.read.placements),
            *named_otherwise(clusters.values(), (here for here, _ in store.clusters())),
            *(each for each in one.notices if not was.knows(each)),
            *_left_out(was, own),
        ],
        seq=store.seq(),
        objects=[
            change_view(each, whole=dry_run) for each in changes_of(queueing.kept, one.objects)
        ],
    )


class Was(msgspec.Struct, frozen=True):
    """What there was before: what the file of this name said, and all placements."""

    known: Declared | None
    said: Said
    standing: dict[str, Standing]
    elsewhere: dict[str, str] = {}
    """The placements of other files, with the name of the file."""
    named: dict[str, bool] = {}
    """The clusters of other files, and those that drivers found."""

    @property
    def declared(self) -> dict[str, Cluster]:
        """The clusters of the file."""
        return {one.name: one for one in self.said[0].clusters}

    def knows(self, notice: Notice) -> bool:
        """Whether a file misses a cluster that isn't in it, and that there is all the same."""
        return notice.code == NO_CLUSTER and notice.path in self.named

    def clusters(self, key: str) -> list[str]:
        """What a placement had."""
        one = self.standing.get(key)
        return list((one.decided or NOT_YET).clusters) if one is not None else []


def before(store: Store, name: str) -> Was:
    """What the file of this name said until now."""
    standing = {one.placement.key: one for one in store.placements()}
    declared = store.declared()
    others = {
        each.name: msgspec.json.decode(store.blobs.get(each.facts), type=_Keys)
        for each in declared
        if each.name != name
    }
    elsewhere = {key: file for file, said in others.items() for key in said.placements}
    named = {each.name: True for each, _ in store.clusters()}
    for said_there in others.values():
        for source in said_there.sources:
            named |= {each.name: True for each in source.fleet.clusters if source.whole}
    known = next((each for each in declared if each.name == name), None)
    if known is None:
        return Was(None, (Fleet(clusters=()), (), ()), standing, elsewhere, named)
    return Was(known, said(read_facts(store.blobs.get(known.facts))), standing, elsewhere, named)


class _Named(msgspec.Struct):
    name: str


class _Fleet(msgspec.Struct):
    clusters: tuple[_Named, ...] = ()


class _Source(msgspec.Struct):
    fleet: _Fleet
    whole: bool = True


class _Keys(msgspec.Struct):
    """Which placements and clusters are in a file: all that is read here of what it says."""

    placements: tuple[str, ...] = ()
    sources: tuple[_Source, ...] = ()


def _applied(
    key: str,
    change: str,
    was: Was,
    now: dict[str, tuple[list[str], list[models.ConditionView]]],
) -> models.AppliedPlacement:
    clusters, conditions = now.get(key, (was.clusters(key), []))
    return models.AppliedPlacement(key, change, was.clusters(key), clusters, conditions)


def _left_out(was: Was, own: Sequence[str]) -> list[Notice]:
    """A placement that isn't in its file any more stays; that is said."""
    return [
        Notice(
            "placement/left-out",
            f"{key} was in this file before and isn't any more; it stays as it is",
            f"`stw placement delete {key}` removes it",
        )
        for key in was.said[1]
        if key not in own and key in was.standing
    ]


def _emptied(moved: Iterable[models.AppliedPlacement], name: str, *, dry_run: bool) -> list[Notice]:
    """A placement of another file that is left without any cluster; that is said first."""
    verb = "would take" if dry_run else "takes"
    return [
        Notice(
            EMPTIED,
            f"{name} {verb} all clusters from {one.key}, which isn't in it: "
            + (one.conditions[0].message if one.conditions else "it had " + ", ".join(one.before)),
            f"`stw placement explain {one.key}` says why of each cluster",
        )
        for one in moved
        if one.before and not one.clusters
    ]


def _from_others(was: Was, own: Iterable[str]) -> list[Notice]:
    """A placement is as the file says that was applied last; that two say it is told."""
    return [
        Notice(
            "placement/elsewhere",
            f"{key} moves from {was.elsewhere[key]}, which says it too; what is applied last holds",
            "keep it in one of the two files",
        )
        for key in own
        if key in was.elsewhere and key in was.standing
    ]


def named_otherwise(clusters: Iterable[Cluster], here: Iterable[Cluster]) -> list[Notice]:
    """A file that means the machine of the server by its driver has to name it as it is named."""
    mine = [each.name for each in here if each.driver == LOCAL]
    return [
        Notice(
            "fleet/named-otherwise",
            f"{one.name} has the driver `{LOCAL}`, and this machine is called `{mine[0]}` here, so"
            f" {one.name} is only declared",
            f"name it `{mine[0]}`, if this machine is meant",
        )
        for one in clusters
        if one.driver == LOCAL and mine and one.name not in mine
    ]


def _of_jobs(placements: Iterable[Placement]) -> list[Notice]:
    """What doesn't bound a standing decision."""
    return [
        Notice(
            "placement/of-jobs",
            f"{one.key}: {' and '.join(left)} {'depends' if len(left) == 1 else 'depend'} on the"
            " job, so the standing decision isn't bounded by it",
            "work with wishes of its own is held to it; `stw plan --fleet` asks it of each job",
        )
        for one in placements
        if (left := left_to_jobs(one))
    ]


def decided_of(
    standing: Iterable[Standing],
) -> dict[str, tuple[list[str], list[models.ConditionView]]]:
    """What all placements have."""
    return {
        one.placement.key: (
            list((one.decided or NOT_YET).clusters),
            [condition(each) for each in (one.decided or NOT_YET).conditions],
        )
        for one in standing
    }


def would_be(
    placements: Placements, one: Reading
) -> dict[str, tuple[list[str], list[models.ConditionView]]]:
    """What placements would get; only those that would get something else."""
    answers = placements.what_if_applied(one.name, one.facts, one.read.placements)
    return {
        each.key: (list(each.decided.clusters), [condition(c) for c in each.decided.conditions])
        for each in answers
    }
