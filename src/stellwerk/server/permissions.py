"""The rule of every address: what is done there, and to what. An address without one is closed.

``workload`` is the one in the path, or the array of that name; the rest of a rule, for what a body
names, stands where the body is read (`bulk.py`).
"""

from typing import NamedTuple

from stellwerk.server.policy import Kind, Verb


class Rule(NamedTuple):
    """What somebody does at an address; ``within``: the handler itself looks at each of them."""

    verb: Verb
    kind: Kind = "server"
    within: bool = False


_LOOK, _USE, _GOVERN = Rule("look"), Rule("use"), Rule("govern")
_EACH = Rule("use", within=True)


def _on_workload(verb: Verb) -> Rule:
    return Rule(verb, "workload")


RULES: dict[str, Rule] = {
    "GET /v1/openapi.json": _LOOK,
    "GET /v1/server": _LOOK,
    "GET /v1/usage": Rule("look", within=True),
    "GET /v1/fair": Rule("look", within=True),
    "GET /metrics": _LOOK,
    "POST /v1/server/stop": _GOVERN,
    "POST /v1/gc": _GOVERN,
    "POST /v1/workloads": _USE,
    "POST /v1/workloads/batch": _USE,
    "POST /v1/plan": _USE,
    "GET /v1/workloads": Rule("look", within=True),
    "GET /v1/arrays": Rule("look", within=True),
    "GET /v1/arrays/{name}": Rule("look", within=True),
    "GET /v1/forecast": Rule("look", within=True),
    "GET /v1/events": Rule("look", within=True),
    "GET /v1/workloads/{ref}": _on_workload("look"),
    "GET /v1/workloads/{ref}/wait": _on_workload("look"),
    "GET /v1/workloads/{ref}/explain": _on_workload("look"),
    "GET /v1/workloads/{ref}/explain/{cluster}": _on_workload("look"),
    "POST /v1/workloads/{ref}/if": _on_workload("look"),
    "GET /v1/workloads/{ref}/difference": _on_workload("look"),
    "GET /v1/workloads/{ref}/replay": _on_workload("look"),
    "GET /v1/workloads/{ref}/logs": _on_workload("read"),
    "GET /v1/workloads/{ref}/files": _on_workload("read"),
    "GET /v1/workloads/{ref}/content": _on_workload("read"),
    "POST /v1/workloads/{ref}/exec": _on_workload("enter"),
    "POST /v1/workloads/{ref}/cancel": _on_workload("steer"),
    "POST /v1/workloads/{ref}/hold": _on_workload("steer"),
    "POST /v1/workloads/{ref}/release": _on_workload("steer"),
    "POST /v1/workloads/{ref}/priority": _on_workload("steer"),
    "POST /v1/workloads/{ref}/lost": _on_workload("steer"),
    "POST /v1/workloads/{ref}/move": _on_workload("steer"),
    "POST /v1/workloads/{ref}/check": _GOVERN,
    "POST /v1/workloads/{ref}/rerun": _on_workload("steer"),
    "POST /v1/workloads/change": _EACH,
    "POST /v1/blobs/missing": _USE,
    "POST /v1/blobs/batch": _USE,
    "PUT /v1/blobs/{hash}": _USE,
    "GET /v1/blobs/{hash}": _USE,
    "GET /v1/clusters": _LOOK,
    "GET /v1/clusters/{name}": _LOOK,
    "GET /v1/gpus/history": _LOOK,
    "POST /v1/clusters/{name}/nodes/{node}/resume": Rule("tend", "cluster"),
    "POST /v1/clusters/{name}/drain": Rule("tend", "cluster"),
    "POST /v1/clusters/{name}/resume": Rule("tend", "cluster"),
    "POST /v1/clusters/{name}/share": Rule("tend", "cluster"),
    "POST /v1/clusters/{name}/tokens": _EACH,
    "GET /v1/clusters/{name}/tokens": Rule("tend", "cluster"),
    "DELETE /v1/clusters/{name}/tokens/{which}": Rule("tend", "cluster"),
    "GET /v1/ssh-clusters": _LOOK,
    "POST /v1/ssh-clusters": _EACH,
    "POST /v1/ssh-clusters/{name}/probe": Rule("tend", "cluster"),
    "DELETE /v1/ssh-clusters/{name}": Rule("tend", "cluster"),
    "POST /v1/apply": _GOVERN,
    "POST /v1/fleet/apply": _GOVERN,
    "GET /v1/queueing/objects": _LOOK,
    "POST /v1/queueing/objects/delete": _GOVERN,
    "GET /v1/queueing/line": Rule("look", within=True),
    "GET /v1/queueing/queues": _LOOK,
    "GET /v1/queueing/quota": _LOOK,
    "POST /v1/whatif": _EACH,
    "GET /v1/calendars": _LOOK,
    "GET /v1/calendars/{name}": _LOOK,
    "POST /v1/calendars/{name}": _GOVERN,
    "POST /v1/calendars/{name}/override": _GOVERN,
    "DELETE /v1/calendars/{name}": _GOVERN,
    "GET /v1/data": _LOOK,
    "POST /v1/clusters/{name}/data/stage": Rule("tend", "cluster"),
    "POST /v1/clusters/{name}/data/remove": Rule("tend", "cluster"),
    "GET /v1/reservations": _LOOK,
    "GET /v1/reservations/{name}": _LOOK,
    "POST /v1/reservations": _GOVERN,
    "DELETE /v1/reservations/{name}": _GOVERN,
    "GET /v1/placements": _LOOK,
    "GET /v1/placements/{namespace}/{name}": _LOOK,
    "POST /v1/placements/{namespace}/{name}/delete": _GOVERN,
    "POST /v1/placements/{namespace}/{name}/explain": _LOOK,
    "GET /v1/placements/{namespace}/{name}/history": _LOOK,
    "GET /v1/placed/{decision}/replay": _LOOK,
    "GET /v1/placed/difference": _LOOK,
    "POST /v1/runtimes": _USE,
    "POST /v1/runtimes/sessions/{session}": _USE,
}


def rule_of_address(method: str, template: str) -> Rule | None:
    """The rule of an address (`/v1/workloads/{ref}`); None where there is none."""
    return RULES.get(f"{method} {template}")
