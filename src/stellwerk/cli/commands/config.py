"""`stw config`: settings, and where each comes from."""

import os

import click

from stellwerk.cli.output import Output, list_options, narrate, write_list
from stellwerk.cli.render.table import Column
from stellwerk.config import Setting, config_file, load


@click.group("config", epilog="Example: stw config show --origin")
def command() -> None:
    """Look at the settings."""


@command.command("show")
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@list_options
def show(origin: bool, output: Output) -> None:
    """List all settings with their values."""
    columns: list[Column[Setting]] = [
        Column("name", "SETTING", lambda one: one.name),
        Column("value", "VALUE", lambda one: str(one.value)),
        Column("origin", "ORIGIN", lambda one: one.origin, wide=not origin),
        Column("about", "ABOUT", lambda one: one.about, grows=True),
    ]
    write_list(list(load().all.values()), columns, output, name=lambda one: one.name)
    if output.for_people:
        narrate(f"change them in {config_file(os.environ)}, or by STELLWERK_… variables")
