"""Whose cluster each is, and with whom they share it: kept in a file beside the journal.

On a server of several people, a cluster that a person has added is that person's: it is reached by
a login of theirs, so nobody else's work may go there, unless they say so. One of which nothing is
known is the server's own user's.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.errors import StellwerkError
from stellwerk.server.writing import write_private

EVERYBODY = "*"


class Belonging(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whose a cluster is; `shared` are the users who may use it too (`*` = everybody)."""

    owner: str
    shared: tuple[str, ...] = ()


class Belongings:
    """The file, and what it says of a cluster."""

    def __init__(self, path: Path, own: str, *, shared: bool) -> None:
        self._path = path
        self._own = own
        self.shared = shared
        self._known = _read(path)

    def owner_of(self, cluster: str) -> str:
        """Whose it is."""
        known = self._known.get(cluster)
        return known.owner if known is not None else self._own

    def known_owner(self, cluster: str) -> str:
        """Whose it is said to be, also while nothing serves it; "" where nobody has said."""
        known = self._known.get(cluster)
        return known.owner if known is not None else ""

    def put(self, cluster: str, owner: str, shared: tuple[str, ...] = ()) -> None:
        """Says whose a cluster is from now on. Raises StellwerkError."""
        self._write({**self._known, cluster: Belonging(owner, shared)})

    def share(self, cluster: str, users: tuple[str, ...]) -> tuple[str, ...]:
        """Shares a cluster with exactly these users."""
        self.put(cluster, self.owner_of(cluster), tuple(dict.fromkeys(users)))
        return self._known[cluster].shared

    def remove(self, cluster: str) -> None:
        """Forgets a cluster that is gone."""
        if cluster in self._known:
            self._write({name: one for name, one in self._known.items() if name != cluster})

    def marked(self, cluster: Cluster) -> Cluster:
        """A cluster with those whom it serves; where the server is one user's, as it was."""
        if not self.shared or cluster.driver == "local":
            return cluster
        known = self._known.get(cluster.name, Belonging(self._own))
        if EVERYBODY in known.shared:
            return msgspec.structs.replace(cluster, owner=known.owner, serves=())
        names = ("" if name == self._own else name for name in (known.owner, *known.shared))
        return msgspec.structs.replace(cluster, owner=known.owner, serves=tuple(names))

    def _write(self, known: Mapping[str, Belonging]) -> None:
        try:
            write_private(self._path, msgspec.json.encode(known))
        except OSError as error:
            raise StellwerkError.of(
                "server/home",
                f"{self._path} can't be written: {error.strerror}",
                "make room there, or see to its rights",
            ) from error
        self._known = dict(known)


def _read(path: Path) -> dict[str, Belonging]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Belonging])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise StellwerkError.of(
            "server/home",
            f"{path} can't be read: {error}",
            "mend it; it says whose cluster each is",
        ) from error
