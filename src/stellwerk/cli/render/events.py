"""One line per fact of the journal: number, time, who, and a sentence."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from stellwerk.cli.render.table import Column
from stellwerk.cli.render.units import clock, plural
from stellwerk.client.wire import EventRecord
from stellwerk.core.model import events as ev
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.draining import moment
from stellwerk.server.story import sentence

NAMES = 8


def columns(now_ms: int, names: Mapping[str, str]) -> list[Column[EventRecord]]:
    """What `events` and `story` show."""
    return [
        Column("seq", "SEQ", lambda record: str(record.seq), lambda record: record.seq, right=True),
        Column(
            "time", "TIME", lambda record: clock(record.at_ms, now_ms), lambda record: record.at_ms
        ),
        Column("actor", "BY", lambda record: record.actor or "-"),
        Column("type", "TYPE", lambda record: record.type, wide=True),
        Column("about", "ABOUT", lambda record: named(subject(record), names)),
        Column("what", "WHAT", lambda record: what(record, names), grows=True),
    ]


def line_of(record: EventRecord, now_ms: int, names: Mapping[str, str]) -> str:
    """The same as a single line, for a stream whose widths aren't known."""
    parts = [clock(record.at_ms, now_ms), named(subject(record), names), what(record, names)]
    return "  ".join(part for part in parts if part != "-")


def subject(record: EventRecord) -> str:
    """The workload, cluster or shape that a fact is about."""
    event = record.event
    if record.type == "submitted":
        return str(event.get("submit", {}).get("name", "-"))
    if record.type == "cluster-observed":
        return str(event.get("cluster", {}).get("name", "-"))
    if record.type in {"cluster-drained", "cluster-resumed", "cluster-removed"}:
        nodes = ",".join(event.get("nodes") or ())
        return f"{event.get('cluster', '-')}/{nodes}".rstrip("/")
    if record.type in {"node-quarantined", "node-resumed"}:
        return f"{event.get('cluster', '-')}/{event.get('node', '-')}"
    if record.type == "placement-applied":
        placement = event.get("placement", {})
        return f"{placement.get('namespace', '')}/{placement.get('name', '')}"
    if record.type.startswith("placement-"):
        return str(event.get("key", "-"))
    if record.type == "queue-object-applied":
        event = event.get("object", {})
    if record.type.startswith("queue-object-"):
        space = event.get("namespace", "")
        return f"{space}/{event.get('name', '-')}" if space else str(event.get("name", "-"))
    if record.type == "calendar-set":
        event = event.get("calendar", {})
    if record.type.startswith("calendar-"):
        return str(event.get("cluster", "-"))
    if record.type == "reservation-made":
        event = event.get("reservation", {})
    if record.type == "fleet-declared" or record.type.startswith("reservation-"):
        return str(event.get("name", "-"))
    if workload := event.get("workload") or event.get("id"):
        return str(workload)
    if run := event.get("run"):
        return str(run).rpartition("-")[0]
    return str(event.get("shape", "-"))


def named(about: str, names: Mapping[str, str]) -> str:
    """The name that belongs to an id."""
    return names.get(about, about)


def what(record: EventRecord, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """A sentence; a type that this version doesn't know is named."""
    try:
        known = msgspec.convert(msgspec.to_builtins(record), ev.Record)
    except msgspec.ValidationError:
        return f"{record.type} (a fact this version does not know)"
    return sentence(known, lambda about: named(about, names)) or _of_no_workload(known.event)


def _of_no_workload(event: ev.Event) -> str:
    match event:
        case ev.LeaderChanged():
            return f"a server leads, epoch {event.epoch}, version {event.version}"
        case ev.ClusterObserved():
            nodes, devices = event.cluster.nodes, sum(len(n.devices) for n in event.cluster.nodes)
            cpus = sum(node.cpus_milli for node in nodes) // 1000
            return f"has {plural(len(nodes), 'node')}, {cpus} CPUs, {plural(devices, 'GPU')}"
        case ev.NodeQuarantined():
            return f"quarantined: {render(event.reason).sentence}"
        case ev.NodeResumed():
            return "resumed"
        case ev.ClusterDrained():
            until = f" until {moment(event.until_ms)}" if event.until_ms else ""
            return f"drained: nothing new starts there{until}"
        case ev.ClusterResumed():
            return "resumed"
        case ev.ClusterRemoved():
            return "removed"
        case ev.ShapeWaits():
            return f"all of this shape wait: {', '.join(r.code for r in event.reasons[:NAMES])}"
        case ev.FleetDeclared():
            return f"declares {plural(event.clusters, 'cluster')}"
        case ev.PlacementApplied():
            return "placement applied"
        case ev.PlacementDeleted():
            return "placement deleted"
        case ev.PlacementDecided():
            return f"chosen: {_some(event.decided.clusters)}"
        case ev.OwnPlacementDecided():
            clusters = tuple(dict.fromkeys(one.cluster for one in event.decided.ranked))
            return f"work with wishes may start on: {_some(clusters)}"
        case ev.QueueObjectApplied():
            return f"{event.object.kind} applied"
        case ev.QueueObjectDeleted():
            return f"{event.kind} deleted"
        case ev.ReservationMade(reservation=one):
            from_ms = moment(one.spans[0].from_ms)
            return f"{one.wanted} of {one.cluster} reserved for {one.holder} from {from_ms}"
        case ev.ReservationMoved():
            return f"can't be kept: {event.broken}" if event.broken else "kept on other nodes"
        case ev.ReservationOver():
            return f"reservation {event.why}"
        case ev.CalendarSet(calendar=one):
            return f"may be used in {plural(len(one.windows), 'window')} of the next days"
        case ev.CalendarRemoved():
            return "may be used at any time"
    return ""


def _some(clusters: tuple[str, ...]) -> str:
    more = f" and {len(clusters) - NAMES} more" if len(clusters) > NAMES else ""
    return (", ".join(clusters[:NAMES]) or "none") + more
