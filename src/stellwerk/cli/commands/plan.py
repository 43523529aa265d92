"""`stw plan`: what `stw run` would lead to now, or where tasks would go on a fleet of a file.

Without `--fleet` the server is asked; with it nothing is, and only files are read.
"""

import shlex
from typing import Any

import click

from stellwerk.cli.completing import complete_file
from stellwerk.cli.output import Output, narrate, one_options, write_lines, write_one
from stellwerk.cli.render.plan import lines_of
from stellwerk.cli.session import connect, now_ms
from stellwerk.cli.terminal import Narrator
from stellwerk.cli.usage import PROBLEMS
from stellwerk.cli.wishes import (
    ARGV,
    TYPED,
    TaskCommand,
    flags_of,
    prepared_of,
    refused,
    task_options,
    tell_notices,
    tell_packed,
    wish_of,
)
from stellwerk.core.model.errors import Problem, StellwerkError

OUR_FLAGS = ("--ascii",)
OUTCOME = "nothing was planned"
OF_FLEETS = ("fleet", "changes", "only", "at", "lenient")
EXAMPLES = (
    "Example: stw plan train.yaml --gpus A100:2   "
    "or: stw plan --fleet fleet.yaml train.yaml infer.yaml --if 'lose region=eu-central'"
)


class PlanCommand(TaskCommand):
    """Takes several files where a fleet is given."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The ways to call it."""
        return ["[OPTIONS]", "FILE | --fleet FLEET FILE… | -- COMMAND…"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What is about fleets stands apart."""
        rows: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                rows[param.name in OF_FLEETS].append(record)
        for title, of_fleets in (("Options", False), ("On a fleet of a file", True)):
            with formatter.section(title):
                formatter.write_dl(rows[of_fleets])


@click.command("plan", cls=PlanCommand, epilog=EXAMPLES)
@click.argument("files", nargs=-1, shell_complete=complete_file)
@click.option(
    "--fleet",
    metavar="FLEET",
    shell_complete=complete_file,
    help="Plan FILEs one after another on this fleet; asks no server.",
)
@click.option(
    "--if",
    "changes",
    multiple=True,
    metavar="CHANGE",
    help="What would be different, e.g. 'lose atlas'; --if help lists them.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="CLUSTER",
    help="Explain this cluster alone.",
)
@click.option("--at", metavar="TIME", help="As if it were then: 2026-12-01T18:00:00Z.")
@click.option(
    "--lenient",
    is_flag=True,
    help="Go on without what is wrong in FLEET.",
)
@task_options
@one_options
def command(files: tuple[str, ...], fleet: str | None, output: Output, **flags: Any) -> None:
    """Say where a task would go now, what it would wait for, and why. Changes nothing.

    Takes what `stw run` takes. `stw run --plan ID` then runs it only if all of that is still so.
    With --fleet, tasks are placed one after another on the fleet that a file describes.
    """
    if "help" in flags["changes"]:
        _tell_changes()
        return
    if fleet is not None:
        _on_fleet(fleet, files, output, flags)
        return
    problems: list[Problem] = click.get_current_context().meta.setdefault(PROBLEMS, [])
    problems += _without_fleet(files, flags)
    wish = wish_of(files[0] if files else None, flags, OUTCOME)
    narrator = Narrator(quiet=not output.for_people)
    client = connect()
    try:
        prepared = prepared_of(wish, client.settings, narrator)
        planned = client.plan_prepared(prepared.submission)
    except StellwerkError as error:
        raise refused(error, narrator, OUTCOME) from error
    tell_packed(prepared, "nothing sent", narrator)
    tell_notices(planned.notices, narrator)
    write_one(planned, lines_of(planned, output.terminal(), now_ms()), output, name=planned.id)
    if output.for_people:
        typed = click.get_current_context().meta[TYPED]
        narrate(f"run it: {run_line(typed, planned.id)}")


def _tell_changes() -> None:
    """Lists what `--if` takes."""
    from stellwerk.cli.render.fleet import changes_help

    write_lines(changes_help())


def _without_fleet(files: tuple[str, ...], flags: dict[str, Any]) -> list[Problem]:
    """What only makes sense with a fleet."""
    context = click.get_current_context()
    problems = []
    if len(files) > 1:
        words = " ".join(files[1:])
        remedy = (
            "a command goes after `--`: stw plan -- python train.py; several files need --fleet"
        )
        problems.append(Problem("usage/arguments", f"got unexpected words ({words})", remedy))
    for option in context.command.params:
        if option.name in OF_FLEETS and flags.get(option.name):
            what = f"`{option.opts[0]}` is about a fleet"
            problems.append(Problem("usage/option", what, "add --fleet FLEET"))
    return problems


def _on_fleet(fleet: str, files: tuple[str, ...], output: Output, flags: dict[str, Any]) -> None:
    """Plans by files alone."""
    from stellwerk.cli.fleet import FleetWish, moment_ms, plan_fleet
    from stellwerk.cli.render.fleet import lines_of as fleet_lines

    context = click.get_current_context()
    narrator = Narrator(quiet=not output.for_people)
    problems: list[Problem] = [*context.meta.get(PROBLEMS, ())]
    argv = context.meta.get(ARGV)
    if not files and argv is None:
        problems.append(Problem("usage/what", "no task to plan", f"stw plan --fleet {fleet} FILE"))
    overrides, env = flags_of(flags, problems)
    try:
        if problems:
            raise StellwerkError(dict.fromkeys(problems))
        wish = FleetWish(
            fleet=fleet,
            files=files,
            at_ms=moment_ms(flags["at"]),
            argv=None if argv is None else tuple(argv),
            flags=overrides,
            env=env,
            changes=flags["changes"],
            only=flags["only"],
            lenient=flags["lenient"],
        )
        plan = plan_fleet(wish)
    except StellwerkError as error:
        raise refused(error, narrator, OUTCOME) from error
    for problem in plan.problems:
        narrator.insist(str(problem))
    if plan.problems:
        narrator.insist("what is wrong counts as not there (--lenient)")
    for note in plan.notes:
        narrator.say(f"note: {note}")
    wide, closely = output.format == "wide", bool(flags["only"])
    lines = fleet_lines(plan, output.terminal(), wide=wide, closely=closely)
    write_one(plan, lines, output, name=" ".join(one.name for one in plan.tasks))
    hints = () if closely else ("why not there: --only CLUSTER",)
    if output.for_people and not plan.asked_if:
        narrate("   ".join((*hints, "what if: --if CHANGE (stw plan --if help)")))


def run_line(typed: list[str], id: str) -> str:
    """The command that runs what was planned: the same words, with the plan's id."""
    at = typed.index("--") if "--" in typed else len(typed)
    words: list[str] = []
    own = iter(typed[:at])
    for word in own:
        if word == "-o":
            next(own, "")
        elif word not in OUR_FLAGS and not word.startswith("-o"):
            words.append(word)
    return shlex.join(["stw", "run", *words, "--plan", id, *typed[at:]])
