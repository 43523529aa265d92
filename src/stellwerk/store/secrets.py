"""Keeps values that must never be seen: sealed in a table of their own, and deletable.

The key lies in a file beside the database that only its user can read; without it the rows are
noise. A value leaves this module wrapped, so that it can't slip into a log or a message by itself.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from msgspec import Struct

from stellwerk.store import schema
from stellwerk.store.disk import flush_folder
from stellwerk.store.errors import from_os, refusal
from stellwerk.store.statements import Prepared, param, upsert

T = TypeVar("T")
_Submit = Callable[[Callable[[sa.Connection], Any]], "Future[Any]"]
_Read = Callable[[Callable[[sa.Connection], Any]], Any]


class SecretValue:
    """A secret's value. Only `reveal` gives it; printing, logging or pickling it doesn't."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, to be handed to the job and to nobody else."""
        return self._value

    def __repr__(self) -> str:
        return "SecretValue(sealed)"

    def __reduce__(self) -> str:
        raise TypeError("a secret's value isn't written anywhere")


class SecretInfo(Struct, frozen=True):
    """What may be known of a secret: everything but its value."""

    project: str
    owner: str
    name: str
    created_ms: int


_columns = schema.secrets.c
_HERE = (
    _columns.project == param("project"),
    _columns.owner == param("owner"),
    _columns.name == param("name"),
)
_PUT = upsert(schema.secrets)
_GET = Prepared(sa.select(_columns.sealed).where(*_HERE))
_DELETE = Prepared(sa.delete(schema.secrets).where(*_HERE))
_LIST = Prepared(
    sa.select(_columns.project, _columns.owner, _columns.name, _columns.created_ms)
    .where(_columns.project == param("project"), _columns.owner == param("owner"))
    .order_by(_columns.name)
)
_ANY = Prepared(sa.select(sa.func.count()).select_from(schema.secrets))


class SecretStore:
    """Secrets by project, owner and name."""

    def __init__(self, key_file: Path, submit: _Submit, read: _Read) -> None:
        self._key_file = key_file
        self._submit = submit
        self._read = read

    def put(self, project: str, owner: str, name: str, value: str, at_ms: int) -> None:
        """Seals a value and waits until it is durable; an older value of that name is gone."""
        sealed = self._cipher().encrypt(value.encode())
        self._submit(lambda conn: _PUT.run(conn, project, owner, name, at_ms, sealed)).result()

    def get(self, project: str, owner: str, name: str) -> SecretValue | None:
        """The value of a secret, or None if there is none of that name."""
        from cryptography.fernet import InvalidToken

        row = self._read(lambda conn: _GET.first(conn, project, owner, name))
        if row is None:
            return None
        try:
            return SecretValue(self._cipher().decrypt(row[0]).decode())
        except InvalidToken:
            raise refusal(
                "store/sealed",
                f"secret `{name}` was sealed with another key than {self._key_file}",
                "put its value again",
            ) from None

    def list(self, project: str, owner: str) -> "list[SecretInfo]":
        """The names of an owner's secrets in a project, and since when they are there."""
        return [
            SecretInfo(*row) for row in self._read(lambda conn: _LIST.all(conn, project, owner))
        ]

    def delete(self, project: str, owner: str, name: str) -> bool:
        """Removes a secret and overwrites where it lay; waits until that is durable."""

        def job(conn: sa.Connection) -> int:
            conn.exec_driver_sql("PRAGMA secure_delete=ON")
            return _DELETE.run(conn, project, owner, name)

        removed: int = self._submit(job).result()
        return removed > 0

    def _cipher(self) -> Any:
        """The sealing cipher; its import is late because most servers never meet a secret."""
        from cryptography.fernet import Fernet

        try:
            return Fernet(self._key_file.read_bytes())
        except ValueError:
            raise refusal(
                "store/no-key",
                f"{self._key_file} doesn't hold a key",
                "restore the file from a backup, or remove it and put the secrets again",
            ) from None
        except FileNotFoundError:
            return Fernet(self._make_key(Fernet.generate_key()))
        except OSError as error:
            raise from_os(error, str(self._key_file)) from error

    def _make_key(self, key: bytes) -> bytes:
        """Writes the key at first use; if another thread was quicker, its key counts."""
        sealed: int = self._read(_ANY.first)[0]
        if sealed:
            raise refusal(
                "store/no-key",
                f"{self._key_file} is gone, and {sealed} secrets are sealed with it",
                "restore the file from a backup, or delete the secrets and put them again",
            )
        temporary = f"{self._key_file}.{os.getpid()}.{os.urandom(4).hex()}"
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "wb") as file:
                file.write(key)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(temporary, self._key_file)
            except FileExistsError:
                key = self._key_file.read_bytes()
            finally:
                os.unlink(temporary)
            flush_folder(self._key_file.parent)
        except OSError as error:
            raise from_os(error, str(self._key_file)) from error
        return key
