"""Predicts how long work runs, from how long work like it ran before.

Each end is kept under six keys, from this very task to anybody's work. A prediction mixes them from
the most general to the nearest: all that is known above a level weighs as much as one end on it.
So work that is seen for the first time is expected to run like its owner's other
work, and a few runs of its own outweigh that. What has run for some time already is expected to
take as long as work that ran at least as long. A time limit is a bound, never a prediction.

Nothing rests on a prediction being right: it orders what may be tried, and how often it was right
is counted on the way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from stellwerk.core.model.ids import digest
from stellwerk.core.model.lengths import (
    Basis,
    Calibration,
    HistoryImage,
    Keys,
    Length,
    Predicted,
    Sketch,
    Work,
)
from stellwerk.core.model.workload import Workload
from stellwerk.core.peaks import Peaks

BASES: tuple[Basis, ...] = ("task", "name", "script", "shape", "owner", "anybody")
ONCE = 1000
"""What one end adds; halved, with all that is older, whenever a sketch is full."""

FULL = 64 * ONCE
LEAST = ONCE // 20
NOTHING = Sketch()
MOST_SKETCHES = 5_000
"""So many are kept in all; what nobody added to for longest is forgotten first."""

OF_THE_SAME: tuple[Basis, ...] = ("task", "name", "script")
OF_OTHERS = 5
"""What only resembles it says something from so many ends on."""

P50, P90 = 0.5, 0.9
LIKELY = 16
"""So many equally likely lengths stand for what is known of one."""

GROWTH = math.log(1.05)
GUESS_MEDIAN_MS = 30 * 60_000
GUESS_SPREAD = 1.7
"""Of the length of work of which nothing at all is known: the spread of its logarithm."""

GUESS = {
    index: math.exp(
        -(((index + 0.5) * GROWTH - math.log(GUESS_MEDIAN_MS)) ** 2) / 2 / GUESS_SPREAD**2
    )
    for index in range(int(math.log(10_000) / GROWTH), int(math.log(30 * 86_400_000) / GROWTH))
}
TRUSTED = 3
"""So many ends of the very same work are needed before anything is let pass by its length."""

NUMBER = re.compile(r"[-_.]?\d+$")


def keys_of(project: str, owner: str, name: str, task: str, shape: str) -> Keys:
    """The keys of work; a name counts without the number at its end."""
    whose = f"{project}/{owner}"
    parts = (("shape", whose, shape), ("owner", whose), ("anybody",))
    own = own_keys(Work(project, owner, name, task))
    return (*own, *(digest(part) for part in parts))


def own_keys(work: Work) -> Keys:
    """Those of the keys under which work of the same name or the same task is kept."""
    whose = f"{work.project}/{work.owner}"
    stem = NUMBER.sub("", work.name) or work.name
    parts = (("task", whose, stem, work.task), ("name", whose, stem), ("script", work.task))
    return tuple(digest(part) for part in parts)


def keys_of_workload(workload: Workload) -> Keys:
    """The keys of a submitted workload."""
    return keys_of(workload.project, workload.owner, workload.name, workload.task, workload.shape)


def ran_ms(workload: Workload) -> int:
    """For how long its ended runs held what they were given, all together."""
    return sum(run.ended_ms - run.planned_ms for run in workload.runs if run.ended_ms)


def kept_ms(workload: Workload) -> int:
    """For how long those of its runs took that its next one needn't do again."""
    ends = (run for run in workload.runs if run.end is not None and run.end.got_further)
    return sum(run.ended_ms - run.planned_ms for run in ends)


def teaches(workload: Workload) -> bool:
    """Whether its end says how long it takes: not where somebody cut it short."""
    return workload.phase in ("Succeeded", "Failed") and ran_ms(workload) > 0


def learn_peak(history: History, workload: Workload) -> None:
    """Takes into account how much of a GPU work held that came to a good end."""
    most = max((run.end.peak_gpu_card_bytes for run in workload.runs if run.end), default=0)
    if most and workload.phase == "Succeeded":
        work = Work(workload.project, workload.owner, workload.name, workload.task)
        history.peaks.learn(own_keys(work), most)


def limit_of(time_limit_ms: int, grace_ms: int) -> int:
    """How long a run may last at most, its grace and all; 0 for any time."""
    return time_limit_ms + grace_ms if time_limit_ms else 0


def trusted_ms(
    sketches: Mapping[str, Sketch], keys: Keys, share: float, elapsed_ms: int = 0
) -> int | None:
    """How long work runs in all in so large a share of cases, by its `own_keys` alone.

    None where too few of them are known. What resembles it says nothing here, so the answer only
    changes when the same work ends, or when what runs outlives another twentieth of its time.
    """
    for key in keys:
        sketch = sketches.get(key)
        if sketch is not None and sum(sketch.counts.values()) >= TRUSTED * ONCE:
            return _quantiles(sketch.counts, _outlived(elapsed_ms), (share,))[0]
    return None


class History:
    """Past lengths by key, and how right predictions were by what they rested on.

    ``peaks`` is how much GPU memory work held.
    """

    def __init__(self, image: HistoryImage | None = None) -> None:
        self._sketches = dict(image.sketches) if image is not None else {}
        self.calibration = dict(image.calibration) if image is not None else {}
        self.peaks = Peaks(image.gpu_peaks if image is not None else None)
        self.version = 0

    def sketches(self) -> dict[str, Sketch]:
        """What is kept under each key now."""
        return dict(self._sketches)

    def image(self) -> HistoryImage:
        """What a restart goes on from."""
        return HistoryImage(dict(self._sketches), dict(self.calibration), self.peaks.image())

    def learn(self, keys: Keys, ms: int) -> None:
        """Takes one end into account, after comparing it with what was expected."""
        bucket = _bucket(ms)
        self.version += 1
        basis, _ = self._basis(keys)
        if basis != "guess":
            tally = self.calibration.get(basis, Calibration())
            share = self._share_before(keys, bucket)
            self.calibration[basis] = Calibration(
                tally.ends + 1, tally.within_p50 + (share < P50), tally.within_p90 + (share < P90)
            )
        for key in keys:
            known = self._sketches.pop(key, NOTHING).counts
            counts = {**known, bucket: known.get(bucket, 0) + ONCE}
            if sum(counts.values()) >= FULL:
                halves = ((one, count // 2) for one, count in counts.items())
                counts = {one: count for one, count in halves if count >= LEAST}
            self._sketches[key] = Sketch(counts)
        while len(self._sketches) > MOST_SKETCHES:
            del self._sketches[next(iter(self._sketches))]

    def predict(self, keys: Keys, elapsed_ms: int = 0, limit_ms: int = 0) -> Predicted:
        """How long it runs in all, given that it ran for ``elapsed_ms`` and isn't over.

        ``limit_ms`` is what ends it in any case (0: nothing does).
        """
        basis, seen = self._basis(keys)
        p50, p90 = _quantiles(self._mixed(keys), elapsed_ms, (P50, P90))
        if not limit_ms:
            return Predicted(p50, p90, basis, seen)
        most = max(limit_ms, elapsed_ms)
        return Predicted(min(p50, most), min(p90, most), basis, seen, bounded=p90 >= most)

    def length(self, keys: Keys, ran_ms: int = 0, kept_ms: int = 0, limit_ms: int = 0) -> Length:
        """How long a run takes that has gone on for ``ran_ms``, its work not being over.

        ``kept_ms`` is what earlier runs did and saved. Nothing is invented: where nothing is known,
        no length is likely.
        """
        basis, seen = self._basis(keys)
        if basis == "guess":
            return Length(limit_ms=limit_ms)
        shares = tuple((one + 0.5) / LIKELY for one in range(LIKELY))
        found = _quantiles(self._mixed(keys), kept_ms + ran_ms, shares)
        most = max(limit_ms, ran_ms) if limit_ms else max(found)
        likely = tuple(min(one - kept_ms, most) for one in found)
        return Length(likely, limit_ms, basis, seen)

    def _basis(self, keys: Keys) -> tuple[Basis, int]:
        """What the nearest work is that is known, and how often it was seen."""
        for basis, key in zip(BASES, keys, strict=True):
            sketch = self._sketches.get(key)
            seen = 0 if sketch is None else round(sum(sketch.counts.values()) / ONCE)
            if seen >= (1 if basis in OF_THE_SAME else OF_OTHERS):
                return basis, seen
        return "guess", 0

    def _levels(self, keys: Keys) -> list[dict[int, int]]:
        """What each key adds to those nearer than it, from the most general on."""
        counted: dict[int, int] = {}
        levels: list[dict[int, int]] = []
        for key in keys:
            sketch = self._sketches.get(key)
            if sketch is None:
                continue
            more = {}
            for one, count in sketch.counts.items():
                before = counted.get(one, 0)
                if count > before:
                    more[one] = count - before
                    counted[one] = count
            levels.append(more)
        levels.reverse()
        return levels

    def _mixed(self, keys: Keys) -> Mapping[int, float]:
        """How likely each bucket is, nearest keys weighing most."""
        mixed: Mapping[int, float] = GUESS_SHARES
        for more in self._levels(keys):
            total = sum(more.values()) + ONCE
            shares = {one: share * ONCE / total for one, share in mixed.items()}
            for one, count in more.items():
                shares[one] = shares.get(one, 0.0) + count / total
            mixed = shares
        return mixed

    def _share_before(self, keys: Keys, bucket: int) -> float:
        """How likely a shorter length is than those of a bucket."""
        share = sum(one for index, one in GUESS_SHARES.items() if index < bucket)
        for more in self._levels(keys):
            shorter = sum(count for one, count in more.items() if one < bucket)
            share = (share * ONCE + shorter) / (sum(more.values()) + ONCE)
        return share


def _bucket(ms: int) -> int:
    return int(math.log(max(ms, 1)) / GROWTH)


def _upper(bucket: int) -> int:
    """The longest length of a bucket: who is counted on to be over by then has ended."""
    return math.floor(math.exp((bucket + 1) * GROWTH))


def _outlived(elapsed_ms: int) -> int:
    """The longest length of the last bucket that is over by then."""
    bucket = _bucket(elapsed_ms)
    return next(
        (_upper(one) for one in (bucket, bucket - 1) if one >= 0 and _upper(one) <= elapsed_ms), 0
    )


def _quantiles(
    shares: Mapping[int, float], elapsed_ms: int, wanted: tuple[float, ...]
) -> tuple[int, ...]:
    """Lengths by which these shares (ascending) of what is longer than ``elapsed_ms`` are over."""
    left = sorted((one, share) for one, share in shares.items() if _upper(one) > elapsed_ms)
    total = sum(share for _, share in left)
    if total <= 0:  # it has outlived all that was ever seen: one of two goes on as long again
        return tuple(round(elapsed_ms / (1 - one)) for one in wanted)
    found: list[int] = []
    reached = 0.0
    for one, share in left:
        reached += share
        while len(found) < len(wanted) and reached >= total * wanted[len(found)]:
            found.append(_upper(one))
    return (*found, *[_upper(left[-1][0])] * (len(wanted) - len(found)))


_GUESSED = sum(GUESS.values())
GUESS_SHARES: Mapping[int, float] = {one: share / _GUESSED for one, share in GUESS.items()}
