"""Why a run failed: its end and last lines against the catalogue of known causes. Pure."""

import re
from collections.abc import Callable

from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.workload import RunEnd

SIGNAL_NAMES = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ",
}
SIGKILL = 9
SHELL_SIGNAL_BASE = 128
LINE_KEPT = 200

Maker = Callable[[re.Match[str], str], Reason]


def _with_line(code: str) -> Maker:
    return lambda _match, line: Reason(code, {"line": line.strip()[:LINE_KEPT]})


def _named(code: str, param: str) -> Maker:
    return lambda match, _line: Reason(code, {param: match[1]})


SIGNS: tuple[tuple[re.Pattern[str], Maker], ...] = (
    (re.compile(r"CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|HIP out of memory"
                r"|RESOURCE_EXHAUSTED: .*[Oo]ut of memory"), _with_line("gpu_out_of_memory")),
    (re.compile(r"ModuleNotFoundError: No module named '([^']+)'"),
     _named("missing_module", "module")),
    (re.compile(r"No space left on device|Disk quota exceeded"), _with_line("disk_full")),
    (re.compile(r"\bNCCL\b.*(error|timed? ?out)|ncclSystemError|ncclRemoteError"
                r"|Connection closed by peer.*gloo|gloo.*[Tt]imed out", re.IGNORECASE),
     _with_line("communication")),
    (re.compile(r"^(?:SyntaxError|IndentationError|TabError): |syntax error near"),
     _with_line("syntax_error")),
    (re.compile(r"^(?:.*: line \d+: |.*: )?([\w./+-]+): command not found"),
     _named("missing_command", "command")),
    (re.compile(r"^PermissionError: |: Permission denied$"), _with_line("no_permission")),
    (re.compile(r"^FileNotFoundError: |: No such file or directory$"), _with_line("missing_file")),
)
"""Signs of known causes in a line of output; the last line that bears a sign decides."""

MEMORY_SIGNS = re.compile(r"^MemoryError\b|std::bad_alloc|Cannot allocate memory|oom-kill")


def diagnose(end: RunEnd, *, asked_memory_bytes: int, node: str, cluster: str) -> Reason:
    """Names the cause of a run's failure; the plain exit code or signal where nothing is known."""
    by_how = _by_how(end, cluster)
    if by_how is not None:
        return by_how
    for line in reversed(end.last_lines):
        if MEMORY_SIGNS.search(line):
            return _out_of_memory(end, asked_memory_bytes)
        for pattern, make in SIGNS:
            match = pattern.search(line)
            if match is not None:
                found = make(match, line)
                if found.code == "disk_full":
                    return Reason("disk_full", {**found.params, "node": node})
                return found
    signal = _signal_of(end)
    if signal == SIGKILL:
        return _out_of_memory(end, asked_memory_bytes) if _looks_like_memory(
            end, asked_memory_bytes) else _by_signal(signal)
    if signal:
        return _by_signal(signal)
    if end.how == "setup_failed":
        return Reason("setup_failed", {"exit_code": end.code if end.code is not None else -1})
    return Reason("exit_code", {"exit_code": end.code if end.code is not None else -1})


def _by_how(end: RunEnd, cluster: str) -> Reason | None:
    match end.how:
        case "time_limit":
            return Reason("time_limit", {})
        case "spawn_failed":
            return Reason("spawn_failed", {"message": end.message or "no more is known"})
        case "start_refused":
            return Reason("start_refused", {
                "cluster": cluster, "message": end.message or "no more is known"})
        case "log_limit":
            return Reason("log_limit", {})
        case _:
            return None


def _signal_of(end: RunEnd) -> int:
    if end.signal:
        return end.signal
    code = end.code or 0
    return code - SHELL_SIGNAL_BASE if code - SHELL_SIGNAL_BASE in SIGNAL_NAMES else 0


def _by_signal(signal: int) -> Reason:
    return Reason("signal", {
        "signal": signal, "signal_name": SIGNAL_NAMES.get(signal, f"signal {signal}")})


def _looks_like_memory(end: RunEnd, asked_bytes: int) -> bool:
    """A SIGKILL that nobody here sent, near or past what was asked, is the kernel's OOM killer."""
    return bool(asked_bytes) and end.peak_memory_bytes * 10 >= asked_bytes * 9


def _out_of_memory(end: RunEnd, asked_bytes: int) -> Reason:
    return Reason("out_of_memory", {
        "peak_bytes": end.peak_memory_bytes, "asked_bytes": asked_bytes})
