"""Turns whatever went wrong into lines for a person and an exit code; never a traceback.

`STW_DEBUG=1` shows the traceback as well.
"""

import os
import sys

import click

from stellwerk.core.model.errors import Problem, SpecError, StellwerkError

OK, FAILED, USAGE, NOT_FOUND, NOT_ALLOWED, CHANGED, UNREACHABLE = range(7)
STILL_WAITING = 8
OURS = 125
INTERRUPTED = 130


class StopError(Exception):
    """Ends the command with an exit code; everything has been said already."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class CommandError(StellwerkError):
    """Something that the command line itself refuses, with its exit code."""

    def __init__(self, code: str, message: str, help: str = "", *, exit_code: int = FAILED) -> None:
        super().__init__([Problem(code, message, help)])
        self.exit_code = exit_code


def usage(code: str, message: str, help: str = "") -> CommandError:
    """A wrong argument."""
    return CommandError(code, message, help, exit_code=USAGE)


def exit_code_of(error: StellwerkError) -> int:
    """The exit code that an error carries, or the one of its kind."""
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        return code
    if isinstance(error, SpecError):
        return USAGE
    return USAGE if error.problems[0].code.split("/")[0] in _USAGE_FAMILIES else FAILED


_USAGE_FAMILIES = (
    "spec", "submit", "place", "workdir", "mount", "config", "usage", "fleet", "data", "if",
    "placement", "queue", "apply",
)  # fmt: skip


def report(error: BaseException) -> int:
    """Says what happened on stderr and gives the exit code."""
    if os.environ.get("STW_DEBUG") and not isinstance(error, StopError | click.exceptions.Exit):
        import traceback

        traceback.print_exception(error)
    match error:
        case StopError():
            return error.code
        case SystemExit():
            return error.code if isinstance(error.code, int) else FAILED
        case click.exceptions.Exit():
            return error.exit_code
        case click.exceptions.NoArgsIsHelpError():
            _say([error.format_message()])
            return USAGE
        case click.UsageError():
            from stellwerk.cli.usage import problem_of

            _say([str(problem_of(error))])
            return USAGE
        case click.ClickException():
            _say([f"error[usage/file]  {error.format_message()}"])
            return USAGE
        case click.Abort() | KeyboardInterrupt():
            _say(["interrupted"])
            return INTERRUPTED
        case BrokenPipeError():
            # Whoever read our output has seen enough; the interpreter must not try to flush again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        case UnicodeEncodeError():
            _say([_no_text(error)])
            return USAGE
        case StellwerkError():
            _say(lines_of(error))
            return exit_code_of(error)
        case _:
            _say([_unforeseen(error)])
            return FAILED


def lines_of(error: StellwerkError) -> list[str]:
    """Every problem on its line."""
    return [str(problem) for problem in error.problems]


def _no_text(error: UnicodeEncodeError) -> str:
    """An argument that isn't UTF-8 comes as surrogates, which neither JSON nor a URL can hold."""
    piece = error.object[max(0, error.start - 20) : error.end + 20]
    shown = piece.encode("utf-8", "backslashreplace").decode().replace("\\udc", "\\x")
    return (
        f"error[usage/encoding]  `{shown}` isn't text in {error.encoding}  "
        "help: name it otherwise, or put it into a script"
    )


def _unforeseen(error: BaseException) -> str:
    kind = type(error).__name__
    said = " ".join(str(error).split())[:300]
    if isinstance(error, FileNotFoundError) and _is_nowhere():
        return "error[usage/folder]  the folder you are in isn't there any more  help: cd elsewhere"
    if isinstance(error, OSError):
        return f"error[system]  {said or kind}  help: STW_DEBUG=1 shows where"
    return f"error[internal]  {kind}: {said}  help: STW_DEBUG=1 shows where; please report it"


def _is_nowhere() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _say(lines: list[str]) -> None:
    try:
        sys.stdout.flush()
    except OSError:
        # Nobody reads the output any more; the error still is worth its lines.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for line in lines:
        print(line, file=sys.stderr)
