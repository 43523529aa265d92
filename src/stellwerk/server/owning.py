"""Clusters that people add to a shared server: only by logins of their own, and then theirs.

The server connects with its own keys, and those may open other people's accounts too. So whoever
isn't an administrator names their own login: what runs there is theirs, and runs as them.
"""

from collections.abc import Awaitable, Callable

from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.drivers.base import DriverError
from stellwerk.server.machine_models import AddCluster, Looked
from stellwerk.server.people import refusal
from stellwerk.server.policy import Refused, Thing, may
from stellwerk.server.seeing import Seeing
from stellwerk.server.services import Services


async def add_as(
    eyes: Seeing,
    services: Services,
    wish: AddCluster,
    add: Callable[[AddCluster, Services], Awaitable[Looked]],
) -> Looked:
    """Adds a cluster as that of whoever asks. Raises StellwerkError, and then nothing is added."""
    if not eyes.people.shared:
        return await add(wish, services)
    problems = [] if eyes.caller.actor.is_admin else foreign_logins(eyes.caller.actor.name, wish)
    if problems:
        raise StellwerkError(problems)
    if services.engine.driver(wish.name) is not None:
        return await add(wish, services)  # which refuses it
    is_new = claim(eyes, services, wish.name)
    try:
        looked = await add(wish, services)
    except (StellwerkError, DriverError):
        give_back(services, wish.name, is_new=is_new)
        raise
    if not looked.added:
        give_back(services, wish.name, is_new=is_new)
    return looked


def give_back(services: Services, name: str, *, is_new: bool) -> None:
    """A name under which nothing came about is nobody's again."""
    if is_new:
        services.belongings.remove(name)


def claim(eyes: Seeing, services: Services, name: str) -> bool:
    """Before machines may join a cluster: it is who asks that it belongs to, if it is new.

    Says whether it is. Raises StellwerkError where it is somebody else's.
    """
    if not eyes.people.shared:
        return False
    if services.engine.driver(name) is None and not services.belongings.known_owner(name):
        services.belongings.put(name, eyes.caller.actor.name)
        return True
    thing = Thing("cluster", name, services.owner_of(name))
    verdict = may(eyes.caller.actor, "tend", thing, eyes.people.policy)
    if isinstance(verdict, Refused):
        raise refusal(verdict)
    return False


def foreign_logins(name: str, wish: AddCluster) -> list[Problem]:
    """What of a wish would let somebody's work run as somebody else."""
    problems = []
    for host in wish.hosts:
        login = host.rpartition("@")[0]
        if login != name:
            said = f"as {login}" if login else "as the server's own user"
            message = f"`{host[:80]}` would run the work of {name} {said}"
            help = f"write {name}@{host.rpartition('@')[2][:80]}, or ask an administrator to add it"
            problems.append(Problem("auth/login", message, help))
    if wish.identity_files:
        message = "which keys the server connects with is for administrators to say"
        help = "have its public key in ~/.ssh/authorized_keys of your login there"
        problems.append(Problem("auth/login", message, help))
    return problems
