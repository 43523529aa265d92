"""Seals what must not be seen, and makes of a submission what is stored of it.

Equal values of one owner are sealed once, under a name made with a key of this process: the name
tells nothing of the value, and a shell that submits many commands seals its environment once.
"""

import hmac
import secrets
from collections import OrderedDict

import msgspec

from stellwerk.engine.orders import Launch
from stellwerk.server.accept import Accepted
from stellwerk.server.models import SubmitItem
from stellwerk.store import Store

REMEMBERED = 1024


class Vault:
    """Seals values for their owners."""

    def __init__(self, store: Store, project: str) -> None:
        self._store = store
        self._project = project
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def seal(self, owner: str, value: str, now_ms: int) -> str:
        """Gives the name under which a value is sealed, durably."""
        name = "sealed/" + hmac.digest(self._key, value.encode(), "sha256").hex()
        if (owner, name) in self._known and self._store.secrets.get(self._project, owner, name):
            return name
        self._store.secrets.put(self._project, owner, name, value, now_ms)
        self._known[owner, name] = None
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return name

    def launch(self, item: SubmitItem, accepted: Accepted, owner: str, now_ms: int) -> Launch:
        """What is stored of a submission, with references in place of secrets."""
        read = accepted.read
        sealed = {name: self.seal(owner, value, now_ms) for name, value in read.secrets.items()}
        files = {one.secret for one in accepted.mounted.mounts if one.secret}
        variables = {**accepted.managed, **sealed}
        launch = Launch(
            task=read.task,
            text=read.text,
            file=item.file,
            secrets={name: where for name, where in variables.items() if name not in files},
            mounts=accepted.mounted.mounts,
            secret_files={name: variables[name] for name in sorted(files)},
        )
        if not item.in_place:
            return launch
        environment = msgspec.json.encode(item.caller_env, order="sorted").decode()
        return msgspec.structs.replace(
            launch,
            argv=tuple(item.argv),
            cwd=item.cwd,
            caller_env=self.seal(owner, environment, now_ms),
        )
