"""Seals what must not be seen, and remembers it in case that nothing comes of the submission."""

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Mapping

import msgspec

from stellwerk.core.model.ids import WorkloadId
from stellwerk.engine.orders import Launch
from stellwerk.server.accept import Accepted
from stellwerk.server.models import SubmitItem
from stellwerk.store import Store

REMEMBERED = 256
"""Environments that are known to be sealed already: the same shell submits many commands."""


class Environments:
    """Names sealed environments by their content, so that equal ones are sealed once.

    The name is keyed with chance of this process: it tells nothing of what is in it.
    """

    def __init__(self, store: Store, project: str) -> None:
        self._store = store
        self._project = project
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def seal(self, owner: str, environment: Mapping[str, str], now_ms: int) -> str:
        """Gives the name under which an environment is sealed."""
        text = msgspec.json.encode(environment, order="sorted")
        name = "environment/" + hmac.digest(self._key, text, "sha256").hex()
        if (owner, name) in self._known and self._store.secrets.get(self._project, owner, name):
            return name
        self._store.secrets.put(self._project, owner, name, text.decode(), now_ms)
        self._known[owner, name] = None
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return name


class Sealing:
    """What one submission seals."""

    def __init__(
        self, store: Store, environments: Environments, project: str, owner: str, now_ms: int
    ) -> None:
        self._store = store
        self._environments = environments
        self._project = project
        self._owner = owner
        self._now_ms = now_ms
        self._names: list[str] = []

    def launch(self, item: SubmitItem, accepted: Accepted, workload: WorkloadId) -> Launch:
        """What is stored of a submission, with references in place of secrets."""
        read = accepted.read
        sealed = {
            variable: self._seal(f"{workload}/{variable}", value)
            for variable, value in read.secrets.items()
        }
        launch = Launch(
            task=read.task,
            text=read.text,
            file=item.file,
            secrets={**accepted.managed, **sealed},
        )
        if not item.in_place:
            return launch
        environment = self._environments.seal(self._owner, item.caller_env, self._now_ms)
        return msgspec.structs.replace(
            launch, argv=tuple(item.argv), cwd=item.cwd, caller_env=environment
        )

    def undo(self) -> None:
        """Removes what was sealed for nothing."""
        for name in self._names:
            self._store.secrets.delete(self._project, self._owner, name)

    def _seal(self, name: str, value: str) -> str:
        self._store.secrets.put(self._project, self._owner, name, value, self._now_ms)
        self._names.append(name)
        return name
