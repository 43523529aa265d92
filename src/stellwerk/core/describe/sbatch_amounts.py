"""Decides what the amounts in `#SBATCH` lines come to on one node."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from stellwerk.core.describe.extras import parse_signal
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.devices import AcceleratorSelector, canonical_name, find_device
from stellwerk.core.model.quantity import (
    DAY_MS,
    HOUR_MS,
    MIB,
    MINUTE_MS,
    SECOND_MS,
    Amount,
    BadQuantity,
    parse_memory,
)
from stellwerk.core.model.task import NoticeSignal

Found = Mapping[str, tuple[str, Node]]
_TIME = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,9})(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?")
_GPUS = re.compile(r"(?:([A-Za-z][A-Za-z0-9_.-]*):)?([0-9]{1,4})")
_UNLIMITED = ("unlimited", "infinite", "0")


class Amounts(Struct, frozen=True):
    """What one of `nodes` nodes must give; `tasks` are the job's, `tasks_per_node` a node's."""

    nodes: int = 1
    tasks: int = 1
    tasks_per_node: int = 1
    cpus_per_task: int = 1
    cpus: Amount | None = None
    memory: Amount | None = None
    disk_bytes: int | None = None
    accelerators: dict[str, float] = {}
    selector: AcceleratorSelector | None = None
    time_ms: int | None = None
    signals: tuple[NoticeSignal, ...] = ()


class _Reader:
    def __init__(self, report: Report, found: Found) -> None:
        self.report = report
        self.found = found

    def wrong(self, name: str, message: str, remedy: str = "") -> None:
        self.report.problem("spec/sbatch-value", self.found[name][1], f"--{name}", message, remedy)

    def value(self, name: str) -> str | None:
        return self.found[name][0].strip() if name in self.found else None

    def whole(self, name: str, default: int) -> int:
        written = self.value(name)
        if written is None:
            return default
        if written.isascii() and written.isdigit() and 0 < int(written[:9]) < 10**6:
            return int(written)
        self.wrong(name, f"`--{name}` takes a whole number, not `{written[:40]}`")
        return default

    def memory(self, name: str) -> int | None:
        """Bytes; 0 stands for all that there is, and so for no wish."""
        written = self.value(name)
        if written is None or written == "0":
            return None
        amount = parse_memory(written, bare=MIB)
        if isinstance(amount, BadQuantity):
            self.wrong(name, amount.message, "write `16G`, or a number of MiB")
            return None
        return amount.value


def read_amounts(report: Report, found: Found) -> Amounts:
    """Nodes, CPUs, memory, accelerators, time and signals."""
    reader = _Reader(report, found)
    nodes = _nodes(reader)
    per_node = reader.whole("ntasks-per-node", 1)
    tasks = reader.whole("ntasks", nodes * per_node)
    if "ntasks-per-node" not in found:
        per_node = -(-tasks // nodes)
    each = reader.whole("cpus-per-task", 1)
    says_cpus = any(name in found for name in ("ntasks", "ntasks-per-node", "cpus-per-task"))
    gpus, kind = _gpus(reader, nodes, per_node)
    accelerators, selector = _wanted(gpus, kind)
    memory = reader.memory("mem")
    if (per_cpu := reader.memory("mem-per-cpu")) is not None:
        memory = per_cpu * per_node * each
    if (per_gpu := reader.memory("mem-per-gpu")) is not None:
        memory = per_gpu * max(gpus, 1)
    return Amounts(
        nodes=nodes,
        tasks=tasks,
        tasks_per_node=per_node,
        cpus_per_task=each,
        cpus=Amount(per_node * each * 1000) if says_cpus else None,
        memory=Amount(memory) if memory else None,
        disk_bytes=reader.memory("tmp"),
        accelerators=accelerators,
        selector=selector,
        time_ms=_time(reader),
        signals=_signals(reader),
    )


def parse_slurm_time(written: str) -> int | None:
    """Milliseconds of `MM`, `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM` or `D-HH:MM:SS`."""
    match = _TIME.fullmatch(written.strip())
    if match is None:
        return None
    days, *parts = (int(part) if part is not None else None for part in match.groups())
    first, second, third = parts
    assert first is not None
    if days is not None or third is not None:
        units = (HOUR_MS, MINUTE_MS, SECOND_MS)
    else:
        units = (MINUTE_MS, SECOND_MS, 0)
    total = (days or 0) * DAY_MS + first * units[0]
    return total + (second or 0) * units[1] + (third or 0) * units[2]


def _nodes(reader: _Reader) -> int:
    written = reader.value("nodes")
    if written is None:
        return 1
    least, dash, most = written.partition("-")
    if dash and least.isdigit() and most.isdigit():
        place = reader.found["nodes"][1]
        message = f"of `--nodes {written[:20]}` the least is taken: {least[:9]}"
        reader.report.notice("spec/sbatch-nodes", place, "--nodes", message)
        reader = _Reader(reader.report, {"nodes": (least, place)})
    return reader.whole("nodes", 1)


def _gpus(reader: _Reader, nodes: int, tasks_per_node: int) -> tuple[int, str]:
    """Accelerators of a node and their kind, if one is named."""
    counts = {
        "gres": _gres(reader),
        "gpus-per-node": _typed(reader, "gpus-per-node"),
        "gpus-per-task": _typed(reader, "gpus-per-task"),
        "gpus": _typed(reader, "gpus"),
    }
    if counts["gpus-per-task"][0]:
        number, named = counts["gpus-per-task"]
        counts["gpus-per-task"] = (number * tasks_per_node, named)
    if counts["gpus"][0]:
        number, named = counts["gpus"]
        if number % nodes:
            reader.wrong("gpus", f"{number} accelerators don't spread evenly over {nodes} nodes")
        counts["gpus"] = (-(-number // nodes), named)
    count, kind = 0, ""
    for name, (number, named) in counts.items():
        if not number:
            continue
        if count and (number, named or kind) != (count, kind or named):
            reader.wrong(name, f"`--{name}` and another option disagree on the accelerators")
        count, kind = number, named or kind
    return count, kind or _constraint(reader, count)


def _gres(reader: _Reader) -> tuple[int, str]:
    """`gpu`, `gpu:2`, `gpu:a100` or `gpu:a100:2`, among others."""
    count, kind = 0, ""
    for part in (reader.value("gres") or "").split(","):
        name, *rest = part.strip().removeprefix("gres:").removeprefix("gres/").split(":")
        if not name or (len(rest) == 1 and rest[0] in {"0", "none"}):
            continue
        if name != "gpu" or len(rest) > 2:
            place = reader.found["gres"][1]
            message = f"`--gres {part.strip()[:40]}`: only accelerators can be asked for"
            reader.report.ignore(place, "--gres", message)
            continue
        number = rest[-1].split("(")[0] if rest and rest[-1][:1].isdigit() else "1"
        if count:
            reader.wrong("gres", "accelerators of two kinds in one node can't be asked for yet")
        elif not number.isascii() or not number.isdigit() or len(number) > 4:
            reader.wrong("gres", f"`{number[:20]}` is no number of accelerators")
        else:
            count = int(number)
            kind = rest[0] if rest and not rest[0][:1].isdigit() else ""
    return count, kind


def _typed(reader: _Reader, name: str) -> tuple[int, str]:
    written = reader.value(name)
    if written is None:
        return 0, ""
    match = _GPUS.fullmatch(written)
    if match is None:
        reader.wrong(name, f"`--{name}` can't be `{written[:40]}`", "write `2` or `a100:2`")
        return 0, ""
    return int(match[2]), match[1] or ""


def _constraint(reader: _Reader, gpus: int) -> str:
    """A constraint that is the name of a card names the card; others are refused."""
    written = reader.value("constraint")
    if written is None:
        return ""
    if gpus and find_device(written) is not None:
        return written
    reader.wrong(
        "constraint",
        f"`--constraint {written[:40]}` names a feature of one Slurm cluster's nodes",
        "name the accelerator (`--gres=gpu:a100:2`), or use `--infra`",
    )
    return ""


def _wanted(count: int, kind: str) -> tuple[dict[str, float], AcceleratorSelector | None]:
    if not count:
        return {}, None
    if kind:
        return {canonical_name(kind): count}, None
    return {}, AcceleratorSelector(0, at_least=True, count=count, text=f"gpu:{count}")


def _time(reader: _Reader) -> int | None:
    written = reader.value("time")
    if written is None or written.lower() in _UNLIMITED:
        return None
    span_ms = parse_slurm_time(written)
    if not span_ms:
        remedy = "write minutes, `HH:MM:SS` or `D-HH:MM:SS`"
        reader.wrong("time", f"`{written[:40]}` is no time", remedy)
        return None
    return span_ms


def _signals(reader: _Reader) -> tuple[NoticeSignal, ...]:
    """`[R|B:]USR1@300`; by itself a signal comes 60 s before the end."""
    written = reader.value("signal")
    if written is None:
        return ()
    which, colon, rest = written.partition(":")
    wanted = rest if colon and set(which.upper()) <= {"R", "B"} else written
    signal = parse_signal(wanted if "@" in wanted else f"{wanted}@60")
    if isinstance(signal, str):
        reader.wrong("signal", signal, "write `B:USR1@300`")
        return ()
    return (signal,)
