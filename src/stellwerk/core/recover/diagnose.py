"""Why a run failed: its end and last lines against the catalogue of known causes. Pure.

Causes that stop a program wherever they are printed (out of memory, a full disk, a missing module)
are looked for in all last lines first. Signs that may be harmless (a file that wasn't found) count
only where nothing that ends a program came after them.
"""

import re
from collections.abc import Callable

from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.model.workload import RunEnd

SIGNAL_NAMES = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    10: "SIGUSR1",
    11: "SIGSEGV",
    12: "SIGUSR2",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
    24: "SIGXCPU",
    25: "SIGXFSZ",
    31: "SIGSYS",
}
SIGKILL = 9
SHELL_SIGNAL_BASE = 128
LINE_KEPT = 200
MOST_OF_IT = 90
"""Percent of the memory asked for, from which on a SIGKILL is put down to memory."""

DISK_GONE_BYTES = 1 << 20
"""With less than this left where runs write, a failure is put down to the disk."""

Maker = Callable[[re.Match[str], str], Reason]
Sign = tuple[re.Pattern[str], Maker]


def _with_line(code: str) -> Maker:
    return lambda _match, line: Reason(code, {"line": line.strip()[:LINE_KEPT]})


def _with_file(code: str) -> Maker:
    """Names the file if the line does; else the line says it."""

    def make(_match: re.Match[str], line: str) -> Reason:
        for pattern in _FILES:
            found = pattern.search(line.strip())
            if found is not None:
                path = found["path"]
                short = path if len(path) <= LINE_KEPT else f"…{path[1 - LINE_KEPT :]}"
                return Reason(code, {"file": short})
        return Reason(code, {"line": line.strip()[:LINE_KEPT]})

    return make


_DENIED = r"(?:No such file or directory|Permission denied)"
_QUOTE = r"['\"\u2018\u2019]"
_FILES = (
    re.compile(rf"{_DENIED}: b?(?P<mark>['\"])(?P<path>.+?)(?P=mark)"),
    re.compile(r"can't open (?:\w+ )*(?P<mark>['\"])(?P<path>.+?)(?P=mark)"),
    re.compile(
        r"(?:^|: )(?:cannot (?:\w+ )+)?"
        rf"{_QUOTE}?(?P<path>[^:'\"\u2018\u2019]+){_QUOTE}?: {_DENIED}$"
    ),
)
"""How programs, shells and Python name the file that they mean."""


def _named(code: str, param: str) -> Maker:
    return lambda match, _line: Reason(code, {param: match[1]})


OUT_OF_MEMORY = "out_of_memory"
ON_NODE = ("disk_full", "disk_quota", "gpu_broken")

SURE: tuple[Sign, ...] = (
    (
        re.compile(
            r"(?:CUDA|HIP) out of memory|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY"
            r"|RESOURCE_EXHAUSTED: .*[Oo]ut of memory|OOM when allocating tensor"
        ),
        _with_line("gpu_out_of_memory"),
    ),
    (
        re.compile(r"uncorrectable ECC error|GPU has fallen off the bus|GPU is lost"),
        _with_line("gpu_broken"),
    ),
    (
        re.compile(
            r"No CUDA GPUs are available|no CUDA-capable device is detected"
            r"|Found no NVIDIA driver on your system|CUDA driver version is insufficient"
            r"|no kernel image is available for execution on the device"
        ),
        _with_line("gpu_not_usable"),
    ),
    (
        re.compile(r"^MemoryError\b|std::bad_alloc|Cannot allocate memory|\boom-kill\b"),
        lambda _match, _line: Reason(OUT_OF_MEMORY),
    ),
    (re.compile(r"No space left on device"), _with_line("disk_full")),
    (re.compile(r"Disk quota exceeded"), _with_line("disk_quota")),
    (
        re.compile(r"(?:^|\()(?:ModuleNotFoundError|.*python[\w.]*): No module named '?([\w.]+)'?"),
        _named("missing_module", "module"),
    ),
    (
        re.compile(
            r"(?:loading shared libraries|ImportError|OSError): (\S+): "
            r"cannot open shared object file"
        ),
        _named("missing_library", "library"),
    ),
    (
        re.compile(
            r"\bNCCL (?!INFO|version).*(?:error|timed? ?out|refused|reset)"
            r"|nccl(?:System|Remote)Error|caught collective operation timeout"
            r"|gloo.*(?:timed out|Connection (?:closed|reset) by peer)",
            re.IGNORECASE,
        ),
        _with_line("communication"),
    ),
)
"""Signs of causes that no program survives; the last line that bears one decides."""

LIKELY: tuple[Sign, ...] = (
    (
        re.compile(r"^(?:SyntaxError|IndentationError|TabError): |syntax error(?: near|: unexp)"),
        _with_line("syntax_error"),
    ),
    (
        re.compile(r"^(?:.*: (?:line )?\d+: |.*: )?([\w./+-]+): (?:command )?not found$"),
        _named("missing_command", "command"),
    ),
    (re.compile(r"^PermissionError: |: Permission denied$"), _with_file("no_permission")),
    (
        re.compile(r"^FileNotFoundError: |(?:: |\] )No such file or directory(?:$|: )"),
        _with_file("missing_file"),
    ),
    (
        re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Failure)(?:: \S|$)"),
        _with_line("uncaught_error"),
    ),
)
"""Signs that may be harmless, and what a program says when it ends: the last of them decides."""


def diagnose(end: RunEnd, *, asked_memory_bytes: int, node: str, cluster: str) -> Reason:
    """Names the cause of a run's failure; the plain exit code or signal where nothing is known."""
    told = _told_by_runtime(end, cluster)
    if told is not None:
        return _lacked_for_start(end, node) or told
    peak: dict[str, Param] = {}
    if end.peak_memory_bytes > 0:
        peak["peak_bytes"] = end.peak_memory_bytes
    memory = {**peak, "asked_bytes": asked_memory_bytes} if asked_memory_bytes > 0 else peak
    signal = _signal_of(end)
    found = _found(end.last_lines, SURE)
    if found is None and signal == SIGKILL:
        if end.oom_kills or _near_what_it_asked(end, asked_memory_bytes):
            return Reason(OUT_OF_MEMORY, memory)
        return Reason("killed", {"node": node, **peak})
    if found is None and _disk_is_gone(end):
        return Reason("disk_full", {"node": node})
    if found is None and not signal:
        found = _found(end.last_lines, LIKELY)
    if found is None:
        return _by_signal(signal) if signal else _by_code(end)
    if found.code == OUT_OF_MEMORY:
        if 0 < end.peak_memory_bytes * 2 < asked_memory_bytes:
            return Reason("memory_limited", memory)
        return Reason(OUT_OF_MEMORY, memory)
    if found.code in ON_NODE:
        return Reason(found.code, {**found.params, "node": node})
    return found


def _lacked_for_start(end: RunEnd, node: str) -> Reason | None:
    """What of the node kept the runtime from starting anything, where its words tell that."""
    found = _found((end.message,), SURE) if end.of_machine else None
    if found is None or found.code not in ON_NODE:
        return None
    return Reason(found.code, {**found.params, "node": node})


def _disk_is_gone(end: RunEnd) -> bool:
    """A program that can't write often can't say so: its log is on the same disk."""
    return end.disk_free_bytes is not None and end.disk_free_bytes < DISK_GONE_BYTES


def _found(lines: tuple[str, ...], signs: tuple[Sign, ...]) -> Reason | None:
    for line in reversed(lines):
        for pattern, make in signs:
            match = pattern.search(line)
            if match is not None:
                return make(match, line)
    return None


def _told_by_runtime(end: RunEnd, cluster: str) -> Reason | None:
    """What the runtime did or could not do needs no looking for."""
    message: dict[str, Param] = {"message": end.message} if end.message else {}
    match end.how:
        case "time_limit":
            return Reason("time_limit")
        case "spawn_failed" | "log_limit":
            return Reason(end.how, message)
        case "start_refused":
            return Reason("start_refused", {"cluster": cluster, **message})
        case "killed":
            return Reason("killed_by_order")
        case _:
            return None


def _signal_of(end: RunEnd) -> int:
    if end.signal:
        return end.signal
    by_shell = (end.code or 0) - SHELL_SIGNAL_BASE
    return by_shell if by_shell in SIGNAL_NAMES else 0


def _by_signal(signal: int) -> Reason:
    name = SIGNAL_NAMES.get(signal, f"signal {signal}")
    return Reason("signal", {"signal": signal, "signal_name": name})


def _by_code(end: RunEnd) -> Reason:
    code = "setup_failed" if end.how == "setup_failed" else "exit_code"
    return Reason(code, {} if end.code is None else {"exit_code": end.code})


def _near_what_it_asked(end: RunEnd, asked_bytes: int) -> bool:
    """A SIGKILL that nobody here sent, near or past what was asked, is the kernel's for memory."""
    return bool(asked_bytes) and end.peak_memory_bytes * 100 >= asked_bytes * MOST_OF_IT
