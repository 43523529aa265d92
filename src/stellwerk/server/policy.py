"""Decides who may do what on a server of several people. Pure: values in, a verdict out.

Everybody does everything with their own work. An administrator (the server's own user and root are
some) does everything but run commands inside of other people's jobs, which would be to act as them.
What is seen of other people's work the server's ``visibility`` says.
"""

from typing import Literal

from msgspec import Struct

Visibility = Literal["all", "names", "own"]
"""What is seen of other people's work: everything that can be read; that it is there, whose, and
what it holds; or nothing."""

Verb = Literal["look", "read", "steer", "enter", "use", "tend", "govern"]
"""``look``: that something is there, and how it does. ``read``: output, files, texts. ``steer``:
cancel, hold, priorities. ``enter``: run commands inside. ``use``: what anybody does for themselves.
``tend``: look after a cluster. ``govern``: change what concerns everybody."""

Kind = Literal["workload", "cluster", "server"]
MOST_PRIORITY = 1000


class Actor(Struct, frozen=True):
    """Who asks. ``is_root`` is whoever could become anybody without asking."""

    name: str
    is_admin: bool = False
    is_root: bool = False


class Thing(Struct, frozen=True):
    """What is asked about; of the server nobody is the owner."""

    kind: Kind = "server"
    name: str = ""
    owner: str = ""


SERVER = Thing()


class Policy(Struct, frozen=True):
    """What a server lets people do. Higher priorities than ``max_priority`` are for admins."""

    visibility: Visibility = "names"
    max_priority: int = MOST_PRIORITY


class Allowed(Struct, frozen=True):
    """It may be done."""


class Refused(Struct, frozen=True):
    """It may not: a code, a sentence, and what to do instead; ``hidden`` = it isn't even told."""

    code: str
    message: str
    help: str
    hidden: bool = False


Verdict = Allowed | Refused
ALLOWED = Allowed()
SAID = {
    "look": "see",
    "read": "read what it prints and writes",
    "steer": "change its course",
    "enter": "run commands inside of it",
    "tend": "look after it",
    "govern": "decide about it",
}


def may(actor: Actor, verb: Verb, thing: Thing, policy: Policy) -> Verdict:
    """Whether somebody may do something to a thing."""
    if verb == "use" or actor.is_root:
        return ALLOWED
    if thing.kind == "server":
        return ALLOWED if verb == "look" or actor.is_admin else _governs(actor)
    if thing.kind == "workload" and not thing.owner and policy.visibility != "own":
        return ALLOWED  # it isn't there, which its handler says
    if thing.owner == actor.name or (actor.is_admin and verb != "enter"):
        return ALLOWED
    if thing.kind == "cluster":
        return ALLOWED if verb == "look" else _not_yours(verb, thing)
    seen = sees(actor, thing.owner, policy)
    if seen == "nothing":
        return Refused("find/workload", f"there is no workload `{thing.name}`", "", hidden=True)
    if verb == "look" or (verb == "read" and seen == "all"):
        return ALLOWED
    return _not_yours(verb, thing)


def sees(actor: Actor, owner: str, policy: Policy) -> Literal["all", "names", "nothing"]:
    """How much of somebody's work somebody sees."""
    if actor.is_root or actor.is_admin or actor.name == owner or policy.visibility == "all":
        return "all"
    return "names" if policy.visibility == "names" else "nothing"


def may_have_priority(actor: Actor, priority: int, policy: Policy) -> Verdict:
    """Whether somebody may give this priority to their own work."""
    if priority <= policy.max_priority or actor.is_admin or actor.is_root:
        return ALLOWED
    return Refused(
        "auth/priority",
        f"{actor.name} may give work a priority of at most {policy.max_priority}, not {priority}",
        f"ask for {policy.max_priority} or less, or have an administrator raise it: stw prio",
    )


def _governs(actor: Actor) -> Refused:
    return Refused(
        "auth/admins-only",
        f"this concerns everybody who uses the server, and {actor.name} is no administrator of it",
        "ask one of them; `stw server status` names whose server it is",
    )


def _not_yours(verb: Verb, thing: Thing) -> Refused:
    what = f"only they and administrators may {SAID[verb]}"
    if verb == "enter":
        what = "only they may run commands inside of it"
    return Refused(
        "auth/not-yours", f"{thing.name} belongs to {thing.owner}; {what}", f"ask {thing.owner}"
    )
