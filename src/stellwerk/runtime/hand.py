"""The hand of a caller that is elsewhere: one process on this machine at the end of its connection.

It finds or starts the agent and passes lines between it and the caller, and it carries out what a
caller on this machine would do with files. It holds nothing: with the connection it ends, and
agent, wrappers and jobs go on. Spoken over standard input and output, see `messages.py`:

| request | asks with | gets |
|---|---|---|
| `agent` | | the agent's lines from here on |
| `missing` | `names` | `missing`: those whose content isn't here |
| `put` | `items`: [name, size] of whole ones behind it, or `name`, `offset`, `size` of a part | |
| `tree` | `place`, `entries` (the name of a list as content) | `made` |
| `remove` | `run`, or `places` | |
| `log` | `run`, `stream`, `rank`, `offset`, `limit` | `size`, with the bytes behind |
| `folders` | `run`, `workload` | `work`, `output`, `checkpoint` |
| `checkpoints` | `workload` | `found` |
| `settled` | `workload`, `over` | `found`, `state`, `generation` |
| `hold` | the same | the same, `size` of the list of what is held |
| `held` | `workload`, `path`, `offset`, `limit` | the bytes behind; the list without a `path` |
| `shares` | `folder`, `word` | `same` |
| `lend` | `workload`, `folder`, `pace` | `bytes` |
| `let_go` | `workload` | |
| `reach_out` | `addresses`, `ports` | `reached`: whether anybody answers at one of them |
| `put_in_place` | `workload`, `entries` (the name of a list as content), `folder` | |
| `channel` | `number`; only where a machine dials out | |
| `hub_…` | see `hub_hand.py` | |
| `left` | `kind` (`runs`, `outputs`, `checkpoints`), or `run` | `left`: [name, bytes]; `is` |
| `strays` | `live`, `before_ms` | `left` |
| `sweep` | `kind` and `workload`, or `strays` | |
| `leave` | `purge` | `agent` (`ended`, `goes on`), `purged` |
| `list` | `run`, `workload`, `area`, `path` | `root`, `files` |
| `get` | the same, `offset`, `limit` | `size`, `mode`, with the bytes behind |
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import sys
import threading
from typing import Optional

from . import frames, messages
from .files import JSONObject
from .hand_files import OPERATIONS, FileTrouble, Here, Operation
from .reach import NoAgent, reach, socket_of
from .relay import write_all

_BLOCK = 256 * 1024
_WAITING = 16
"""Requests that may wait; more of them wait in the connection."""


_SLOW = {"left", "strays", "sweep", "settled", "hold", "lend", "put_in_place", "reach_out"}
_SLOW |= {"hub_list", "hub_keep", "hub_link", "hub_remove", "hub_take"}


def _operation(op: str) -> Optional[Operation]:
    """What carries a request out; a caller waits for a hand to start, so most is read when used."""
    if op in {"left", "strays", "sweep"}:
        from .hand_tidying import OPERATIONS as TIDYING

        return TIDYING[op]
    if op in {"settled", "hold", "held", "let_go", "put_in_place", "shares", "lend"}:
        from .hand_carrying import OPERATIONS as CARRYING

        return CARRYING[op]
    if op == "reach_out":
        from .hand_reaching import reach_out

        return reach_out
    if op in {"hub_lend", "hub_unlend", "hub_take"}:
        from .hub_passing import OPERATIONS as PASSING

        return PASSING[op]
    if op == "hub_remove":
        from .hub_removing import OPERATIONS as OF_HUB_TOO

        return OF_HUB_TOO[op]
    if op.startswith("hub_"):
        from .hub_hand import OPERATIONS as OF_HUB

        return OF_HUB.get(op)
    if op == "leave":
        from .hand_leaving import leave

        return leave
    if op == "channel":
        from .hand_channel import give_channel

        return give_channel
    return OPERATIONS.get(op)


class Hand:
    """What one caller has here."""

    def __init__(self, home: str, build: str) -> None:
        self._here = Here(home)
        self._build = build
        self._requests: queue.Queue[tuple[JSONObject, bytes]] = queue.Queue(_WAITING)
        self._speaking = threading.Lock()
        self._agent: Optional[socket.socket] = None

    def serve(self) -> None:
        """Work until the caller hangs up or has been silent for long."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        threading.Thread(target=self._carry_out_all, daemon=True).start()
        threading.Thread(target=self._here.forget_old_content, daemon=True).start()
        reader = frames.FrameReader()
        while True:
            signal.alarm(messages.SILENCE_S)
            block = os.read(0, _BLOCK)
            if not block:
                return
            for kind, content in reader.frames(block):
                self._hear(kind, content)

    def _hear(self, kind: bytes, content: bytes) -> None:
        if kind == messages.ASK:
            head, data = messages.read_message(content)
            if head.get("op") in _SLOW:
                threading.Thread(target=self._answer, args=(head, data), daemon=True).start()
            else:
                self._requests.put((head, data))
        elif kind == messages.AGENT and self._agent is not None:
            try:
                self._agent.sendall(content)
            except OSError:
                return  # who listens to the agent tells that it has gone
        elif kind == messages.HANG_UP and self._agent is not None:
            self._let_go(self._agent)

    def _say(self, frame: bytes) -> None:
        try:
            with self._speaking:
                write_all(1, frame)
        except OSError:
            os._exit(0)

    def _carry_out_all(self) -> None:
        while True:
            self._answer(*self._requests.get())

    def _answer(self, head: JSONObject, data: bytes) -> None:
        answer, more = self._carry_out(head, data)
        self._say(messages.message(messages.ANSWER, {"id": head.get("id"), **answer}, more))

    def _carry_out(self, head: JSONObject, data: bytes) -> tuple[JSONObject, bytes]:
        op = str(head.get("op"))
        try:
            if op == "agent":
                self._reach_agent()
                return {}, b""
            operation = _operation(op)
            if operation is None:
                return _error("unknown_op", f"`{op}` is no operation"), b""
            return operation(self._here, head, data)
        except (FileTrouble, NoAgent) as trouble:
            return _error(trouble.code, trouble.message), b""
        except OSError as trouble:
            place = f"`{trouble.filename}`: " if trouble.filename else ""
            return _error("machine", f"{place}{trouble.strerror}", errno=trouble.errno), b""
        except Exception as fault:  # noqa: BLE001 - a request must not take the hand with it
            import traceback

            traceback.print_exc()
            return _error("fault", f"a fault of the runtime: {fault!r}"), b""

    def _reach_agent(self) -> None:
        if self._agent is not None:
            self._let_go(self._agent)
        os.makedirs(self._here.places.root, mode=0o700, exist_ok=True)
        root = self._here.places.root
        agent = reach(root, socket_of(root), self._build)
        agent.settimeout(None)
        self._agent = agent
        threading.Thread(target=self._pass_on, args=(agent,), daemon=True).start()

    def _pass_on(self, agent: socket.socket) -> None:
        """Tells the caller what the agent says, and that it has gone."""
        try:
            while block := agent.recv(_BLOCK):
                self._say(frames.frame(messages.AGENT, block))
        except OSError:
            pass  # it is over all the same
        if self._agent is agent:
            self._agent = None
            self._say(frames.frame(messages.HANG_UP))
        agent.close()

    def _let_go(self, agent: socket.socket) -> None:
        self._agent = None
        try:
            agent.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it was over already


def _error(code: str, message: str, **more: object) -> JSONObject:
    return {"error": {"code": code, "message": message, **more}}


def serve(home: str) -> int:
    """Be the hand of whoever is at the other end of standard input; the exit status."""
    Hand(home, os.path.abspath(sys.argv[0])).serve()
    return 0
