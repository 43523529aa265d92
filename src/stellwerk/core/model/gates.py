"""What keeps a waiting workload from its turn besides room: others that it waits for, its array."""

from typing import Literal, get_args

from msgspec import Struct

from stellwerk.core.model.ids import WorkloadId

When = Literal["ok", "any", "fail"]
WHENS: tuple[When, ...] = get_args(When)
Gate = Literal["", "after", "array"]

GONE = "gone"
"""In place of the phase in which a workload ended of which nothing is known any more."""

ARRAY_LABEL = "stellwerk/array-name"
"""The label of all elements of an array; its value is the array's name."""


class After(Struct, frozen=True, omit_defaults=True):
    """Another workload, or array, whose end is waited for.

    ``when``: ``ok`` = it succeeded, ``fail`` = it failed or was cancelled, ``any`` = it is over.
    ``ended`` is the phase in which it ended ("" = it isn't over).
    """

    when: When
    id: WorkloadId
    name: str
    ended: str = ""

    @property
    def written(self) -> str:
        """As it is written behind ``--after``."""
        return f"{self.when}:{self.name}"


class ArrayPart(Struct, frozen=True, omit_defaults=True):
    """Which element of which array a workload is.

    ``id`` is the array's own (`a-…`; "" for an element that is run once more, by itself). ``limit``
    of its elements may be under way at a time (0 = all). ``lowest`` and ``highest`` are indices.
    ``env`` holds what this element alone is given.
    """

    id: WorkloadId
    name: str
    index: int
    count: int
    lowest: int = 0
    highest: int = 0
    step: int = 1
    limit: int = 0
    env: dict[str, str] = {}

    def environment(self, job: str) -> dict[str, str]:
        """What the element's job sees, under Stellwerk's names and those of Slurm's arrays."""
        slurm = {"COUNT": self.count, "MIN": self.lowest, "MAX": self.highest, "STEP": self.step}
        return {
            **self.env,
            "STELLWERK_ARRAY_INDEX": str(self.index),
            "STELLWERK_ARRAY_COUNT": str(self.count),
            "STELLWERK_ARRAY_NAME": self.name,
            "SLURM_ARRAY_TASK_ID": str(self.index),
            "SLURM_ARRAY_JOB_ID": job,
            **{f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in slurm.items()},
        }


class Tally(Struct, frozen=True, omit_defaults=True):
    """How many elements of an array are over, and how they ended."""

    count: int
    over: int = 0
    failed: int = 0
    cancelled: int = 0

    def plus(self, phase: str) -> "Tally":
        """With one more that ended so."""
        return Tally(
            self.count,
            self.over + 1,
            self.failed + (phase == "Failed"),
            self.cancelled + (phase == "Cancelled"),
        )

    @property
    def ended(self) -> str:
        """The phase of the whole; "" while some element isn't over."""
        if self.over < self.count:
            return ""
        return "Failed" if self.failed else "Cancelled" if self.cancelled else "Succeeded"
