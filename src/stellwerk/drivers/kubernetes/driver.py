"""The Kubernetes driver: runs are Jobs of one namespace of one cluster, nodes are its nodes.

It adopts by label what it finds, touches nothing of others, and holds no state that the API server
doesn't have, but for the logs of runs that are over.
"""

import asyncio
import contextlib
import gzip
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import Inventory, Report
from stellwerk.drivers.agents.conversation import check_name
from stellwerk.drivers.agents.layout import layout_of
from stellwerk.drivers.agents.refusing import refusal_told
from stellwerk.drivers.agents.sessions import AgentSession
from stellwerk.drivers.agents.snapshots import BlobReader
from stellwerk.drivers.base import (
    Capabilities,
    DriverError,
    ExecOrder,
    ExecSession,
    LogChunk,
    LogStream,
    StartOrder,
    StopOrder,
)
from stellwerk.drivers.kubernetes.api import Api
from stellwerk.drivers.kubernetes.objects import (
    EPOCH,
    FORGOTTEN,
    OWNER,
    RUN,
    Object,
    end_told,
    has_failed,
    job_of,
    name_of,
    node_of,
    parts_of,
)
from stellwerk.drivers.kubernetes.pod_main import HOME
from stellwerk.drivers.kubernetes.pod_run import PodRun

CONNECT_S = 10.0


class KubernetesDriver:
    """One namespace of a cluster.

    ``owner`` keeps what belongs to this Stellwerk apart from what belongs to others; ``connect``
    gives the API server, ``image`` is that of runs that name none, ``folder`` is where logs are
    kept, ``runtime`` is the runtime's file with its hash.
    """

    capabilities = Capabilities(start_guarantee="native name", exec=True)

    def __init__(
        self,
        *,
        cluster: str,
        connect: Callable[[], Api],
        owner: str,
        image: str,
        folder: Path,
        runtime: tuple[bytes, str],
        blobs: BlobReader,
        now_ms: Callable[[], int],
        pull: str = "IfNotPresent",
    ) -> None:
        self.cluster = cluster
        self._connect = connect
        self._owner = owner
        self._image = image
        self._folder = folder
        self._runtime, self._digest = runtime
        self._blobs = blobs
        self._now_ms = now_ms
        self._pull = pull
        self._api: Api | None = None
        self._runs: dict[RunId, PodRun] = {}
        self._forgotten: set[RunId] = set()
        self._epoch = 0
        self._inbox: deque[Report] = deque()
        self._news = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._trouble: DriverError | None = None
        self._starting = asyncio.Lock()
        self._has_parts = False

    @property
    def _mine(self) -> dict[str, str]:
        return {OWNER: self._owner}

    def api(self) -> Api:
        """The API server. Raises DriverError if the driver isn't open."""
        if self._api is None:
            raise DriverError("driver/closed", "the driver isn't open", final=False)
        return self._api

    async def open(self) -> None:
        """Lists what is there and adopts it; then watches."""
        await self._watch_no_more()
        await self._hang_up()
        asked_at_ms = self._now_ms()
        self._api = self._connect()
        jobs = await self._api.jobs(self._mine)
        pods, version = await self._api.pods(self._mine)
        for job in jobs:
            self._adopt(job)
        self._see_all(pods)
        there = [one for one in self._runs.values() if one.end is None and one.pod is not None]
        await asyncio.gather(*(self._connected(one) for one in there))
        self._trouble = None
        for run in self._runs.values():
            run.follow()
        # One whose end is being brought home is told as it was before; its end follows.
        reports = tuple(run.report for _, run in sorted(self._runs.items()))
        self._tell(Inventory(self.cluster, reports, asked_at_ms))
        self._watching = asyncio.create_task(self._watch(version), name=f"watch {self.cluster}")

    async def _connected(self, run: PodRun) -> None:
        with contextlib.suppress(DriverError, TimeoutError):
            async with asyncio.timeout(CONNECT_S):
                await run.connect()
                await run.brought_home()

    def _adopt(self, job: Object) -> PodRun | None:
        """Takes a Job of ours for the run that it is; None if that is forgotten."""
        told = job["metadata"].get("annotations") or {}
        run = RunId(str(told.get(RUN, "")))
        epoch = str(told.get(EPOCH, "0"))
        self._epoch = max(self._epoch, int(epoch) if epoch.isdecimal() else 0)
        if not run:
            return None
        if told.get(FORGOTTEN):
            self._forgotten.add(run)
            return None
        if run not in self._runs:
            self._runs[run] = PodRun(
                self.cluster,
                run,
                job,
                self.api,
                self._digest,
                self._folder / run,
                self._blobs,
                self._now_ms,
                self._tell,
            )
        end = end_told(job)
        if end is not None:
            self._runs[run].ended_before(end)
        self._runs[run].failed = has_failed(job)
        return self._runs[run]

    # watching

    def _see_all(self, pods: Iterable[Object]) -> None:
        by_job = {self._job_of(pod): pod for pod in pods}
        for run in self._runs.values():
            run.saw(by_job.get(run.job))

    @staticmethod
    def _job_of(pod: Object) -> str:
        return str((pod["metadata"].get("labels") or {}).get("batch.kubernetes.io/job-name", ""))

    async def _watch(self, version: str) -> None:
        """Passes on what becomes of pods; where the server has lost its place, it lists anew."""
        while True:
            try:
                async for kind, pod in self.api().watch_pods(self._mine, version):
                    name = self._job_of(pod)
                    for run in self._runs.values():
                        if run.job == name:
                            run.saw(None if kind == "DELETED" else pod)
            except DriverError as error:
                if error.code != "kubernetes/expired":
                    self._trouble = error
                    self._news.set()
                    return
            try:
                pods, version = await self.api().pods(self._mine)
                self._see_all(pods)
            except DriverError as error:
                self._trouble = error
                self._news.set()
                return

    async def _watch_no_more(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _hang_up(self) -> None:
        api, self._api = self._api, None
        if api is not None:
            await api.close()

    async def close(self) -> None:
        """Hangs up; what runs there goes on."""
        await self._watch_no_more()
        for run in self._runs.values():
            await run.close()
        await self._hang_up()
        self._news.set()

    def vanish(self) -> None:
        """Lets go at once and without a word, as the death of the process would."""
        if self._watching is not None:
            self._watching.cancel()
        for run in self._runs.values():
            run.vanish()

    async def reports(self) -> AsyncIterator[Report]:
        """Yields what is seen; raises DriverError when the API server can't be asked any more."""
        while True:
            while self._inbox:
                yield self._inbox.popleft()
            if self._trouble is not None:
                raise self._trouble
            self._news.clear()
            await self._news.wait()

    def _tell(self, report: Report) -> None:
        self._inbox.append(report)
        self._news.set()

    async def probe(self) -> Cluster:
        """Looks at the nodes, and what others hold of them."""
        nodes = await self.api().nodes()
        pods = await self.api().all_pods()
        by_node: dict[str, list[Object]] = {}
        for pod in pods:
            by_node.setdefault(str((pod.get("spec") or {}).get("nodeName")), []).append(pod)
        return Cluster(
            name=self.cluster,
            driver="kubernetes",
            nodes=tuple(
                node_of(node, by_node.get(node["metadata"]["name"], []), self._owner)
                for node in sorted(nodes, key=lambda one: str(one["metadata"]["name"]))
            ),
            kind="kubernetes",
        )

    # orders

    async def start(self, order: StartOrder) -> None:
        """Makes the Job of a run; the run begins when its pod runs."""
        with refusal_told(self._tell, self.cluster, order):
            self._refuse_what_cannot_be(order)
            await asyncio.to_thread(layout_of, order, f"{HOME}/runtime", self._blobs)
            async with self._starting:
                await self._start(order)

    def _refuse_what_cannot_be(self, order: StartOrder) -> None:
        check_name(order.run)
        self._fence(order.epoch)
        if order.run in self._forgotten:
            message = f"{order.run} was here, is over and forgotten"
            raise DriverError("runtime/already_forgotten", message, final=True)
        words = {
            "gangs over several nodes can't run here yet": len({r.node for r in order.ranks}) > 1,
            "a command in place runs on the machine it was given on": order.inherit_env,
            "runs of other people's accounts can't run here": bool(order.person),
            "this cluster has no image for runs that name none": not (order.image or self._image),
        }
        for message, holds in words.items():
            if holds:
                raise DriverError("kubernetes/unsupported", message, final=True)

    def _fence(self, epoch: int) -> None:
        if epoch < self._epoch:
            message = f"an order of epoch {epoch} comes after one of epoch {self._epoch}"
            raise DriverError("runtime/stale_epoch", message, final=True)
        self._epoch = epoch

    async def _start(self, order: StartOrder) -> None:
        run = self._runs.get(order.run)
        if run is None:
            run = await self._create(order)
        if order.generation < run.report.generation:
            message = f"generation {run.report.generation} of {order.run} is here"
            raise DriverError("runtime/stale_generation", message, final=True)
        if run.end is not None:
            self._tell(run.report)
            return
        run.order = order
        run.follow()

    async def _create(self, order: StartOrder) -> PodRun:
        if not self._has_parts:
            packed = await asyncio.to_thread(gzip.compress, self._runtime, 6)
            await self.api().create_parts(parts_of(self._owner, packed, self._digest))
            self._has_parts = True
        wanted = job_of(order, self._owner, self._image, self._digest, self._pull)
        made = await self.api().create_job(wanted)
        job = made or await self.api().get_job(name_of(order.run, self._owner))
        if (job["metadata"].get("labels") or {}).get(OWNER) != self._owner:
            message = f"somebody else has a Job {job['metadata']['name']}"
            raise DriverError("kubernetes/name-taken", message, final=True)
        run = self._adopt(job)
        if run is None:
            message = f"{order.run} was here, is over and forgotten"
            raise DriverError("runtime/already_forgotten", message, final=True)
        return run

    def _known(self, run: RunId) -> PodRun:
        found = self._runs.get(run)
        if found is None:
            raise DriverError("runtime/unknown_run", f"{run} was never here", final=True)
        return found

    async def stop(self, order: StopOrder) -> None:
        """Gives notice; what hasn't begun ends at once."""
        run = self._known(order.run)
        self._fence(order.epoch)
        if order.generation < run.report.generation:
            message = f"generation {run.report.generation} of {order.run} is here"
            raise DriverError("runtime/stale_generation", message, final=True)
        if run.is_over:
            return
        if run.begun:
            await run.talk.stop(order)
        elif not order.window_end_ms:
            await run.end_unbegun("notice", put_back=True)

    async def withdraw(self, run: RunId) -> None:
        """Takes a notice back."""
        found = self._known(run)
        if not found.is_over and found.begun:
            await found.talk.about("withdraw", run)

    async def kill(self, run: RunId) -> None:
        """Ends everything of a run at once."""
        found = self._known(run)
        if found.is_over:
            return
        if found.begun:
            await found.talk.about("kill", run)
        else:
            await found.end_unbegun("killed", put_back=False)

    async def forget(self, run: RunId) -> None:
        """Removes the logs of a run that is over; its Job stays, so that it can't start again."""
        found = self._runs.get(run)
        if found is None:
            return
        if found.end is None:
            raise DriverError("runtime/not_over", f"{run} isn't over", final=True)
        await found.forget()
        self._forgotten.add(run)
        del self._runs[run]

    async def read_log(
        self, run: RunId, stream: LogStream, rank: int, offset: int, limit: int
    ) -> LogChunk:
        """Reads a log in its pod, or what was brought home of it."""
        found = self._runs.get(run)
        if found is None:
            return LogChunk(b"", offset, 0)
        return await found.read_log(stream, rank, offset, limit)

    async def exec(self, order: ExecOrder) -> ExecSession:
        """A command beside a run, over a stream of its own."""
        run = self._known(order.run)
        if run.is_over:
            raise DriverError("runtime/ended", f"{order.run} is over", final=True)
        stream = await run.exec_stream()
        session = AgentSession(stream, stream, stream.hang_up)
        await session.begin(order)
        return session
