"""Makes a fleet and a job of a case of `data_locality.yaml`, and says what it doesn't know."""

import copy
import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from stellwerk.core.data.fluid import held_in_fluid
from stellwerk.core.model.cluster import Cluster, Costs, Held
from stellwerk.core.model.estimates import JobProfile, Way
from stellwerk.core.model.fleet import Data, Fleet, Link
from stellwerk.core.model.placement import Objective

Case = dict[str, Any]
PROSE = ("about", "note", "what", "title", "onprem", "arithmetic", "skypilot_0_14_1")
CASE_KEYS = {
    "id", "job", "data", "sites", "links", "window", "options", "expect", "same_as", "now", *PROSE,
}  # fmt: skip
JOB_KEYS = {
    "runtime_h", "objective", "prewarm", "nodes", "deadline_h", "concurrent", "wait_usd_per_h",
    "mode", "epochs", "cache_gb", "compute_h_per_epoch", *PROSE,
}  # fmt: skip
DATA_KEYS = {
    "name", "revision", "size_gb", "residency", "egress", "content", "hash", "content_hash",
    "origin", *PROSE,
}  # fmt: skip
SITE_KEYS = {
    "name", "speed", "usd_per_h", "queue_h", "free_gb", "held_gb", "region", "evictable_gb",
    "pinned_gb", "incomplete_gb", "other_revisions", "cache_lost_probability", "fluid", "window",
    "cache_gb", "egress", *PROSE,
}  # fmt: skip
LINK_KEYS = {"from", "to", "gbit_s", "usd_per_gb", "shared", "egress", *PROSE}
OPTION_KEYS = {
    "name", "uplink_gbit_s", "copies_over_uplink", "switch_gbit_s", "rounds_in_switch", *PROSE,
}  # fmt: skip
GB, HOUR_MS = 1e9, 3_600_000
MIDNIGHT_MS = 1_767_225_600_000
"""Some day's beginning: clock times of a case are of that day, or of the next one."""
ROOM, STORE = "room", "store"


@dataclass
class World:
    """A case as Stellwerk sees it; `ways` are given where the case is about how to feed nodes."""

    job: JobProfile
    fleet: Fleet
    now_ms: int
    ways: tuple[Way, ...] = ()
    warnings: dict[str, list[str]] = field(default_factory=dict)
    stray: list[str] = field(default_factory=list)


def resolved(case: Case, cases: dict[str, Case]) -> Case:
    """A case with what it takes over from another one: its own keys lie on top."""
    if "same_as" not in case:
        return case
    base = resolved(cases[str(case["same_as"])], cases)
    taken = {key: base[key] for key in ("job", "data", "sites", "links") if key in base}
    own = {key: value for key, value in case.items() if key != "same_as"}
    result: Case = _on_top(copy.deepcopy(taken), own)
    return result


def _on_top(base: Any, new: Any) -> Any:
    if isinstance(base, dict) and isinstance(new, dict):
        return {**base, **{key: _on_top(base.get(key), value) for key, value in new.items()}}
    if isinstance(base, list) and base and isinstance(base[0], dict):
        if isinstance(new, dict):
            new = [{"name": name, **changes} for name, changes in new.items()]
        if isinstance(new, list) and not all(set(base[0]) <= set(one) for one in new):
            return _merged(base, new)
    return new


def _merged(base: list[Case], new: list[Case]) -> list[Case]:
    """A list of changes to named things, or to links by their ends."""
    result = {_identity(one): one for one in base}
    for one in new:
        key = _identity(one)
        result[key] = _on_top(result.get(key, {}), one)
    return list(result.values())


def _identity(one: Case) -> tuple[str, ...]:
    return (one["name"],) if "name" in one else (one["from"], one["to"])


def world(case: Case) -> World:
    """The fleet and the job of a case."""
    job, sites = case.get("job", {}), case.get("sites", [])
    options = case.get("options", [])
    stray = [f"unknown key `{key}`" for key in case if key not in CASE_KEYS]
    for what, found, known in (
        ("job", [job], JOB_KEYS),
        ("data", case.get("data", []), DATA_KEYS),
        ("sites", sites, SITE_KEYS),
        ("links", case.get("links", []), LINK_KEYS),
        ("options", options, OPTION_KEYS),
    ):
        stray += [f"unknown key `{what}.{key}`" for one in found for key in one if key not in known]
    now_ms = _now(case)
    data = tuple(_data(one) for one in case.get("data", []))
    warnings: dict[str, list[str]] = {}
    clusters = [_cluster(one, data, case, now_ms, warnings) for one in sites]
    links = [_link(one, sites) for one in case.get("links", [])]
    if options:
        windows = _windows(case, {}, now_ms)
        clusters = [Cluster(ROOM, "case", (), kind="room", windows=windows)]
        links = [Link(STORE, ROOM, GB)]
    return World(
        job=_job(job, data, now_ms),
        fleet=Fleet(tuple(clusters), links=tuple(links), data=data),
        now_ms=now_ms,
        ways=tuple(_way(one) for one in options),
        warnings=warnings,
        stray=stray,
    )


def at_ms(clock: Any) -> int:
    """`18:00` as UTC ms of the day of the case. YAML may read an unquoted one as minutes."""
    if isinstance(clock, int | float):
        return MIDNIGHT_MS + int(clock * 60_000)
    hours, minutes, *seconds = (int(part) for part in str(clock).split(":"))
    return MIDNIGHT_MS + ((hours * 60 + minutes) * 60 + (seconds or [0])[0]) * 1000


def clock(ms: float) -> str:
    """UTC ms as `06:10:40`."""
    return dt.datetime.fromtimestamp(round(ms / 1000), dt.UTC).strftime("%H:%M:%S")


def _now(case: Case) -> int:
    if "now" in case:
        return at_ms(case["now"])
    windows = [one["window"] for one in (case, *case.get("sites", [])) if "window" in one]
    return at_ms(windows[0]["opens"]) if windows else MIDNIGHT_MS


def _windows(case: Case, site: Case, now_ms: int) -> tuple[tuple[int, int], ...]:
    window = site.get("window") or case.get("window")
    if not window:
        return ()
    opens, closes = at_ms(window["opens"]), at_ms(window["closes"])
    day = 24 * HOUR_MS
    if closes <= opens:
        closes += day
    # The one that the case is in or before: today's, or the one that began yesterday.
    return ((opens - day, closes - day), (opens, closes)) if now_ms < opens else ((opens, closes),)


def _job(job: Case, data: tuple[Data, ...], now_ms: int) -> JobProfile:
    objective: Objective = job.get("objective", "finish")
    runtime, compute = job.get("runtime_h"), job.get("compute_h_per_epoch")
    cache, deadline = job.get("cache_gb"), job.get("deadline_h")
    return JobProfile(
        runtime_s=None if runtime is None else runtime * 3600,
        nodes=job.get("nodes", 1),
        data=data,
        objective=objective,
        usd_per_hour_of_waiting=job.get("wait_usd_per_h", 0.0),
        prewarm=job.get("prewarm", False),
        deadline_ms=0 if deadline is None else round(now_ms + deadline * HOUR_MS),
        concurrent=job.get("concurrent", 1),
        mode="stream" if job.get("mode") == "stream" else "copy",
        epochs=job.get("epochs", 1),
        compute_s_per_epoch=None if compute is None else compute * 3600,
        cache_bytes=None if cache is None else round(cache * GB),
    )


def _data(one: Case) -> Data:
    residency = one.get("residency", ())
    return Data(
        one["name"],
        str(one.get("revision", "")),
        round(one["size_gb"] * GB),
        residency=(residency,) if isinstance(residency, str) else tuple(residency),
        content=str(one.get("content") or one.get("hash") or one.get("content_hash") or ""),
        origin=str(one.get("origin", "")),
        movable=one.get("egress") != "deny",
    )


def _cluster(
    site: Case, data: tuple[Data, ...], case: Case, now_ms: int, warnings: dict[str, list[str]]
) -> Cluster:
    name, free = site["name"], site.get("free_gb")
    room = site.get("cache_gb") if case.get("job", {}).get("mode") == "stream" else None
    room = free if room is None else room
    held = list(_held(site, data))
    if "fluid" in site:
        for one in data:
            found = held_in_fluid(one, site["fluid"], cluster=name, observed_ms=now_ms)
            held += found.held
            warnings.setdefault(name, []).extend(notice.message for notice in found.notices)
    return Cluster(
        name,
        "case",
        (),
        claims={"region": site["region"]} if "region" in site else {},
        costs=Costs(float(site.get("usd_per_h", 0))),
        held=tuple(held),
        room_bytes=None if room is None else round(room * GB),
        evictable_bytes=round(site.get("evictable_gb", 0) * GB),
        windows=_windows(case, site, now_ms),
        speed=float(site.get("speed", 1)),
        wait_s=site.get("queue_h", 0) * 3600.0,
    )


def _held(site: Case, data: tuple[Data, ...]) -> list[Held]:
    lost = float(site.get("cache_lost_probability", 0))
    written = site.get("held_gb", {})
    # `held_gb: null` is of all data sets, as a bare number is of the only one.
    per_name = written if isinstance(written, dict) else {one.name: written for one in data}
    others = site.get("other_revisions") or {}
    partial = site.get("incomplete_gb") or {}
    partly = partial if isinstance(partial, dict) else {one.name: partial for one in data}
    revisions = {one.name: one.revision for one in data}
    found = [
        Held(
            name,
            revisions.get(name, ""),
            _bytes(per_name.get(name, 0)),
            lost_probability=lost,
            partial_bytes=_bytes(partly.get(name)) or 0,
        )
        for name in dict.fromkeys((*per_name, *partly))
    ]
    if "pinned_gb" in site:
        pinned = site["pinned_gb"]
        amounts = pinned if isinstance(pinned, dict) else {"what is pinned": pinned}
        found += [Held(name, "pinned", _bytes(some), pinned=True) for name, some in amounts.items()]
    for name, entries in others.items():
        listed = entries if isinstance(entries, list) else [entries]
        found += [_other(name, other, lost) for other in listed]
    return found


def _other(name: str, other: Case, lost: float) -> Held:
    return Held(
        name,
        str(other.get("rev") or other.get("revision")),
        _bytes(other.get("held_gb")),
        shared_bytes=_bytes(other.get("shared_gb", 0)) or 0,
        lost_probability=lost,
    )


def _bytes(gigabytes: Any) -> int | None:
    return round(gigabytes * GB) if isinstance(gigabytes, int | float) else None


def _link(one: Case, sites: list[Case]) -> Link:
    source = next((site for site in sites if site["name"] == one["from"]), {})
    denied = "deny" in {one.get("egress"), source.get("egress")}
    return Link(
        one["from"],
        one["to"],
        one["gbit_s"] * 1e9,
        float(one.get("usd_per_gb", 0)),
        shared=bool(one.get("shared", False)),
        egress="deny" if denied else "allow",
    )


def _way(one: Case) -> Way:
    return Way(
        one["name"],
        copies_over_uplink=one.get("copies_over_uplink", 1),
        rounds_in_switch=one.get("rounds_in_switch", 0),
        switch_bits_per_s=one.get("switch_gbit_s", 0) * 1e9,
        uplink_bits_per_s=one.get("uplink_gbit_s", 0) * 1e9,
    )
