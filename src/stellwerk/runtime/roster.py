"""Knows the runs of this machine: reads their files, watches their wrappers, ends what they left.

Everything here can be read again from the files, so an agent that dies loses nothing: the next one
finds live wrappers by the lock they hold, and closes the runs of dead ones.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable
from typing import Optional

from . import processes
from .ending import bare_record, reboot_record, write_end
from .files import RUN_NAME, JSONObject, Places, RunFiles, last_lines, read_json, write_atomically
from .loop import Loop
from .removing import remove_tree
from .spec import Identity
from .system import boot_id, open_pidfd

_LOOK_MS = 1_000
_LOOK_BESIDE_PIDFD_MS = 30_000
_CLEAN_AGAIN_MS = 100
_CLOSE_AGAIN_MS = 5_000
_REMEMBERED = 20_000


class Entry:
    """One run on this machine."""

    def __init__(self, files: RunFiles, spec: JSONObject) -> None:
        self.files = files
        self.identity = Identity(
            run=os.path.basename(files.directory),
            generation=_number(spec.get("generation")),
            epoch=_number(spec.get("epoch")),
            workload=str(spec.get("workload", "")),
            name=str(spec.get("name", "")),
        )
        self.wrapper: Optional[int] = None
        self.pidfd: Optional[int] = None
        self.status: Optional[JSONObject] = None
        self.ended: Optional[JSONObject] = None
        self.gang = spec.get("gang")

    @property
    def run(self) -> str:
        """Name of the run."""
        return self.identity.run

    @property
    def state(self) -> str:
        """starting, setting_up, running, stopping or ended."""
        if self.ended is not None:
            return "ended"
        return str((self.status or {}).get("phase", "starting"))

    def has_ended(self) -> bool:
        """Whether the end is known."""
        return self.ended is not None

    def report(self) -> JSONObject:
        """What a client is told of this run."""
        seen = {"state": self.state, "status": self.status, "ended": self.ended}
        gang = {} if self.gang is None else {"gang": self.gang}
        return {**self.identity._asdict(), **seen, **gang}

    def reread(self) -> bool:
        """Look at the files again; True if something is new."""
        before = (self.status, self.ended)
        self.ended = self.ended or read_json(self.files.ended)
        self.status = read_json(self.files.status) or self.status
        return before != (self.status, self.ended)


class Roster:
    """All runs under one root; `on_change` gets a report whenever one has changed."""

    def __init__(self, places: Places, loop: Loop, on_change: Callable[[JSONObject], None]) -> None:
        self._places = places
        self._loop = loop
        self._on_change = on_change
        self._boot_id = boot_id()
        self._thrown_away = 0
        self.entries: dict[str, Entry] = {}
        self.forgotten = Forgotten(places.forgotten)

    @property
    def live(self) -> list[Entry]:
        """Runs that haven't ended."""
        return [entry for entry in self.entries.values() if not entry.has_ended()]

    def adopt_all(self) -> None:
        """Take over what an earlier agent started, and close what is over."""
        for name in sorted(os.listdir(self._places.runs)):
            files = self._places.run(name)
            if not RUN_NAME.fullmatch(name) or not os.path.isdir(files.directory):
                continue
            ended = read_json(files.ended)
            if ended is None and read_json(files.started) is None and not is_locked(files):
                # Nothing of it has ever run: the wrapper writes started.json before all else.
                self.throw_away(files)
                continue
            spec = read_json(files.spec) or {}
            entry = Entry(files, {**spec, **(ended or {})})
            entry.reread()
            self.entries[entry.run] = entry
            if entry.ended is None:
                self._take_over(entry)
        self._end_strays()

    def _take_over(self, entry: Entry) -> None:
        started = read_json(entry.files.started)
        if started is not None and started.get("boot_id") != self._boot_id:
            self._close(entry, reboot_record(entry.files, entry.identity))
            return
        pid, ticks = (_number((started or {}).get(name)) for name in ("pid", "starttime"))
        self.watch(entry, pid if processes.is_running(pid, ticks) else None)

    def _end_strays(self) -> None:
        """End what goes on without a directory, which its job has removed: nobody could tell of
        it any more, so it counts as lost and may soon run a second time.
        """
        for process in processes.everything():
            run = processes.run_below(process.pid, self._places.runs)
            known = run is None or run in self.entries or self.forgotten.generation_of(run)
            if not known and process.pid != os.getpid():
                processes.send(process, signal.SIGKILL)

    def watch(self, entry: Entry, pid: Optional[int]) -> None:
        """Be told when the wrapper of a run ends."""
        entry.wrapper = pid
        try:
            entry.pidfd = None if pid is None else open_pidfd(pid)
        except ProcessLookupError:
            entry.pidfd = None
        if entry.pidfd is not None:
            self._loop.on_readable(entry.pidfd, lambda: self._wrapper_ended(entry))
        self._look_in(entry, _LOOK_MS if pid is None or entry.pidfd is None else None)

    def _look_in(self, entry: Entry, wait_ms: Optional[int]) -> None:
        wait_ms = _LOOK_BESIDE_PIDFD_MS if wait_ms is None else wait_ms
        self._loop.after(f"look {entry.run}", wait_ms, lambda: self.look(entry))

    def _wrapper_ended(self, entry: Entry) -> None:
        self._unwatch(entry)
        self.look(entry)

    def look(self, entry: Entry) -> None:
        """Read the files of a run again; close it if its wrapper is gone without an end."""
        if self.entries.get(entry.run) is not entry or entry.has_ended():
            return
        # The job may have removed the lock; a wrapper that is watched says by itself when it ends.
        alive = entry.pidfd is not None or is_locked(entry.files)
        self.reread(entry)
        if not entry.has_ended() and alive:
            self.waken(entry)
            self._look_in(entry, _LOOK_MS if entry.pidfd is None else None)
        elif not entry.has_ended():
            self._clean_up(entry)

    @staticmethod
    def waken(entry: Entry) -> None:
        """Have a wrapper go on that its job, being the same user, has stopped."""
        if entry.wrapper is not None:
            processes.send_to_pid(entry.wrapper, signal.SIGCONT)

    def reread(self, entry: Entry) -> None:
        """Look at the files of a run and report what is new."""
        if entry.reread():
            if entry.ended is not None:
                self._unwatch(entry)
            self._on_change(entry.report())

    def _clean_up(self, entry: Entry) -> None:
        """A wrapper died without a word: end what is left of its job, then write its end."""
        self._unwatch(entry)
        status = entry.status or {}
        everything = processes.everything()
        left = processes.marked(
            entry.run,
            everything,
            entry.files.directory,
            {_number(pid) for pid in status.get("sessions") or []} - {0},
        )
        left |= {process.pid for process in processes.orphans(os.getpid(), everything)}
        left.discard(os.getpid())
        if left:
            for pid in left:
                processes.send_to_pid(pid, signal.SIGKILL)
            self._look_in(entry, _CLEAN_AGAIN_MS)
            return
        record = bare_record(entry.identity, "wrapper_died", "the run's wrapper was killed")
        record.update(
            started_at_ms=status.get("started_at_ms"),
            notice=status.get("notice"),
            shell=status.get("shell"),
            setup=status.get("setup", "none"),
            last_lines=last_lines(entry.files.rank_log(0)),
        )
        self._close(entry, record)

    def _close(self, entry: Entry, record: JSONObject) -> None:
        try:
            write_end(entry.files, record)
        except OSError:
            # The disk is full, say: the run has no end before it can be written.
            self._look_in(entry, _CLOSE_AGAIN_MS)
            return
        self.reread(entry)

    def _unwatch(self, entry: Entry) -> None:
        self._loop.cancel(f"look {entry.run}")
        if entry.pidfd is not None:
            self._loop.forget(entry.pidfd)
            os.close(entry.pidfd)
            entry.pidfd = None

    def forget(self, entry: Entry) -> None:
        """Remove what a finished run left, but remember that it was there."""
        self.forgotten.add(entry.run, entry.identity.generation)
        del self.entries[entry.run]
        self.throw_away(entry.files)

    def throw_away(self, files: RunFiles) -> None:
        """Take a run's directory out of the way at once; `empty_trash` removes it."""
        self._thrown_away += 1
        name = f"{os.path.basename(files.directory)}.{os.getpid()}.{self._thrown_away}"
        try:
            os.rename(files.directory, os.path.join(self._places.trash, name))
        except FileNotFoundError:
            return

    def empty_trash(self) -> None:
        """Remove thrown-away directories, however big: for a process of its own."""
        for name in os.listdir(self._places.trash):
            remove_tree(os.path.join(self._places.trash, name))


def _number(value: object) -> int:
    """A number of a record; 0 where a job has spoilt its own files."""
    return value if isinstance(value, int) else 0


def is_locked(files: RunFiles) -> bool:
    """Whether the wrapper of a run lives: it holds this lock for as long."""
    try:
        descriptor = os.open(files.lock, os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    except OSError:
        # Out of descriptors, say: what isn't known to be over goes on.
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


class Forgotten:
    """Remembers (run, generation) of removed runs, so that a late start can't start them again."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._highest: dict[str, int] = {}
        try:
            with open(path, encoding="ascii") as file:
                rows = [line.split() for line in file]
        except OSError:
            rows = []
        for row in rows[-_REMEMBERED:]:
            if len(row) == 2 and row[1].isdigit():
                self._highest[row[0]] = max(int(row[1]), self._highest.get(row[0], 0))
        if len(rows) > _REMEMBERED:
            text = "".join(f"{run} {number}\n" for run, number in self._highest.items())
            write_atomically(path, text.encode("ascii"))

    def add(self, run: str, generation: int) -> None:
        """Remember one more."""
        self._highest[run] = max(generation, self._highest.get(run, 0))
        with open(self._path, "a", encoding="ascii") as file:
            file.write(f"{run} {generation}\n")

    def generation_of(self, run: str) -> Optional[int]:
        """The highest generation that was here, or None."""
        return self._highest.get(run)
