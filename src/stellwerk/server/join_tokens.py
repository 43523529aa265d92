"""Keeps who may dial in: tokens for a while, and the secrets of machines that have joined.

Only hashes are kept. A token lets machines join one cluster; each then has a secret of its own,
until somebody takes it back.
"""

import asyncio
import hashlib
import secrets
from pathlib import Path

import msgspec

from stellwerk.core.model.errors import StellwerkError
from stellwerk.server.writing import write_private

FILE = "joins.json"
DAY_MS = 86_400_000


class Token(msgspec.Struct, frozen=True):
    """One token: for which cluster, until when, made when and by whom."""

    id: str
    cluster: str
    hash: str
    until_ms: int
    made_ms: int
    actor: str = ""


class Member(msgspec.Struct, frozen=True):
    """A machine that has joined."""

    cluster: str
    node: str
    machine_id: str
    hash: str
    joined_ms: int


class _File(msgspec.Struct, frozen=True):
    v: int = 1
    tokens: tuple[Token, ...] = ()
    members: tuple[Member, ...] = ()


def hash_of(secret: str) -> str:
    """What is kept of a secret that has 256 bits of chance."""
    return hashlib.sha256(secret.encode()).hexdigest()


class JoinTokens:
    """All of them, in a file beside the journal."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self._file = _File()
        self._changing = asyncio.Lock()

    def load(self) -> None:
        """Reads them. Raises StellwerkError `config/joins`."""
        try:
            self._file = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            message = f"{self._path} can't be read: {error}"
            remedy = "mend it, or move it away and have the machines join again"
            raise StellwerkError.of("config/joins", message, remedy) from error

    def tokens(self, cluster: str, now_ms: int) -> list[Token]:
        """Those of a cluster that still hold."""
        return [
            one for one in self._file.tokens if one.cluster == cluster and one.until_ms > now_ms
        ]

    def members(self, cluster: str) -> list[Member]:
        """The machines of a cluster."""
        return [one for one in self._file.members if one.cluster == cluster]

    async def make(self, cluster: str, ttl_ms: int, now_ms: int, actor: str) -> tuple[Token, str]:
        """A new token, and the secret itself, which nobody can be told again."""
        secret = f"stwj-{secrets.token_urlsafe(32)}"
        id = secrets.token_hex(4)
        token = Token(id, cluster, hash_of(secret), now_ms + ttl_ms, now_ms, actor)
        async with self._changing:
            held = tuple(one for one in self._file.tokens if one.until_ms > now_ms)
            await self._keep(msgspec.structs.replace(self._file, tokens=(*held, token)))
        return token, secret

    def token_of(self, secret: str, now_ms: int) -> Token | None:
        """The token that this is, if it holds."""
        found = hash_of(secret)
        return next(
            (one for one in self._file.tokens if one.hash == found and one.until_ms > now_ms), None
        )

    def member_of(self, secret: str) -> Member | None:
        """The machine whose secret this is."""
        found = hash_of(secret)
        return next((one for one in self._file.members if one.hash == found), None)

    async def join(self, cluster: str, node: str, machine_id: str, now_ms: int) -> str:
        """Takes a machine in, under a secret that is its own from now on.

        Gives "", and takes in nobody, where another machine has that name.
        """
        secret = f"stwm-{secrets.token_urlsafe(32)}"
        member = Member(cluster, node, machine_id, hash_of(secret), now_ms)
        async with self._changing:
            place = (cluster, node)
            same = [one for one in self._file.members if (one.cluster, one.node) == place]
            if any(one.machine_id != machine_id for one in same):
                return ""
            others = tuple(one for one in self._file.members if one not in same)
            await self._keep(msgspec.structs.replace(self._file, members=(*others, member)))
        return secret

    async def revoke(self, cluster: str, which: str = "") -> list[str]:
        """Takes back a token or a machine's secret, or ("") all of a cluster; gives what went."""
        async with self._changing:
            gone = [
                name
                for name, of in (
                    *((one.id, one.cluster) for one in self._file.tokens),
                    *((one.node, one.cluster) for one in self._file.members),
                )
                if of == cluster and which in {"", name}
            ]
            file = _File(
                tokens=tuple(
                    one for one in self._file.tokens if one.cluster != cluster or one.id not in gone
                ),
                members=tuple(
                    one
                    for one in self._file.members
                    if one.cluster != cluster or one.node not in gone
                ),
            )
            if gone:
                await self._keep(file)
            return gone

    async def _keep(self, file: _File) -> None:
        try:
            await asyncio.to_thread(write_private, self._path, msgspec.json.encode(file))
        except OSError as error:
            message = f"{self._path} can't be written: {error.strerror}"
            raise StellwerkError.of("store/joins", message, "make room") from error
        self._file = file
