"""Asks for the facts of the machine in a process of its own, which a driver or disk may hang.

The process is forked at the first question, answers until nobody asks for two minutes, and is
killed when it doesn't come back. As it is mostly the driver of a GPU that hangs or crashes, the
next process then leaves GPUs out, for some minutes: the rest of the machine is known all the same.
"""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Callable
from typing import Optional

from .files import JSONObject, to_json
from .hub_cache import HubCache
from .loop import Loop
from .probe import probe
from .system import close_descriptors, die_with_parent, monotonic_ms
from .telling import LineReader
from .xids import Xids

GPU_LIMIT_ENV = "STELLWERK_PROBE_LIMIT_MS"
_LIMIT_MS = int(os.environ.get(GPU_LIMIT_ENV) or 10_000)
_WITHOUT_GPUS_MS = 300_000
_IDLE_S = 120.0
_WHOLE, _HUNG, _DIED = b"?", b"h", b"d"
_RESTART = "restart the machine; `nvidia-smi` and the kernel's log may tell more"
_WHY_NO_GPUS = {
    _WHOLE: "",
    _HUNG: f"the NVIDIA driver hangs: it gave no answer within {_LIMIT_MS / 1000:g} s; {_RESTART}",
    _DIED: f"the NVIDIA driver is broken: its library crashed when it was asked; {_RESTART}",
}
Answer = Callable[[JSONObject], None]


class Prober:
    """Questions that wait for one probe; all who ask meanwhile get the same answer."""

    def __init__(self, loop: Loop, root: str) -> None:
        self._loop = loop
        self._root = root
        self._pid: Optional[int] = None
        self._questions = -1
        self._answers: Optional[LineReader] = None
        self._waiting: list[Answer] = []
        self._question_now = _WHOLE
        self._whole_again_at = 0

    def ask(self, answer: Answer) -> None:
        """Probe, and call back with `{ok, facts}` or `{error}`."""
        self._waiting.append(answer)
        if len(self._waiting) > 1:
            return
        if monotonic_ms() >= self._whole_again_at:
            self._question_now = _WHOLE
        self._begin()

    def _begin(self) -> None:
        try:
            self._question()
        except OSError as error:
            # Out of descriptors or processes: the agent must not end for want of a probe.
            message = f"no process could be started that probes the machine: {error.strerror}"
            self._reply({"error": {"code": "machine", "message": message}})
        else:
            self._loop.after("probe", _LIMIT_MS, self._give_up)

    def _question(self) -> None:
        if self._pid is None:
            self._fork()
        try:
            os.write(self._questions, self._question_now)
        except OSError:
            # It left because nobody had asked for long.
            self._drop()
            self._fork()
            os.write(self._questions, self._question_now)

    def _fork(self) -> None:
        opened: list[int] = []
        try:
            opened += os.pipe()
            opened += os.pipe()
            pid = os.fork()
        except OSError:
            for descriptor in opened:
                os.close(descriptor)
            raise
        questions, self._questions, answers, answer = opened
        if pid == 0:
            _answer_questions(questions, answer, self._root)
        os.close(questions)
        os.close(answer)
        os.set_blocking(answers, False)
        self._pid = pid
        reader = self._answers = LineReader(answers)
        self._loop.on_readable(answers, lambda: self._take(reader))

    def _take(self, reader: LineReader) -> None:
        for line in reader.lines():
            self._reply({"ok": True, "facts": json.loads(line)})

    def _reply(self, answer: JSONObject) -> None:
        self._loop.cancel("probe")
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call(answer)

    def _give_up(self) -> None:
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
        self._drop()
        if not self._without_gpus(_HUNG):
            seconds = f"{_LIMIT_MS / 1000:g} s"
            message = f"the machine could not be probed within {seconds}: a disk or driver hangs"
            self._reply({"error": {"code": "probe_hangs", "message": message}})

    def child_ended(self, pid: int) -> None:
        """The agent reaped a child: was it the one that probes?"""
        if pid == self._pid:
            if self._answers is not None:
                self._take(self._answers)
            self._drop()
            if self._waiting and not self._without_gpus(_DIED):
                message = "the process that probes the machine died: a driver is broken"
                self._reply({"error": {"code": "probe_died", "message": message}})

    def _without_gpus(self, why: bytes) -> bool:
        """Asks once more, and leaves out what has probably spoilt it; False if it was left out."""
        if self._question_now != _WHOLE:
            return False
        self._question_now = why
        self._whole_again_at = monotonic_ms() + _WITHOUT_GPUS_MS
        self._begin()
        return True

    def _drop(self) -> None:
        self._pid = None
        if self._answers is not None:
            self._loop.forget(self._answers.descriptor)
            os.close(self._answers.descriptor)
            os.close(self._questions)
            self._answers = None


def _answer_questions(questions: int, answer: int, root: str) -> None:
    """The child's side: never returns."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        close_descriptors(questions, answer)
        die_with_parent()
        xids, hub = Xids(os.path.join(root, "gpus.json")), HubCache()
        while select.select([questions], [], [], _IDLE_S)[0] and (asked := os.read(questions, 1)):
            # A cache on a disk that hangs is left out along with what else may have hung.
            found = probe(root, xids, _WHY_NO_GPUS[asked], hub if asked == _WHOLE else None)
            facts = memoryview(to_json(found) + b"\n")
            while facts:
                facts = facts[os.write(answer, facts) :]
    finally:
        os._exit(0)
