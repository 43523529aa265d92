"""`Executor`: the interface of `concurrent.futures` where each call is a workload of its own.

    from stellwerk import Executor

    with Executor(cpus=2, memory=4) as executor:
        losses = list(executor.map(train, [1e-3, 1e-4]))

A call is durable when `submit` returns: it has a name, waits its turn, and goes on when this
process ends. One thread follows the journal and hands outcomes to their futures.
"""

import concurrent.futures
import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from stellwerk.client.api import Client
from stellwerk.client.parts import new_key
from stellwerk.client.python.calls import Call, Maker, Wants
from stellwerk.client.python.outcome import Outcome, bring_outcome, read_outcome, why_none
from stellwerk.client.streams import EventReader
from stellwerk.client.wire import EventRecord
from stellwerk.core.model.errors import StellwerkError

P = ParamSpec("P")
T = TypeVar("T")
MANY = 500
"""So many calls of a `map` are submitted by one request."""


class Future(concurrent.futures.Future[T]):
    """The outcome of a call to come. `workload` is the name by which `stw` knows the call."""

    def __init__(self, executor: "Executor", call: Call) -> None:
        super().__init__()
        self.workload = ""
        self.workload_id = ""
        self.executor = executor
        self.call = call
        self.is_running = False

    def running(self) -> bool:
        """Whether it runs now."""
        return self.is_running and not self.done()

    def cancel(self) -> bool:
        """Cancels the workload: one that waits at once, one that runs by notice and grace.

        False if it is over already.
        """
        if self.done():
            return self.cancelled()
        self.executor.cancel_workload(self)
        return self.was_cancelled()

    def was_cancelled(self) -> bool:
        """Takes down that it was cancelled; says whether that is so."""
        with self.executor.lock:
            if not self.done() and super().cancel():
                self.set_running_or_notify_cancel()
        return self.cancelled()

    def settle(self, outcome: Outcome) -> None:
        """Takes the outcome, unless there is one."""
        with self.executor.lock:
            if self.done():
                return
            if outcome.error is not None:
                self.set_exception(outcome.error)
            else:
                self.set_result(outcome.value)


class Executor(concurrent.futures.Executor):
    """Runs calls as workloads. Amounts are those of `stw run`: `memory="16+"`, `gpus="A100:1"`.

    By default a call runs in this folder with this interpreter and environment. With a `workdir`
    the folder is packed and the call may run on any cluster that has `python` (3.9 or later) with
    cloudpickle, which `setup` may install.
    """

    def __init__(
        self,
        name: str = "",
        *,
        cpus: float | str | None = None,
        memory: float | str | None = None,
        gpus: int | str | None = None,
        gpu_memory: str | None = None,
        time_limit: str | None = None,
        infra: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        env: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        workdir: str | os.PathLike[str] | None = None,
        setup: str | None = None,
        python: str | None = None,
        client: Client | None = None,
    ) -> None:
        def text(value: object) -> str:
            return "" if value is None else str(value)

        wants = Wants(
            cpus=text(cpus),
            memory=text(memory),
            gpus=text(gpus),
            gpu_memory=text(gpu_memory),
            time_limit=text(time_limit),
            infra=text(infra),
            queue=text(queue),
            priority=text(priority),
            env=dict(env or {}),
            labels=dict(labels or {}),
            workdir="" if workdir is None else os.fspath(workdir),
            setup=text(setup),
            python=text(python),
        )
        self._name = name
        self._owns = client is None
        self._client = Client() if client is None else client
        settings = self._client.settings
        self._folder = os.path.join(settings.home, "calls", new_key())
        self._maker = Maker(wants, self._folder, settings)
        self.lock = threading.RLock()
        self._settled = threading.Condition(self.lock)
        self._waiting: dict[str, Future[Any]] = {}
        self._closed = False
        self._reader: EventReader | None = None
        self._thread: threading.Thread | None = None

    # the interface of concurrent.futures

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Submits a call; it is durable from then on. Raises StellwerkError if it is refused."""
        [future] = self._submit([(fn, args, kwargs)])
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]:
        """Calls `fn` with the items of the iterables; gives the values in their order.

        All are submitted at once. With `chunksize` so many items are one workload.
        """
        end = None if timeout is None else time.monotonic() + timeout
        items = list(zip(*iterables, strict=False))
        calls: list[tuple[Callable[..., Any], Any, Any]] = [(fn, item, {}) for item in items]
        if chunksize > 1:
            pieces = [items[at : at + chunksize] for at in range(0, len(items), chunksize)]
            calls = [(_in_pieces(fn), (piece,), {}) for piece in pieces]
        futures = self._submit(calls)
        return _values(futures, end, pieces=chunksize > 1)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more calls. With `wait` it returns when all are over; else they go on, but
        nobody hears of their outcomes any more.
        """
        with self.lock:
            self._closed = True
            left = list(self._waiting.values())
        if cancel_futures:
            for future in left:
                if not future.running():
                    future.cancel()
        with self._settled:
            while wait and self._waiting:
                self._settled.wait()
            over = not self._waiting
        if wait or over:
            self._close()

    # behind it

    def _submit(self, calls: Sequence[tuple[Callable[..., Any], Any, Any]]) -> list[Future[Any]]:
        with self.lock:
            if self._closed:
                raise RuntimeError("the executor was shut down")
            self._follow()
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            futures: list[Future[Any]] = []
            for start in range(0, len(calls), MANY):
                made = [
                    self._maker.make(*call, prefix=self._name)
                    for call in calls[start : start + MANY]
                ]
                futures += self._send(made)
            return futures

    def _send(self, made: Sequence[Call]) -> list[Future[Any]]:
        """Submits all or none; the lock is held, so that no end is seen before its future."""
        for call in made:
            call.prepared.upload(self._client)
        submissions = [call.prepared.submission for call in made]
        if len(submissions) == 1:
            one = self._client.submit_prepared(submissions[0])
            ids, names = [one.id], [one.name]
        else:
            answer = self._client.submit_many(submissions)
            ids, names = answer.ids, answer.names
        futures: list[Future[Any]] = []
        for call, id, name in zip(made, ids, names, strict=True):
            future: Future[Any] = Future(self, call)
            future.workload, future.workload_id = name, id
            self._waiting[id] = future
            futures.append(future)
        return futures

    def _follow(self) -> None:
        """Begins to follow the journal before the first call is in it."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._reader = self._client.twin().event_reader(after=self._client.server_status().seq)
        self._thread = threading.Thread(target=self._watch, name="stellwerk-calls", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        assert self._reader is not None
        try:
            with self._client.twin() as client:
                for record in self._reader:
                    self._take(record, client)
        except Exception as error:  # noqa: BLE001 - every waiting future must hear of it
            with self.lock:
                left, closed = list(self._waiting.values()), self._closed
            for future in left:
                future.settle(Outcome(error=error))
                self._forget(future)
            if closed:
                return

    def _take(self, record: EventRecord, client: Client) -> None:
        kind, event = record.type, record.event
        if kind == "run-progressed":
            workload = str(event.get("run", "")).rpartition("-")[0]
            with self.lock:
                future = self._waiting.get(workload)
                if future is not None:
                    future.is_running = event.get("phase") == "Running"
        elif kind == "workload-ended":
            with self.lock:
                future = self._waiting.get(str(event.get("id", "")))
            if future is not None:
                self._end(future, str(event.get("phase", "")), client)

    def _end(self, future: Future[Any], phase: str, client: Client) -> None:
        try:
            if phase == "Cancelled":
                future.was_cancelled()
                return
            found = read_outcome(future.call.result) if future.call.result else None
            if found is None:
                show = client.get(future.workload_id)
                found = None if future.call.result else bring_outcome(client, show)
                found = found or Outcome(error=why_none(show))
        except StellwerkError as error:
            found = Outcome(error=error)
        finally:
            self._forget(future)
        future.settle(found)

    def cancel_workload(self, future: Future[Any]) -> None:
        """Asks the server to end it."""
        with self._client.twin() as client:
            client.cancel(future.workload_id)

    def _forget(self, future: Future[Any]) -> None:
        with self._settled:
            self._waiting.pop(future.workload_id, None)
            self._settled.notify_all()

    def _close(self) -> None:
        thread, self._thread = self._thread, None
        if self._reader is not None:
            self._reader.stop()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        if self._owns:
            self._client.close()
        with contextlib.suppress(OSError):
            shutil.rmtree(self._folder)


def _in_pieces(fn: Callable[..., T]) -> Callable[[Sequence[Any]], list[T]]:
    """A function that calls another one for each of several items; it travels by value."""

    def each(items: Sequence[Any]) -> list[T]:
        return [fn(*item) for item in items]

    each.__name__ = getattr(fn, "__name__", "call")
    each.__module__ = "__main__"
    return each


def _values(futures: list[Future[Any]], end: float | None, *, pieces: bool) -> Iterator[Any]:
    """The values in their order; what is left when the caller stops is cancelled."""
    futures.reverse()
    try:
        while futures:
            left = None if end is None else max(0.0, end - time.monotonic())
            value = futures[-1].result(left)
            futures.pop()
            if pieces:
                yield from value
            else:
                yield value
    finally:
        for future in futures:
            future.cancel()
