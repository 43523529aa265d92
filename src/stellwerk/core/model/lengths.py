"""How long work is expected to run, on what that rests, and how right it has been."""

from typing import Literal, NamedTuple

from msgspec import Struct

from stellwerk.core.model.peaks import Peak

Basis = Literal["task", "name", "script", "shape", "owner", "anybody", "guess"]
"""What the nearest work was that is known: this very task under this name; this owner's work of
this name; this task under any name; this owner's work of this shape; this owner's; anybody's;
nothing at all."""

Keys = tuple[str, ...]
"""Under what a workload's length is kept, one for each basis but the guess, nearest first."""


class Work(NamedTuple):
    """What tells that work is the same: whose it is, its name, and the hash of its task."""

    project: str
    owner: str
    name: str
    task: str


class Begun(Struct, frozen=True):
    """A live run: since when it holds what it holds, and by what its length is known.

    ``limit_ms`` is what ends it in any case, its grace included (0: nothing does). ``queue`` is the
    LocalQueue that it came from, ``grace_ms`` what it has to save when it is stopped, ``safe_ms``
    until when it was promised not to be (0: it wasn't).
    """

    planned_ms: int
    work: Work
    limit_ms: int = 0
    queue: str = ""
    grace_ms: int = 0
    safe_ms: int = 0
    goes_on: bool = False


class Predicted(Struct, frozen=True):
    """How long work runs in all, in milliseconds: one of two, and nine of ten, are over by then.

    ``basis`` is the nearest work that was seen, ``seen`` so many times (old ones count for less).
    ``bounded``: a time limit is what ends it at the latest of the two.
    """

    p50_ms: int
    p90_ms: int
    basis: Basis
    seen: int = 0
    bounded: bool = False


class Length(Struct, frozen=True, omit_defaults=True):
    """How long the next run of some work takes: equally likely lengths, the shortest first.

    None where nothing is known. ``limit_ms`` (0: none) is what ends it in any case, its grace
    included. ``basis`` and ``seen`` are what that rests on.
    """

    likely_ms: tuple[int, ...] = ()
    limit_ms: int = 0
    basis: Basis = "guess"
    seen: int = 0

    @property
    def median_ms(self) -> int | None:
        """What one of two is over by."""
        return self.likely_ms[(len(self.likely_ms) - 1) // 2] if self.likely_ms else None


class Sketch(Struct, frozen=True):
    """How often which length was seen: thousandths of a time in buckets a tenth apart."""

    counts: dict[int, int] = {}


class Calibration(Struct, frozen=True):
    """Of so many ends that were predicted, how many came within the median and within the p90."""

    ends: int = 0
    within_p50: int = 0
    within_p90: int = 0


class HistoryImage(Struct, frozen=True):
    """All that is kept of past lengths, and of how much GPU memory work held; those that were added
    to last come last.
    """

    sketches: dict[str, Sketch] = {}
    calibration: dict[Basis, Calibration] = {}
    gpu_peaks: dict[str, Peak] = {}
