"""A machine's part of a run over several: which they are, and the barrier before the ranks.

The ranks of a part start when the control plane says `go`, which it does once all parts are ready
for it: first to the part with rank 0, whose port the others are told with theirs. A part that is
ready waits for as long as that takes; its status tells how far it is, and outlives everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Optional

from .files import JSONObject
from .launches import Launches
from .loop import Loop
from .network import own_addresses
from .ranks import Processes
from .spec import Spec
from .system import now_ms
from .way import Door, Search

WAITS = "waiting until all of its machines are ready"


class Hands(NamedTuple):
    """What a barrier needs of the wrapper."""

    loop: Loop
    may_go_on: Callable[[], bool]
    start_ranks: Callable[[Processes, Mapping[str, str]], None]
    say: Callable[[str], None]
    launches: Launches


class Barrier:
    """Lets the ranks of a part start when it is ready for it and the word has come.

    A run that is no part of anything is let through at once.
    """

    def __init__(self, spec: Spec, hands: Hands) -> None:
        gang = spec.gang
        self.released = gang is None
        self._spec = spec
        self._door: Optional[Door] = None
        self._search: Optional[Search] = None
        self.failed_at_ms: Optional[int] = None
        self._addresses = own_addresses() if gang is not None else []
        self._gang = gang
        self._hands = hands
        self._told: dict[str, str] = {}
        self._commands: Optional[Processes] = None

    def arrive(self, commands: Processes) -> None:
        """All is prepared."""
        self._commands = commands
        if self.released:
            self._start(commands)
        else:
            if self._gang is not None and self._gang.host == 0 and "MASTER_ADDR" in self._spec.env:
                self._door = Door(self._spec.run, self._hands.loop)
            self._hands.say(WAITS)

    def find(self, addresses: Any, port: Any) -> None:
        """Look for the way to the head, at these addresses."""
        if self.released or self._search is not None or not isinstance(addresses, list):
            return
        texts = [str(address) for address in addresses]
        self._search = Search(
            self._spec.run, texts, int(port), self._hands.loop, lambda: self._hands.say(WAITS)
        )

    def release(self, env: Any) -> None:
        """The word has come, with variables that the ranks are to find. Twice is once."""
        if self.released or not self._hands.may_go_on():
            return
        pairs = env.items() if isinstance(env, dict) else ()
        self._told = {str(name): str(value) for name, value in pairs}
        self.released = True
        if self._door is not None:
            self._door.close()
        self._hands.say("")
        if self._commands is not None:
            self._start(self._commands)

    def rank_failed(self) -> None:
        """A rank here has failed by itself: the other machines are to hear of it at once."""
        self.failed_at_ms = self.failed_at_ms or now_ms()

    def _start(self, commands: Processes) -> None:
        self._hands.start_ranks(commands, self._told)

    def as_json(self) -> Optional[JSONObject]:
        """For status.json: None where there is no gang."""
        if self._gang is None:
            return None
        ready = self._commands
        return {
            "prepared": ready is not None,
            "released": self.released,
            "port": ready.meeting_port if ready is not None else "",
            "failed_at_ms": self.failed_at_ms,
            "addresses": self._addresses,
            "door": self._door.as_json() if self._door is not None else None,
            "ways": self._search.found if self._search is not None else None,
            **self._hands.launches.as_json(),
        }
