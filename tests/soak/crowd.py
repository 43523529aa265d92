"""Submits, holds, releases and cancels through a server that is killed all the time.

Everything is sent until it is acknowledged, under the same key, as the client does it for people.
"""

import random
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from stellwerk.client import ApiError, Client, Submission, UnreachableError
from tests.soak.jobs import Kind, any_kind

T = TypeVar("T")
GIVE_UP_S = 120.0
UNFINISHED = 25
BATCH = 5
BATCH_EVERY = 15


class Expected(NamedTuple):
    """What must have become of an acknowledged workload."""

    id: str
    name: str
    kind: Kind


class Crowd:
    """The people of the soak: one thread, one client."""

    def __init__(self, client: Client, said: str, seed: int) -> None:
        self.acknowledged: list[Expected] = []
        self._client = client
        self._said = said
        self._dice = random.Random(seed)
        self._due: list[tuple[float, str, str]] = []
        self._sent = 0
        self._asked = ("", "")
        self._verbs = {"cancel": client.cancel, "release": client.release}

    def work_until(self, is_over: Callable[[], bool]) -> None:
        """Keeps the place busy until told to stop, then sends what is still due."""
        while not is_over():
            if len(self.until_answered(lambda: self._client.list(limit=100))) < UNFINISHED:
                self._submit(any_kind(self._dice))
            self._do_what_is_due(time.monotonic())
            time.sleep(self._dice.uniform(0, 0.3))
        self._do_what_is_due(float("inf"))

    def until_answered(self, ask: Callable[[], T]) -> T:
        """Asks until a server has answered."""
        deadline = time.monotonic() + GIVE_UP_S
        while True:
            try:
                self._client.ensure_server()
                return ask()
            except UnreachableError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def wait_for_all(self, timeout_s: float) -> None:
        """Waits until nothing is alive any more."""
        deadline = time.monotonic() + timeout_s
        while live := self.until_answered(lambda: self._client.list(limit=100)):
            if time.monotonic() > deadline:
                told = ", ".join(f"{row.name} {row.phase}" for row in live[:10])
                raise SystemExit(f"soak: still alive after {timeout_s:g} s: {told}")
            time.sleep(0.3)

    def _submit(self, kind: Kind) -> None:
        self._sent += 1
        text = kind.text(self._said, self._dice)
        submission = Submission(text=text, key=f"soak-{self._sent}", held=kind.held)
        if self._sent % BATCH_EVERY == 0:
            many = self.until_answered(lambda: self._client.submit_many(submission, BATCH))
            given = list(zip(many.ids, many.names, strict=True))
        else:
            one = self.until_answered(lambda: self._client.submit_prepared(submission))
            given = [(one.id, one.name)]
        for id, name in given:
            self.acknowledged.append(Expected(id, name, kind))
            if kind.cancel_after_s is not None:
                at = time.monotonic() + self._dice.uniform(*kind.cancel_after_s)
                self._due.append((at, "cancel", id))
            if kind.held:
                self._due.append((time.monotonic() + self._dice.uniform(0, 3), "release", id))

    def _do_what_is_due(self, now: float) -> None:
        for due in [due for due in self._due if due[0] <= now]:
            self.until_answered(partial(self._order, *due[1:]))
            self._due.remove(due)

    def _order(self, verb: str, id: str) -> None:
        """Cancels or releases. A server that was killed before it answered may have done it."""
        again = self._asked == (verb, id)
        self._asked = verb, id
        try:
            self._verbs[verb](id)
        except ApiError as error:
            if not again or error.problems[0].code != "phase/not-held":
                raise
