"""Speaks with one API server: objects by lightkube, commands in pods over a WebSocket.

What goes wrong becomes a DriverError in words; only what will never be otherwise is final.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core.exceptions import ConfigError
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import ConfigMap, Node, Pod
from lightkube.types import CascadeType, PatchType
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from stellwerk.drivers.base import DriverError
from stellwerk.drivers.kubernetes.objects import CONTAINER

MANAGER = "stellwerk"
PROTOCOL = "v4.channel.k8s.io"
OUTPUT, PIECE = 1, 128 * 1024
UNDER_WAY = 64
OPEN_S = 15.0
Object = dict[str, Any]


def config_of(kubeconfig: Path, context: str) -> SingleConfig:
    """A context of a kubeconfig. Raises a DriverError that says what is there instead."""
    try:
        known = KubeConfig.from_file(kubeconfig)
    except (ConfigError, OSError, ValueError) as error:
        message = f"{kubeconfig} can't be read as a kubeconfig: {error}"
        raise DriverError("kubernetes/kubeconfig", message, final=False) from error
    if context not in known.contexts:
        there = ", ".join(sorted(known.contexts)) or "none"
        message = f"{kubeconfig} has no context `{context}` (there are: {there})"
        raise DriverError("kubernetes/no-context", message, final=False)
    try:
        found = known.get(context)
    except (ConfigError, KeyError) as error:
        message = f"context `{context}` leads nowhere: {error}"
        raise DriverError("kubernetes/kubeconfig", message, final=False) from error
    assert found is not None
    return found


class Api:
    """One API server and one namespace of it."""

    def __init__(self, config: SingleConfig, namespace: str) -> None:
        self.namespace = namespace or config.namespace or "default"
        self.server = config.cluster.server
        self._config = config
        self._client = AsyncClient(config, self.namespace, field_manager=MANAGER)

    async def close(self) -> None:
        """Hangs up."""
        await self._client.close()

    async def nodes(self) -> list[Object]:
        """All nodes."""
        with self._words("list nodes"):
            return [node.to_dict() async for node in self._client.list(Node)]

    async def all_pods(self) -> list[Object]:
        """The pods of all namespaces."""
        with self._words("list pods of all namespaces"):
            return [pod.to_dict() async for pod in self._client.list(Pod, namespace="*")]

    async def jobs(self, labels: dict[str, str]) -> list[Object]:
        """Jobs with these labels."""
        with self._words("list jobs"):
            return [job.to_dict() async for job in self._client.list(Job, labels=dict(labels))]

    async def pods(self, labels: dict[str, str]) -> tuple[list[Object], str]:
        """Pods with these labels, and the version from which to watch."""
        with self._words("list pods"):
            listing = self._client.list(Pod, labels=dict(labels))
            found = [pod.to_dict() async for pod in listing]
            return found, str(listing.resourceVersion or "")

    async def watch_pods(
        self, labels: dict[str, str], version: str
    ) -> AsyncIterator[tuple[str, Object]]:
        """What changes from a version on; raises DriverError ``kubernetes/expired`` at a 410."""
        with self._words("watch pods"):
            watch = self._client.watch(Pod, labels=dict(labels), resource_version=version)
            async for kind, pod in watch:
                yield kind, pod.to_dict()

    async def create_parts(self, config_map: Object) -> None:
        """Makes a ConfigMap, unless it is there."""
        with self._words("create configmaps"):
            try:
                await self._client.create(_read(ConfigMap, config_map))
            except ApiError as error:
                if error.status.code != 409:
                    raise

    async def create_job(self, job: Object) -> Object | None:
        """Makes a Job; None if its name is taken."""
        with self._words("create jobs"):
            try:
                made = await self._client.create(_read(Job, job))
            except ApiError as error:
                if error.status.code == 409:
                    return None
                raise
            found: Object = made.to_dict()
            return found

    async def get_job(self, name: str) -> Object:
        """A Job by its name."""
        with self._words("get jobs"):
            return (await self._client.get(Job, name)).to_dict()

    async def patch_job(self, name: str, uid: str, change: Object) -> None:
        """Changes a Job, if it is still the same one."""
        change.setdefault("metadata", {})["uid"] = uid
        with self._words("patch jobs"):
            await self._client.patch(Job, name, change, patch_type=PatchType.MERGE)

    async def delete_job(self, name: str) -> None:
        """Removes a Job with its pods, if it is there."""
        with self._words("delete jobs"):
            try:
                await self._client.delete(Job, name, cascade=CascadeType.BACKGROUND)
            except ApiError as error:
                if error.status.code != 404:
                    raise

    async def exec(self, pod: str, command: Sequence[str]) -> "PodStream":
        """Runs a command in a pod and joins its standard input and output."""
        asked = [("command", word) for word in command]
        asked += [("container", CONTAINER), ("stdin", "1"), ("stdout", "1"), ("stderr", "1")]
        address = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/exec?{urlencode(asked)}"
        trust = None
        if self.server.startswith("https:"):
            assert self._config.user is not None
            cluster, user = self._config.cluster, self._config.user
            trust = verify_cluster(cluster, user, self._config.abs_file)
        try:
            socket = await connect(
                "ws" + self.server.removeprefix("http") + address,
                ssl=trust,
                subprotocols=[PROTOCOL],  # type: ignore[list-item]
                additional_headers=await self._login(),
                compression=None,
                max_size=None,
                open_timeout=OPEN_S,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            said = (error.response.body or b"").decode(errors="replace")[:500]
            message = f"a command in pod {pod} is refused ({status}): {said}"
            raise DriverError(_code(status), message, final=False) from error
        except (OSError, TimeoutError, WebSocketException) as error:
            message = f"{self.server} doesn't let in to pod {pod}: {error}"
            raise DriverError("kubernetes/unreachable", message, final=False) from error
        return PodStream(socket)

    async def _login(self) -> dict[str, str]:
        auth = user_auth(self._config.user)
        if auth is None:
            return {}
        request = httpx2.Request("GET", self.server)
        flow = auth.async_auth_flow(request)
        await anext(flow)
        await flow.aclose()
        return {"Authorization": request.headers["Authorization"]}

    @contextlib.contextmanager
    def _words(self, what: str) -> Iterator[None]:
        """Says in words what went wrong while something was asked."""
        try:
            yield
        except ApiError as error:
            status = int(error.status.code or 0)
            message = f"{self.server} won't {what}: {error.status.message}"
            # What it refuses to take as it is, it will never take.
            raise DriverError(_code(status), message, final=status in {400, 422}) from error
        except (httpx2.HTTPError, ConfigError, OSError) as error:
            message = f"{self.server} doesn't answer ({what}): {str(error) or type(error).__name__}"
            raise DriverError("kubernetes/unreachable", message, final=False) from error


def _read(kind: Any, said: Object) -> Any:
    """An object as the library has it."""
    return kind.from_dict(said)


def _code(status: int) -> str:
    known = {401: "login", 403: "forbidden", 404: "gone", 409: "conflict", 410: "expired"}
    known |= {400: "refused", 422: "refused"}
    return f"kubernetes/{known.get(status, 'error')}"


class PodStream:
    """The streams of a command in a pod, as a hand and a session need them."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._read = b""
        self._over = False
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = asyncio.Event()
        self._sending = asyncio.create_task(self._send(), name="stream into a pod")

    async def read(self, n: int, /) -> bytes:
        """At most so many bytes; b"" at the end."""
        while not self._read and not self._over:
            await self._hear()
        data, self._read = self._read[:n], self._read[n:]
        return data

    async def readline(self) -> bytes:
        """One line; all that is left where none ends."""
        while b"\n" not in self._read and not self._over:
            await self._hear()
        end = self._read.find(b"\n") + 1 or len(self._read)
        line, self._read = self._read[:end], self._read[end:]
        return line

    async def _hear(self) -> None:
        try:
            said = await self._socket.recv()
        except WebSocketException:
            self._over = True
            return
        data = said.encode() if isinstance(said, str) else said
        if data[:1] == bytes([OUTPUT]):
            self._read += data[1:]
        elif data[:1] == b"\x03":
            self._over = True

    def write(self, data: bytes, /) -> None:
        """Takes bytes to send."""
        if self._over or self._sending.done():
            raise ConnectionError("the command in the pod is over")
        for start in range(0, len(data), PIECE):
            self._outgoing.put_nowait(b"\0" + data[start : start + PIECE])

    async def drain(self) -> None:
        """Waits while too much is under way."""
        if self._outgoing.qsize() > UNDER_WAY:
            self._room.clear()
            await self._room.wait()

    async def _send(self) -> None:
        try:
            with contextlib.suppress(WebSocketException):
                while True:
                    await self._socket.send(await self._outgoing.get())
                    if self._outgoing.qsize() <= UNDER_WAY:
                        self._room.set()
        finally:
            self._room.set()

    async def hang_up(self) -> None:
        """Ends the command's streams."""
        self._sending.cancel()
        await asyncio.gather(self._sending, return_exceptions=True)
        self._socket.transport.abort()
