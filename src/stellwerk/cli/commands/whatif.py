"""`stw whatif`: what changes would do to all live work. Nothing is changed."""

from collections.abc import Sequence

import click

from stellwerk.cli.completing import complete_file
from stellwerk.cli.errors import usage
from stellwerk.cli.output import Output, narrate, one_options, write_lines, write_one
from stellwerk.cli.reading import text_of
from stellwerk.cli.render.whatif import lines_of
from stellwerk.cli.session import connect, now_ms
from stellwerk.cli.terminal import Narrator
from stellwerk.cli.wishes import prepared_of, refused, tell_notices
from stellwerk.client.prepare import Wish
from stellwerk.client.wire import Submission
from stellwerk.config import Settings
from stellwerk.core.model.errors import StellwerkError

OUTCOME = "nothing was looked at"
EXAMPLES = """\b
Example: stw whatif quota vision a100 nvidia.com/gpu=+4
  stw whatif drain lab n2 and cancel big     two changes
  stw whatif priority train 10               it goes before others
  stw whatif submit train.yaml               who would wait longer for it
  stw whatif -f queues.yaml                  objects as they would be
"""


@click.command("whatif", epilog=EXAMPLES, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, metavar="CHANGE [and CHANGE…]")
@click.option(
    "-f",
    "--file",
    "file",
    metavar="FILE",
    shell_complete=complete_file,
    help="Objects of queueing as they would be; - for stdin.",
)
@one_options
def command(words: tuple[str, ...], file: str | None, output: Output) -> None:
    """Say who would start earlier or later, or be stopped, if something were different.

    Nothing is changed. What follows at once is planned as the next cycle would; later starts are
    played in the same futures without the change and with it. `stw whatif help` lists changes.
    """
    if words == ("help",):
        write_lines(_forms())
        return
    phrases = _phrases(words)
    if not phrases and file is None:
        raise usage("usage/missing", "nothing is changed", "`stw whatif help` lists changes")
    client = connect()
    narrator = Narrator(quiet=not output.for_people)
    task = _task(phrases, client.settings, narrator)
    text = text_of(file) if file is not None else ""
    found = client.what_if(
        [" ".join(one) for one in phrases], text=text, file=file or "", task=task
    )
    tell_notices(found.notices, narrator)
    write_one(found, lines_of(found, output.terminal(), now_ms()), output)
    if output.for_people:
        narrate("nothing was changed")


def _forms() -> list[str]:
    from stellwerk.core.what_if import FORMS

    width = max(len(form) for form, _ in FORMS.values())
    rows = [f"{form:<{width}}  {about}" for form, about in FORMS.values()]
    return [*rows, "", "several: stw whatif drain lab and cancel big; objects: -f queues.yaml"]


def _phrases(words: Sequence[str]) -> list[list[str]]:
    """One change in words or in one text; `and` stands between two."""
    found: list[list[str]] = [[]]
    for word in words:
        pieces = word.split() if not found[-1] else [word]
        for piece in pieces:
            if piece == "and":
                found.append([])
            else:
                found[-1].append(piece)
    return [one for one in found if one]


def _task(
    phrases: Sequence[Sequence[str]], settings: Settings, narrator: Narrator
) -> Submission | None:
    """The task of a `submit`, as `stw plan` reads it."""
    submits = [one for one in phrases if one[0] == "submit"]
    if not submits:
        return None
    if len(submits) > 1 or len(submits[0]) != 2:
        raise usage("usage/submit", "`submit` takes one FILE, once", "stw whatif submit train.yaml")
    try:
        return prepared_of(Wish(file=submits[0][1]), settings, narrator).submission
    except StellwerkError as error:
        raise refused(error, narrator, OUTCOME) from error
