"""What a driver is: it carries out orders on one cluster and reports what it sees.

A driver never decides. Orders are idempotent by (run, generation): the engine repeats them after a
crash, and a driver that has carried one out already answers with what became of it. Reports may be
late, doubled or lost; the engine folds them so that none of this does harm.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import Report
from stellwerk.core.model.resources import Allocation
from stellwerk.core.model.workload import NoticeWhy

StartGuarantee = Literal["claim file", "native name", "look-up"]
LogStream = Literal["run", "setup", "metrics"]
"""What a run leaves to be read; its ``metrics`` are one file, whatever the rank."""


class Capabilities(Struct, frozen=True):
    """What the engine may expect of a driver.

    ``queues_itself``: the engine behind it decides when a run starts (phase Dispatched until then).
    ``start_guarantee``: how a start is kept from happening twice. ``exec``: whether commands can
    be run inside a run; such a driver ``Executes``.
    """

    start_guarantee: StartGuarantee
    queues_itself: bool = False
    notices: bool = True
    reads_logs: bool = True
    exec: bool = False


class RankOrder(Struct, frozen=True):
    """One replica of a run: its rank and the environment that is its own."""

    rank: int
    node: str
    env: dict[str, str]


class MountOrder(Struct, frozen=True, omit_defaults=True):
    """What a run finds at ``target`` (absolute, or ``~/x``; below ``~/sky_workdir`` its own work).

    One of: ``snapshot``, a manifest of content that becomes the run's own; ``folder`` of the place,
    itself or with ``copy`` a copy of it; ``secret``, whose value is in the order's
    ``secret_files``.
    """

    target: str
    snapshot: str = ""
    folder: str = ""
    copy: bool = False
    read_only: bool = False
    secret: str = ""


class StartOrder(Struct, frozen=True, omit_defaults=True):
    """Everything needed to start a run; values of secrets travel only here, never to a file.

    ``snapshot`` names the manifest in the blob store that the run's own work directory is made of.
    ``cwd`` ("" = that work directory) is an absolute folder to run in, in place; ``sky_workdir``
    asks for the work directory to be ``~/sky_workdir`` too. ``setup_inputs`` names the files of it
    on which the setup depends, if what it makes may be kept for other runs (None: it may not).
    ``resumes`` names the workload with whose checkpoints the run starts, if its own has none yet.
    ``image`` names a container image in whose files the run works ("" = the machine's own).
    ``allocation`` is what the run holds, for a driver that can see to it that a run stays within
    it. ``person`` is the user as whom it runs ("" = the server's own). ``lost_generation`` is the
    newest run that was given up: what it may have saved on a silent machine isn't waited for.
    ``window_end_ms`` is when the run must be gone, by the engine's clock (0: at no time).
    """

    run: RunId
    generation: int
    epoch: int
    workload: str
    name: str
    project: str
    ranks: tuple[RankOrder, ...]
    env: dict[str, str] = {}
    secrets: dict[str, str] = {}
    setup: str = ""
    setup_env: dict[str, str] = {}
    setup_inputs: tuple[str, ...] | None = None
    script: str = ""
    argv: tuple[str, ...] = ()
    cwd: str = ""
    inherit_env: bool = False
    snapshot: str = ""
    mounts: tuple[MountOrder, ...] = ()
    secret_files: dict[str, str] = {}
    sky_workdir: bool = False
    image: str = ""
    checkpoint_dir: str = ""
    output_dir: str = ""
    resumes: str = ""
    grace_ms: int = 30_000
    term_signals: tuple[tuple[int, int], ...] = ()
    recover_on_exit_codes: tuple[int, ...] = ()
    time_limit_ms: int = 0
    cut_off_ms: int = 0
    shell: Literal["snapshot", "interactive"] = "snapshot"
    log_limit_bytes: int = 0
    allocation: Allocation | None = None
    person: str = ""
    lost_generation: int = 0
    window_end_ms: int = 0


class StopOrder(Struct, frozen=True):
    """Notice to a run: stop within ``grace_ms``, then everything of it is killed.

    With ``window_end_ms`` it is none yet: the run must be gone then, and no more when it was told.
    """

    run: RunId
    generation: int
    epoch: int
    why: NoticeWhy
    grace_ms: int
    window_end_ms: int = 0


class LogChunk(Struct, frozen=True):
    """Bytes of a log from ``offset`` on; ``size`` is how long the log was when it was read."""

    data: bytes
    offset: int
    size: int

    @property
    def next_offset(self) -> int:
        """Where to read on."""
        return self.offset + len(self.data)


class Folders(Struct, frozen=True, omit_defaults=True):
    """Where on its place a run works, writes results and keeps checkpoints; "" = nobody knows."""

    work: str = ""
    output: str = ""
    checkpoint: str = ""


Kept = Literal["outputs", "checkpoints"]
"""What a place keeps for a workload over all of its runs."""


class Left(Struct, frozen=True):
    """Something that a run or a workload left on a place, by its name, and the disk it takes."""

    name: str
    bytes: int


class Saved(Struct, frozen=True, omit_defaults=True):
    """A whole checkpoint that a workload left: ``step`` is what its name tells, if it tells one."""

    name: str
    bytes: int
    modified_ms: int
    step: int | None = None


class DriverError(Exception):
    """An order could not be carried out; ``final`` says that it surely never will have been.

    Where it isn't final, the outcome is unknown, and the order may be given again.
    """

    def __init__(self, code: str, message: str, *, final: bool) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.final = final


class Driver(Protocol):
    """One cluster's hands and eyes."""

    cluster: str
    capabilities: Capabilities

    async def open(self) -> None:
        """Connects; raises DriverError when the place can't be reached (the engine tries again)."""
        ...

    async def close(self) -> None:
        """Lets go of the place; what runs there goes on."""
        ...

    async def probe(self) -> Cluster:
        """Looks at what the place has."""
        ...

    async def start(self, order: StartOrder) -> None:
        """Starts a run, at most once per (run, generation); what becomes of it is reported.

        A start that is refused for good raises a final DriverError and is reported as StartRefused.
        """
        ...

    async def stop(self, order: StopOrder) -> None:
        """Gives notice; returns when the notice has arrived."""
        ...

    async def withdraw(self, run: RunId) -> None:
        """Takes a notice back."""
        ...

    async def kill(self, run: RunId) -> None:
        """Ends everything of a run at once."""
        ...

    async def forget(self, run: RunId) -> None:
        """Removes what a finished run left on the place, once all of it has been read."""
        ...

    def reports(self) -> AsyncIterator[Report]:
        """Yields an Inventory after each (re)connection, then what changes, for ever."""
        ...

    async def read_log(
        self, run: RunId, stream: LogStream, rank: int, offset: int, limit: int
    ) -> LogChunk:
        """Reads a log by offset; a log that isn't there yet is empty."""
        ...


@runtime_checkable
class KnowsCheckpoints(Protocol):
    """What a driver is that can start a workload with the checkpoints of another."""

    async def checkpoints(self, workload: str) -> Sequence[Saved]:
        """The whole checkpoints of a workload, the newest last."""
        ...


Area = Literal["work", "outputs", "checkpoints"]
"""What of a run's files is meant."""


class FileThere(Struct, frozen=True):
    """One entry of a folder on a place; ``kind`` is file, folder, link or special."""

    name: str
    kind: str
    size: int
    modified_ms: int


class Listing(Struct, frozen=True):
    """What lies at a path: the entries of a folder, or the one file that it is."""

    root: str
    is_folder: bool
    files: tuple[FileThere, ...]


@runtime_checkable
class BringsFiles(Protocol):
    """What a driver is whose runs' files lie where only it can read them.

    A path is inside of an area, and can't leave it, not even through a link. Of a run on several
    machines it is on that of ``rank``.
    """

    async def list_files(self, run: RunId, area: Area, path: str, rank: int = 0) -> Listing:
        """What lies at a path; raises a final DriverError where nothing does."""
        ...

    async def read_file(
        self, run: RunId, area: Area, path: str, offset: int, limit: int, rank: int = 0
    ) -> LogChunk:
        """Bytes of a file, perhaps fewer than ``limit``."""
        ...


class ExecOrder(Struct, frozen=True):
    """A command is to be run beside a rank of a run; the first frame of the session says which."""

    run: RunId
    rank: int = 0


class ExecSession(Protocol):
    """One command inside a run, as a stream of bytes in both directions.

    The bytes are the frames of `stellwerk.runtime.frames`, cut anywhere. The command ends when the
    session is closed before it is over, or with the run.
    """

    async def send(self, data: bytes) -> None:
        """Passes on what the caller says; raises DriverError if nobody hears it any more."""
        ...

    async def receive(self) -> bytes:
        """What comes next; b"" when all has been said."""
        ...

    async def close(self) -> None:
        """Hangs up."""
        ...


@runtime_checkable
class Executes(Protocol):
    """What a driver is that can run a command inside a run."""

    async def exec(self, order: ExecOrder) -> ExecSession:
        """Opens a session; nothing runs before its first frame.

        Raises DriverError: ``runtime/not_running``, ``runtime/ended``, ``runtime/unknown_run``,
        ``runtime/no_rank``, ``runtime/too_old`` if what is there can't do it yet.
        """
        ...


@runtime_checkable
class Tidies(Protocol):
    """What a driver is that can say what is left on its place, and remove it.

    It removes what it is told to: whoever asks knows what is over and what nobody needs.
    """

    async def runs_left(self) -> Sequence[Left]:
        """Runs of which output or directories are there."""
        ...

    async def is_left(self, run: RunId) -> bool:
        """Whether output or directories of a run are there."""
        ...

    async def forget(self, run: RunId) -> None:
        """Removes what a finished run left on the place."""
        ...

    async def folders_left(self, kind: Kept) -> Sequence[Left]:
        """Workloads that have a folder of this kind there, by their ids."""
        ...

    async def remove_folder(self, kind: Kept, workload: str) -> None:
        """Removes a workload's folder of a kind."""
        ...

    async def strays(self, live: Collection[str], before_ms: int) -> Sequence[Left]:
        """What is older than an instant and belongs to no run that is there or `live`."""
        ...

    async def remove_strays(self, names: Collection[str]) -> None:
        """Removes what `strays` named."""
        ...
