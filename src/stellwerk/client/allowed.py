"""Decides as whom the machine's service for everyone may start something. Pure: values in, words
out.

Named are users, or groups as `@lab`. Root never is somebody, nor is an account of the system or one
that may not log in, whatever the list says.
"""

from collections.abc import Sequence
from typing import NamedTuple

NOBODY = frozenset({65_534, 2**32 - 2, 2**32 - 1})
CLOSED_SHELLS = frozenset({"nologin", "false", "sync", "shutdown", "halt"})
FIRST_PERSON = 1000


class Account(NamedTuple):
    """A user of this machine; ``groups`` are the names of all of theirs."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str
    groups: tuple[str, ...] = ()


class Rule(NamedTuple):
    """Who may be started for: users, and groups as `@lab`; numbers below ``first`` never."""

    people: tuple[str, ...]
    first: int = FIRST_PERSON


def read_people(words: Sequence[str]) -> tuple[str, ...]:
    """The users and groups of a list as people write it: `ada,ben @lab`."""
    return tuple(name for word in words for name in word.replace(",", " ").split())


def why_not(account: Account | None, uid: int, rule: Rule) -> str:
    """Why nothing is started as a user; empty where it may be."""
    if account is None:
        return f"this machine knows no user {uid}"
    if uid == 0 or account.uid != uid:
        return "nothing is ever started as root"
    if uid < rule.first or uid in NOBODY:
        return (
            f"{account.name} (uid {uid}) is an account of the system: people begin at {rule.first}"
        )
    if account.shell.rpartition("/")[2] in CLOSED_SHELLS:
        return f"{account.name} may not log in here ({account.shell})"
    named = account.name in rule.people
    if not named and not any(f"@{group}" in rule.people for group in account.groups):
        return f"the administrator hasn't named {account.name}, nor a group of theirs"
    return ""
