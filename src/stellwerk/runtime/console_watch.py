"""Gives a machine back to who sits down at it: notice to all runs, and word to the control plane.

The rule lies in a file of the root, so it holds while the control plane is away, and for the next
agent. Without a rule nothing is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Optional

from .console import LOGIND, TREE_ENV, Presence, Seen, look
from .files import JSONObject, read_json, write_json
from .loop import Loop
from .system import monotonic_ms, now_ms

LOOK_EVERY_MS = 500
QUIET_MS = 600_000
RULES = ("ignore", "notice")
_LONGEST_QUIET_MS = 86_400_000


class ConsoleWatch:
    """`stop_all` has every run leave that wasn't told yet, `tell` is given what changed."""

    def __init__(
        self,
        path: str,
        loop: Loop,
        stop_all: Callable[[], None],
        tell: Callable[[JSONObject], None],
    ) -> None:
        self._path = path
        self._loop = loop
        self._stop_all = stop_all
        self._tell = tell
        self._tree = os.environ.get(TREE_ENV) or LOGIND
        self._seen = Seen(False, "")
        self._since_ms = 0
        self._presence = Presence(QUIET_MS)
        self.rule = "ignore"

    @property
    def taken(self) -> bool:
        """Whether the machine belongs to who sits there now."""
        return self.rule != "ignore" and self._presence.taken

    def begin(self) -> None:
        """Go on by the rule that was given last."""
        kept = read_json(self._path) or {}
        trouble = self._take(kept.get("do", "ignore"), kept.get("quiet_ms", QUIET_MS))
        if trouble is None and self.rule != "ignore":
            self._look()

    def set(self, rule: object, quiet_ms: object) -> Optional[str]:
        """Go by a rule from now on, and look at once; what is wrong with it, or None."""
        before = (self.rule, self._presence.quiet_ms)
        trouble = self._take(rule, QUIET_MS if quiet_ms is None else quiet_ms)
        if trouble is not None:
            return trouble
        if (self.rule, self._presence.quiet_ms) != before:
            kept = {"v": 1, "do": self.rule, "quiet_ms": self._presence.quiet_ms}
            write_json(self._path, kept, durable=True)
        if self.rule == "ignore":
            self._loop.cancel("console")
            self._presence = Presence(self._presence.quiet_ms)
        else:
            self._look()
        return None

    def _take(self, rule: Any, quiet_ms: Any) -> Optional[str]:
        if rule not in RULES:
            return f"`do` is one of {', '.join(RULES)}"
        if type(quiet_ms) is not int or not 0 <= quiet_ms <= _LONGEST_QUIET_MS:
            return "`quiet_ms` is no whole number of at most a day"
        self.rule, self._presence.quiet_ms = str(rule), quiet_ms
        return None

    def _look(self) -> None:
        self._loop.after("console", LOOK_EVERY_MS, self._look)
        self._seen = look(self._tree)
        if self._presence.saw(self._seen.taken, monotonic_ms()):
            self._since_ms = now_ms()
            # The word goes first: before the runs end it is known that nothing may come here.
            self._tell({"event": "console", "console": self.state()})
        if self._presence.taken:
            self._stop_all()

    def state(self) -> JSONObject:
        """How it is now."""
        return {
            "do": self.rule,
            "taken": self.taken,
            "since_ms": self._since_ms if self.taken else 0,
            "seen_by": self._seen.by,
        }
