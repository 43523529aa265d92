"""The table of all commands. A command's module is loaded when it is called, not before.

Exit codes are interface: 0 ok, 1 failed, 2 usage or a bad task, 3 not found, 4 not allowed, 5 the
world changed, 6 unreachable, 8 still waiting, 130 interrupted. `run` and `logs -f` end with the
job's own code, and with 125 for a failure of ours once there is a job.
"""

import os
import sys
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

import click


class Entry(NamedTuple):
    """One line of the table: where the command is, and what it does, in a few words."""

    module: str
    about: str
    section: str
    attribute: str = "command"


WORK, WHY, COURSE, FLEET, OWN = "Work", "Understand", "Change course", "Fleet", "Stellwerk"

TABLE: dict[str, Entry] = {
    "run": Entry(
        "stellwerk.cli.commands.run", "submit a task file or a command, and follow it", WORK
    ),
    "plan": Entry(
        "stellwerk.cli.commands.plan", "where a task would go now, without running it", WORK
    ),
    "ps": Entry("stellwerk.cli.commands.ps", "list workloads", WORK),
    "logs": Entry("stellwerk.cli.commands.logs", "show what a job printed", WORK),
    "exec": Entry(
        "stellwerk.cli.commands.exec", "run a command inside a running job", WORK, "exec_"
    ),
    "shell": Entry("stellwerk.cli.commands.exec", "open a shell inside a job", WORK, "shell"),
    "forward": Entry(
        "stellwerk.cli.commands.forward", "reach ports of a job that runs, as if here", WORK
    ),
    "wait": Entry("stellwerk.cli.commands.wait", "wait until workloads have ended", WORK),
    "ls": Entry("stellwerk.cli.commands.files", "list a job's files", WORK, "ls"),
    "cp": Entry("stellwerk.cli.commands.files", "copy files out of a job", WORK, "cp"),
    "rerun": Entry(
        "stellwerk.cli.commands.rerun",
        "run a workload's task again, also from its checkpoints",
        WORK,
    ),
    "show": Entry("stellwerk.cli.commands.show", "everything about one workload", WHY),
    "explain": Entry("stellwerk.cli.commands.explain", "why here, why not there, why waiting", WHY),
    "queue": Entry("stellwerk.cli.commands.queue", "who waits, and for what", WHY),
    "whatif": Entry("stellwerk.cli.commands.whatif", "what changes would do to all of it", WHY),
    "story": Entry("stellwerk.cli.commands.events", "one workload's whole history", WHY, "story"),
    "events": Entry("stellwerk.cli.commands.events", "the journal", WHY, "events"),
    "cancel": Entry("stellwerk.cli.commands.course", "end workloads", COURSE, "cancel"),
    "hold": Entry("stellwerk.cli.commands.course", "keep waiting workloads back", COURSE, "hold"),
    "release": Entry(
        "stellwerk.cli.commands.course", "let held workloads start", COURSE, "release"
    ),
    "prio": Entry(
        "stellwerk.cli.commands.course", "change the priority of what waits", COURSE, "prio"
    ),
    "check": Entry(
        "stellwerk.cli.commands.check", "answer an admission check for what waits", COURSE
    ),
    "move": Entry("stellwerk.cli.commands.move", "have a job go on at another place", COURSE),
    "lost": Entry(
        "stellwerk.cli.commands.course", "give up runs on machines out of reach", COURSE, "lost"
    ),
    "queues": Entry("stellwerk.cli.commands.queues", "who waits and runs in each queue", FLEET),
    "quota": Entry("stellwerk.cli.commands.quota", "who has how much, and what is used", FLEET),
    "fair": Entry("stellwerk.cli.commands.fair", "who had which share, borrowed and lent", FLEET),
    "calendar": Entry("stellwerk.cli.commands.calendar", "when clusters may be used", FLEET),
    "reserve": Entry(
        "stellwerk.cli.commands.reserve", "promise somebody room for a time to come", FLEET
    ),
    "apply": Entry(
        "stellwerk.cli.commands.objects", "take over queues, placements, clusters", FLEET, "apply"
    ),
    "get": Entry("stellwerk.cli.commands.objects", "look at applied objects", FLEET, "get"),
    "diff": Entry(
        "stellwerk.cli.commands.objects", "how files differ from what there is", FLEET, "diff"
    ),
    "delete": Entry("stellwerk.cli.commands.objects", "delete applied objects", FLEET, "delete"),
    "clusters": Entry("stellwerk.cli.commands.clusters", "what there is, and what is free", FLEET),
    "placement": Entry(
        "stellwerk.cli.commands.placement", "policies that choose clusters, and why", FLEET
    ),
    "cluster": Entry(
        "stellwerk.cli.commands.cluster", "machines over SSH: add, remove; drain any cluster", FLEET
    ),
    "kubernetes": Entry(
        "stellwerk.cli.commands.kubernetes", "Kubernetes clusters: add, remove, their rights", FLEET
    ),
    "join": Entry("stellwerk.cli.commands.join", "let this machine dial in to a server", FLEET),
    "resume": Entry(
        "stellwerk.cli.commands.resume", "take drained or quarantined nodes back into use", FLEET
    ),
    "data": Entry("stellwerk.cli.commands.data", "which machine has which data; copy it", FLEET),
    "gpu": Entry("stellwerk.cli.commands.gpu", "memory and runs of each GPU", FLEET),
    "usage": Entry("stellwerk.cli.commands.usage", "what people and projects have used", OWN),
    "agent": Entry(
        "stellwerk.cli.commands.agent", "your runtime for a server that others share", OWN
    ),
    "share": Entry("stellwerk.cli.commands.share", "let others use a cluster of yours", FLEET),
    "server": Entry("stellwerk.cli.commands.server", "start, stop or look at the server", OWN),
    "doctor": Entry("stellwerk.cli.commands.doctor", "check that everything works", OWN),
    "gc": Entry("stellwerk.cli.commands.gc", "remove what is kept too long", OWN),
    "maturity": Entry(
        "stellwerk.cli.commands.maturity", "what works with what, and how that is known", OWN
    ),
    "config": Entry("stellwerk.cli.commands.config", "settings, and where they come from", OWN),
    "completion": Entry("stellwerk.cli.commands.completion", "completion for your shell", OWN),
    "version": Entry("stellwerk.cli.commands.version", "the version", OWN),
}


class Commands(click.Group):
    """A group that knows its commands by the table alone."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the table."""
        return list(TABLE)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Loads a command."""
        entry = TABLE.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(import_module(entry.module), entry.attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggests the nearest command for one that doesn't exist."""
        if args and args[0] not in TABLE and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], TABLE, 1)
            hint = f"did you mean `{near[0]}`?" if near else f"{ctx.info_name} --help lists them"
            error = click.UsageError(f"there is no command `{args[0]}`", ctx)
            error.code = "usage/command"  # type: ignore[attr-defined]
            error.hint = hint  # type: ignore[attr-defined]
            raise error
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the table by sections, without loading anything."""
        for section in (WORK, WHY, COURSE, FLEET, OWN):
            rows = [
                (name, entry.about) for name, entry in TABLE.items() if entry.section == section
            ]
            with formatter.section(section):
                formatter.write_dl(rows)


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from stellwerk import __version__

        click.echo(f"stellwerk {__version__}")
        ctx.exit()


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="First steps: stw run task.yaml   then: stw ps   and: stw show NAME",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version.",
)
def cli() -> None:
    """Queue, place, run, watch, recover and explain workloads.

    Commands that need the server start it. Where a NAME is asked for, an id or its beginning does.
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the command line; whatever goes wrong becomes lines on stderr and an exit code."""
    name = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "stw"
    name = "stw" if name in {"__main__.py", "-c"} else name
    _open_standard_files()
    try:
        result: Any = cli.main(arguments, prog_name=name, standalone_mode=False)
        code = result if isinstance(result, int) else 0
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 (the edge: every error becomes words here)
        from stellwerk.cli.errors import report

        code = report(error)
    sys.exit(code)


def _open_standard_files() -> None:
    """Puts /dev/null where a caller has closed one, or the next file opened would be in its place.

    What is written to it is lost, as the caller wants it.
    """
    for stream, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, stream) is None:
            lowest = os.open(os.devnull, os.O_RDWR)
            setattr(sys, stream, os.fdopen(lowest, mode, encoding="utf-8"))
