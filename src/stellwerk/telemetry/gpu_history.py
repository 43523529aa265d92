"""Keeps how full and how busy GPUs were: a point of each in five minutes, for three days.

Points come from the samples of runs, so there are none of a time when no run was on a machine. They
lie in a file that is written anew when most of it is old. Where it can't be written, what is in
memory is all there is.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import RunSample
from stellwerk.core.model.workload import Run

log = logging.getLogger("stellwerk.telemetry")

EVERY_MS = 5 * 60_000
KEPT_MS = 3 * 24 * 3_600_000
MOST_POINTS = KEPT_MS // EVERY_MS
MOST_DEVICES = 4_096

Place = tuple[str, str, str]
"""Cluster, node, and the device as people know it."""


class Point(msgspec.Struct, frozen=True, array_like=True):
    """Of the five minutes from ``at_ms`` on: the most memory in use, and how busy it was (mean)."""

    at_ms: int
    used_bytes: int
    busy_percent: int | None = None


class _Line(msgspec.Struct, frozen=True, array_like=True):
    cluster: str
    node: str
    device: str
    point: Point


class _Now(msgspec.Struct):
    at_ms: int
    used_bytes: int = 0
    busy: int = 0
    looks: int = 0

    def point(self) -> Point:
        return Point(self.at_ms, self.used_bytes, self.busy // self.looks if self.looks else None)


class GpuHistory:
    """The points of all GPUs, newest last; ``path`` is where they outlive the server."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._points: dict[Place, deque[Point]] = {}
        self._now: dict[Place, _Now] = {}
        self._devices: dict[RunId, dict[int, tuple[Place, int]]] = {}
        self._written = 0
        if path is not None:
            self._load(path)

    def begin(self, run: Run, cluster: Cluster | None) -> None:
        """A run is on a machine whose devices its samples tell of."""
        if cluster is None or len({part.node for part in run.allocation.nodes}) != 1:
            return
        name = run.allocation.nodes[0].node
        self._devices[run.id] = {
            device.index: ((cluster.name, node.name, device.label), device.usable_bytes)
            for node in cluster.nodes
            if node.name == name
            for device in node.devices
        }

    def end(self, run: RunId) -> None:
        """A run is over."""
        self._devices.pop(run, None)

    def take(self, sample: RunSample) -> None:
        """Takes what a run's sample says of all devices of its machine."""
        devices = self._devices.get(sample.run)
        if not devices:
            return
        at_ms = sample.at_ms - sample.at_ms % EVERY_MS
        over: list[_Line] = []
        for gpu in sample.gpus:
            place, usable = devices.get(gpu.index, (None, 0))
            if place is None or gpu.free_bytes is None:
                continue
            now = self._now.get(place)
            if now is not None and now.at_ms > at_ms:
                continue
            if now is None or now.at_ms != at_ms:
                if now is not None:
                    over.append(_Line(*place, now.point()))
                now = self._now[place] = _Now(at_ms)
            now.used_bytes = max(now.used_bytes, usable - gpu.free_bytes)
            if gpu.busy_percent is not None:
                now.busy += gpu.busy_percent
                now.looks += 1
        if over:
            self._keep(over)

    def points(self, since_ms: int = 0) -> Iterator[tuple[Place, list[Point]]]:
        """Those of each device from some time on, also of the five minutes that aren't over."""
        places = {**self._points, **self._now}
        for place in sorted(places):
            found = [one for one in self._points.get(place, ()) if one.at_ms >= since_ms]
            now = self._now.get(place)
            if now is not None and now.at_ms >= since_ms:
                found.append(now.point())
            if found:
                yield place, found

    def _add(self, line: _Line) -> None:
        place = (line.cluster, line.node, line.device)
        if place not in self._points and len(self._points) >= MOST_DEVICES:
            return
        self._points.setdefault(place, deque(maxlen=MOST_POINTS)).append(line.point)

    def _keep(self, lines: list[_Line]) -> None:
        for line in lines:
            self._add(line)
        if self._path is None:
            return
        self._written += len(lines)
        try:
            if self._written > 2 * sum(map(len, self._points.values())) + MOST_POINTS:
                self._rewrite(self._path)
                return
            with self._path.open("ab") as file:
                file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        except OSError as error:
            log.warning("the history of GPUs can't be written: %s", error)

    def _load(self, path: Path) -> None:
        newest, written = 0, b"\n"
        with suppress(FileNotFoundError), path.open("rb") as file:
            for written in file:
                self._written += 1
                try:
                    line = msgspec.json.decode(written, type=_Line)
                except msgspec.MsgspecError:
                    continue  # the last line of a server that was killed while it wrote
                newest = max(newest, line.point.at_ms)
                self._add(line)
        if not written.endswith(b"\n"):
            with suppress(OSError), path.open("ab") as file:
                file.write(b"\n")
        for place, points in list(self._points.items()):
            while points and points[0].at_ms < newest - KEPT_MS:
                points.popleft()
            if not points:
                del self._points[place]

    def _rewrite(self, path: Path) -> None:
        draft = path.with_name(f".{path.name}")
        with draft.open("wb") as file:
            for place, points in self._points.items():
                for point in points:
                    file.write(msgspec.json.encode(_Line(*place, point)) + b"\n")
        os.replace(draft, path)
        self._written = sum(map(len, self._points.values()))
