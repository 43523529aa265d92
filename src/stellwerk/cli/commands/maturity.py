"""`stw maturity`: what Stellwerk works with, tested against what, and how."""

import click

from stellwerk.cli.output import Output, list_options, write_list
from stellwerk.cli.render.table import Column
from stellwerk.core.model.maturity import INTEGRATIONS, Integration


@click.command("maturity", epilog="Example: stw maturity -o wide")
@list_options
def command(output: Output) -> None:
    """List every integration: the versions it was tested against, and by what kind of test."""
    write_list(INTEGRATIONS, _columns(), output, name=lambda one: one.name)


def _columns() -> list[Column[Integration]]:
    return [
        Column("name", "WITH", lambda one: one.name),
        Column("level", "LEVEL", lambda one: one.level),
        Column("how", "TESTED BY", lambda one: one.how),
        Column("against", "AGAINST", lambda one: one.against or "-", grows=True),
        Column("since", "SINCE", lambda one: one.since),
        Column("does", "DOES", lambda one: one.does, wide=True),
        Column("limits", "LIMITS", lambda one: one.limits, wide=True),
        Column("tests", "TESTS", lambda one: ", ".join(one.tests), wide=True),
    ]
