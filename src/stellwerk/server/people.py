"""Who the people of a server are: whose it is, who administers it, as whom work runs.

A server of one user has one person, whom all work belongs to. A server whose socket is a group's is
*shared*: there each person's work runs as that person, by their own runtime.
"""

import grp
import os
import pwd
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.limits import NO_LIMITS, Limits
from stellwerk.server.policy import Actor, Policy, Refused


class Caller(msgspec.Struct, frozen=True):
    """Who asks: the user that the kernel names, and as whom their work runs.

    ``person`` is "" for the server's own user, whose runtime is the server's.
    """

    actor: Actor
    uid: int
    person: str = ""
    project: str = ""


class People(msgspec.Struct, frozen=True):
    """What the settings say of people; ``admins`` are users, or groups as `@wheel`.

    ``projects`` gives users the project that their work counts for.
    """

    uid: int
    shared: bool = False
    policy: Policy = Policy()
    admins: Sequence[str] = ()
    projects: Mapping[str, str] = {}
    limits: Limits = NO_LIMITS

    @property
    def owner(self) -> str:
        """The name of the server's own user."""
        return user_name(self.uid)

    def caller(self, uid: int) -> Caller:
        """Who a user is here."""
        name = user_name(uid)
        is_admin = uid in {self.uid, 0} or self._administers(name, uid)
        actor = Actor(name, is_admin, is_root=uid == 0 or (uid == self.uid and not self.shared))
        person = name if self.shared and uid != self.uid else ""
        return Caller(actor, uid, person, self.projects.get(name, ""))

    def _administers(self, name: str, uid: int) -> bool:
        groups = {one[1:] for one in self.admins if one.startswith("@")}
        return name in self.admins or bool(groups and groups & groups_of(uid))

    def limits_of(self, caller: Caller) -> list[tuple[str, str, int]]:
        """What of somebody's may wait at most: (kind, name, number), where anything limits it."""
        found = [
            ("person", caller.person, self.limits.of_person(caller.person).pending),
            ("project", caller.project, self.limits.of_project(caller.project).pending),
        ]
        return [one for one in found if one[2]]


def alone(uid: int) -> People:
    """A server of one user."""
    return People(uid)


@lru_cache(maxsize=1024)
def user_name(uid: int) -> str:
    """A user's name, or `uid-1234` where the machine knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid-{uid}"


@lru_cache(maxsize=1024)
def groups_of(uid: int) -> frozenset[str]:
    """The names of a user's groups."""
    try:
        user = pwd.getpwuid(uid)
        numbers = os.getgrouplist(user.pw_name, user.pw_gid)
    except KeyError:
        return frozenset()
    names = []
    for number in numbers:
        try:
            names.append(grp.getgrgid(number).gr_name)
        except KeyError:
            continue
    return frozenset(names)


def refusal(refused: Refused) -> StellwerkError:
    """A verdict as what is told."""
    return StellwerkError([Problem(refused.code, refused.message, refused.help)])
