"""The checks of `stw doctor`: each looks at one thing and never fails itself."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from stellwerk import __version__
from stellwerk.cli.render.clusters import facts_age, free
from stellwerk.cli.render.units import duration, plural, rfc3339, size
from stellwerk.cli.session import now_ms
from stellwerk.client.ahead import Calibrated, Foretold
from stellwerk.client.api import Client
from stellwerk.client.fleet import ClusterView, NodeView
from stellwerk.config import Settings, load
from stellwerk.core.model.errors import StellwerkError

DECLARED = "declared"
LEAST_DISK = 2 * 2**30
LEAST_DISK_THERE = 2**28
OLD_FACTS_MS = 120_000
DAY_MS = 86_400_000
ENDS_THAT_TELL = 30
LEAST_WITHIN_P90 = 75
LOG_LOOKED_AT = 2**20
REMEDIES = (
    ("its clock is ", "set its clock: timedatectl set-ntp true"),
    (" is mounted noexec: scripts", "write `bash script`, or add it anew with `--folder PATH`"),
    (" is mounted noexec: what jobs", "set TMPDIR in the task's `envs`, or in ~/.bashrc there"),
    ("the NVIDIA driver hangs", "restart the machine"),
)
"""What helps with what is noted of machines that are used all the same."""
NETWORK_FILE_SYSTEMS = (
    "nfs",
    "cifs",
    "smb",
    "afs",
    "lustre",
    "beegfs",
    "gpfs",
    "ceph",
    "fuse.sshfs",
    "9p",
    "glusterfs",
    "fuse.glusterfs",
)


class Check(Struct, frozen=True):
    """What was looked at, how it is, and what to do about it."""

    state: Literal["ok", "warn", "FAIL"]
    what: str
    remedy: str = ""


def all_checks() -> list[Check]:
    """Every check; starts the server if it isn't running."""
    try:
        settings = load()
    except StellwerkError as error:
        return [Check("FAIL", p.message, p.help) for p in error.problems]
    checks = [check_home(settings), *check_disk(settings), *check_tools(), *check_driver()]
    try:
        with Client(settings=settings) as client:
            started = client.ensure_server()
            status = client.server_status()
            clusters = client.clusters()
            calibration = client.calibration()
            foretold = client.foretold()
    except StellwerkError as error:
        return [*checks, *(Check("FAIL", p.message, p.help) for p in error.problems)]
    up = "was started" if started else f"up {duration(status.uptime_ms)}"
    checks.append(
        Check(
            "ok",
            f"server {status.version}, pid {status.pid}, {up}, {status.seq} records in the journal",
        )
    )
    checks += check_versions(status.version)
    checks += check_crashes(settings, now_ms())
    checks += check_socket(settings)
    for cluster in clusters:
        checks += check_cluster(cluster)
    checks += check_declared(clusters)
    if not clusters:
        checks.append(Check("warn", "no cluster has been looked at yet", "try again in a moment"))
    checks += check_predictions(calibration)
    checks += check_forecasts(foretold)
    return checks


def check_predictions(calibration: dict[str, Calibrated]) -> Iterator[Check]:
    """Whether work ends when it is expected to; forecasts of starts rest on that."""
    ends = sum(one.ends for one in calibration.values())
    if not ends:
        return
    p50 = round(100 * sum(one.within_p50 for one in calibration.values()) / ends)
    p90 = round(100 * sum(one.within_p90 for one in calibration.values()) / ends)
    told = (
        f"of {plural(ends, 'predicted end')} {p50} % came within the median and {p90} % within "
        "the 90 % quantile"
    )
    if ends >= ENDS_THAT_TELL and p90 < LEAST_WITHIN_P90:
        remedy = "take starts for later than forecast; give work a --time-limit, which bounds them"
        yield Check("warn", told, remedy)
    else:
        yield Check("ok", told)


def check_forecasts(told: Foretold | None) -> Iterator[Check]:
    """Whether work starts when it was forecast to; of few starts nothing is concluded."""
    if told is None or not told.starts + told.unknown:
        return
    dark = f", and of {told.unknown} nobody could tell" if told.unknown else ""
    if not told.starts:
        yield Check("ok", f"no start came that had been forecast with a time{dark}")
        return
    p50, p90 = (round(100 * one / told.starts) for one in (told.within_p50, told.within_p90))
    off = duration((told.early_ms + told.late_ms) / told.starts)
    ahead = duration(told.ahead_ms / told.starts)
    few = " (too few to say much)" if told.starts < ENDS_THAT_TELL else ""
    message = (
        f"of {plural(told.starts, 'forecast start')}, told {ahead} ahead on average, {p50} % came "
        f"by the median and {p90} % by the 90 % quantile; {off} off on average{dark}{few}"
    )
    if told.starts >= ENDS_THAT_TELL and p90 < LEAST_WITHIN_P90:
        remedy = "take starts for later than forecast: others come in between, or runs last longer"
        yield Check("warn", message, remedy)
    else:
        yield Check("ok", message)


def check_home(settings: Settings) -> Check:
    """The journal needs locks and durability that a network file system doesn't promise."""
    kind = file_system_of(settings.home)
    if kind.startswith(NETWORK_FILE_SYSTEMS):
        return Check(
            "FAIL",
            f"the state {settings.home} is on a network file system ({kind})",
            "set STELLWERK_HOME to a folder on a local disk",
        )
    return Check("ok", f"the state {settings.home} is on a local file system ({kind or 'unknown'})")


def check_disk(settings: Settings) -> Iterator[Check]:
    """A full disk stops the journal."""
    folder = settings.home
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    left = shutil.disk_usage(folder).free
    if left < LEAST_DISK:
        yield Check(
            "warn",
            f"only {size(left)} are left on the disk of the state",
            "make room; a full disk stops submissions",
        )
    else:
        yield Check("ok", f"{size(left)} are left on the disk of the state")


def check_tools() -> Iterator[Check]:
    """What Stellwerk uses where it is there."""
    yield Check("ok", f"Python {sys.version.split()[0]} at {sys.executable}")
    if shutil.which("git") is None:
        yield Check(
            "warn", "git isn't installed: commits can't be recorded", "install git, or leave it"
        )
    if shutil.which("bash") is None:
        yield Check("FAIL", "bash isn't installed: no task can run", "install bash")


def check_driver() -> Iterator[Check]:
    """GPUs are found through NVIDIA's management library, which comes with the driver."""
    import ctypes

    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        yield Check("ok", "no NVIDIA driver here (libnvidia-ml.so.1), so no GPU was looked for")
    else:
        yield Check("ok", "the NVIDIA driver is here (libnvidia-ml.so.1)")


def check_versions(server: str) -> Iterator[Check]:
    """A server that was started before an upgrade still runs."""
    if server and server != __version__:
        yield Check(
            "warn",
            f"the server is {server}, this command is {__version__}",
            "stw server stop; the next command starts the new one, jobs go on",
        )


def check_crashes(settings: Settings, at_ms: int) -> Iterator[Check]:
    """A server that ends for a fault of its own is started again by the next command, unseen."""
    try:
        with open(settings.server_log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_LOOKED_AT))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return
    since = rfc3339(at_ms - DAY_MS)
    ended = [line for line in lines if " CRITICAL " in line and line >= since]
    if ended:
        last = ended[-1].partition(" ")[0]
        yield Check(
            "warn",
            f"the server has failed {plural(len(ended), 'time')} in the last day, last at {last}",
            "stw server logs, and please report it; jobs went on",
        )


def check_socket(settings: Settings) -> Iterator[Check]:
    """Nobody else may talk to the server."""
    for path in (settings.socket, os.path.dirname(settings.socket)):
        mode = os.stat(path).st_mode & 0o777
        if mode & 0o007:
            yield Check("FAIL", f"{path} is open to everybody (mode {mode:o})", f"chmod o= {path}")
            return
    yield Check("ok", f"the socket {settings.socket} is closed to others")


def check_declared(clusters: Iterable[ClusterView]) -> Iterator[Check]:
    """Clusters of fleet files alone: nothing is wrong with them, and nothing runs there."""
    names = [one.name for one in clusters if one.state == DECLARED]
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        told = f"{', '.join(names[:3])}{more} only declared: no driver here reaches them"
        yield Check("ok", told)


def check_cluster(cluster: ClusterView) -> Iterator[Check]:
    """Whether it answers, and whether what is known of it is fresh."""
    if cluster.state == DECLARED:
        return
    if cluster.state == "ready":
        yield Check("ok", f"{cluster.name} is ready: {free(cluster)} free")
    elif not any(node.note and not _is_used(cluster, node) for node in cluster.nodes):
        yield Check("warn", f"{cluster.name} is {cluster.state}", "stw clusters")
    if cluster.facts_age_ms is not None and cluster.facts_age_ms > OLD_FACTS_MS:
        yield Check(
            "warn",
            f"what is known of {cluster.name} is {facts_age(cluster.facts_age_ms)} old",
            "stw server logs",
        )
    for node in cluster.nodes:
        yield from check_node(cluster, node)


def check_node(cluster: ClusterView, node: NodeView) -> Iterator[Check]:
    """What is to be said of a machine that is used, and of its GPUs."""
    place = f"{cluster.name}/{node.name}"
    if _is_used(cluster, node):
        notes = [one for one in node.note.split("; ") if one and " gets nothing new: " not in one]
        if notes:
            yield Check("warn", f"{place}: {'; '.join(notes)}", _remedy_of(node.note))
        if 0 < node.disk_bytes < LEAST_DISK_THERE:
            left = f"only {size(node.disk_bytes)} are left where runs write"
            remedy = "make room there (`stw gc`), or add it anew with another `--folder`"
            yield Check("warn", f"{place}: {left}", remedy)
    elif node.note:
        what, remedy = said_of(node.note)
        state = f"{place} is {node.state}"
        if len(cluster.nodes) == 1:
            state = f"{cluster.name} is {cluster.state}"
        yield Check("warn", f"{state}: {what}", remedy or "stw clusters")
    for device in node.devices:
        if device.fault:
            what, _, remedy = device.fault.partition(": ")
            yield Check("FAIL", f"{place}: GPU {device.index}: {what}", remedy)
        elif device.foreign_bytes:
            yield Check(
                "warn",
                f"{node.name}: {size(device.foreign_bytes)} of GPU "
                f"{device.index} are held outside of this Stellwerk",
                "stw gpu",
            )


def _is_used(cluster: ClusterView, node: NodeView) -> bool:
    """Whether work goes to a machine; that of a cluster of one is as its cluster is."""
    return node.state == "ready" and (cluster.state == "ready" or len(cluster.nodes) > 1)


def said_of(note: str) -> tuple[str, str]:
    """What a driver says of a machine that can't be used, with its code, and what to do."""
    text, mark, code = note.rpartition(" [")
    what, _, remedy = (text if mark else note).partition(" -> ")
    return what + mark + code if mark else what, remedy


def _remedy_of(note: str) -> str:
    return "; ".join(remedy for mark, remedy in REMEDIES if mark in note) or "stw clusters"


def file_system_of(path: str) -> str:
    """The type of the file system that a path is (or will be) on; empty where it isn't known."""
    path = os.path.realpath(path)
    found, kind = "", ""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                _, point, type_, *_ = line.split(" ")
                point = point.replace("\\040", " ")
                inside = path == point or path.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(found):
                    found, kind = point, type_
    except (OSError, ValueError):
        return ""
    return kind
