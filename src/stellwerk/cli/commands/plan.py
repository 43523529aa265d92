"""`stw plan`: what `stw run` would lead to now, without running anything."""

import shlex
from typing import Any

import click

from stellwerk.cli.completing import complete_file
from stellwerk.cli.output import Output, narrate, one_options, write_one
from stellwerk.cli.render.plan import lines_of
from stellwerk.cli.session import connect, now_ms
from stellwerk.cli.terminal import Narrator
from stellwerk.cli.wishes import (
    TYPED,
    TaskCommand,
    prepared_of,
    refused,
    task_options,
    tell_notices,
    tell_packed,
    wish_of,
)
from stellwerk.core.model.errors import StellwerkError

OUR_FLAGS = ("--ascii",)


@click.command("plan", cls=TaskCommand, epilog="Example: stw plan train.yaml --gpus A100:2")
@click.argument("file", required=False, shell_complete=complete_file)
@task_options
@one_options
def command(file: str | None, output: Output, **flags: Any) -> None:
    """Say where a task would go now, what it would wait for, and why. Changes nothing.

    Takes what `stw run` takes. `stw run --plan ID` then runs it only if all of that is still so.
    """
    wish = wish_of(file, flags, "nothing was planned")
    narrator = Narrator(quiet=not output.for_people)
    client = connect()
    try:
        prepared = prepared_of(wish, client.settings, narrator)
        planned = client.plan_prepared(prepared.submission)
    except StellwerkError as error:
        raise refused(error, narrator, "nothing was planned") from error
    tell_packed(prepared, "nothing sent", narrator)
    tell_notices(planned.notices, narrator)
    write_one(planned, lines_of(planned, output.terminal(), now_ms()), output, name=planned.id)
    if output.for_people:
        typed = click.get_current_context().meta[TYPED]
        narrate(f"run it: {run_line(typed, planned.id)}")


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
