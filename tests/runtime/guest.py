"""A caller who runs a command inside a run: asks the agent, then speaks frames with the keeper."""

import json
import time
from typing import Any, Self

from stellwerk.runtime import frames
from tests.runtime.rig import WAIT_S, Client, JSONObject, Rig


class Caller:
    """One command inside a run, as its caller sees it."""

    def __init__(self, rig: Rig, run: str, argv: list[str], **wish: Any) -> None:
        self._client = Client(rig.socket)
        self.output = bytearray()
        self.errors = bytearray()
        self.taken = 0
        self.end: JSONObject | None = None
        self._reader = frames.FrameReader()
        try:
            self._client.ask("exec", run=run, rank=wish.pop("rank", 0))
        except BaseException:
            self._client.close()
            raise
        self.say(frames.COMMAND, json.dumps({"argv": argv, **wish}).encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()

    def say(self, kind: bytes, content: bytes = b"") -> None:
        self._client._socket.sendall(frames.frame(kind, content))

    def hang_up(self) -> None:
        self._client.close()

    def hear(self) -> bool:
        """Takes what comes next; False at the end of the session."""
        data = self._client._socket.recv(1 << 16)
        for kind, content in self._reader.frames(data):
            if kind == frames.OUTPUT:
                self.output += content
            elif kind == frames.ERRORS:
                self.errors += content
            elif kind == frames.TAKEN:
                self.taken += frames.read_taken(content)
            elif kind == frames.ENDED:
                self.end = json.loads(content)
        return bool(data)

    def until(self, text: bytes) -> None:
        """Hears until the command has printed something."""
        deadline = time.monotonic() + WAIT_S
        while text not in self.output:
            assert self.hear(), f"it ended without {text!r}: {bytes(self.output)!r}"
            assert time.monotonic() < deadline

    def finish(self) -> JSONObject:
        """Hears to the end; how the command ended."""
        while self.hear():
            pass
        assert self.end is not None, "the session broke off"
        return self.end


def ran(rig: Rig, run: str, *argv: str, **wish: Any) -> tuple[bytes, bytes, JSONObject]:
    """Runs a command to its end: what it printed on both streams, and how it ended."""
    with Caller(rig, run, list(argv), **wish) as caller:
        end = caller.finish()
        return bytes(caller.output), bytes(caller.errors), end
