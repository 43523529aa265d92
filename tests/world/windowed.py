"""The world with calendars: windows open, close, move and go while everything else goes wrong."""

import random

from stellwerk.core.intake import on_command
from stellwerk.core.invariants import overstays
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.calendars import Calendar
from stellwerk.core.windows import closing
from tests.world.world import World

MINUTE = 60_000


class WindowedWorld(World):
    """Counts who was ``told`` that a window closes, and of whose windows the end was ``moved``."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.times = random.Random(seed)
        self.told = self.moved = 0

    def step(self) -> None:
        if self.times.random() < 0.1:
            self._change_windows()
        super().step()

    def _change_windows(self) -> None:
        name = self.times.choice(("alone", "room"))
        edges = [self.now_ms + self.times.randrange(-20, 60) * MINUTE for _ in range(4)]
        first, second, third, fourth = sorted(edges)
        windows = ((first, second), (third + 1, fourth + 2))
        command: cmd.Command = cmd.SetCalendar(Calendar(name, windows))
        if self.times.random() < 0.2:
            command = cmd.RemoveCalendar(name)
        self._fold(on_command(self.state, command, "prof", self.now_ms))

    def cycle(self) -> None:
        super().cycle()
        now_ms = max(self.now_ms, self.state.at_ms)
        found = closing(self.state, now_ms)
        self.told += sum(isinstance(one, ev.NoticeGiven) for one in found)
        self.moved += sum(isinstance(one, ev.WindowMoved) for one in found)
        self._fold(found)
        assert not closing(self.state, now_ms)
        assert not overstays(self.state, now_ms), overstays(self.state, now_ms)

    def settle(self) -> None:
        for name in ("alone", "room"):
            self._fold(on_command(self.state, cmd.RemoveCalendar(name), "prof"))
        super().settle()
