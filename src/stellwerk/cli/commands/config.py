"""`stw config`: settings, and where each comes from."""

import os

import click

from stellwerk.cli.output import Output, list_options, narrate, write_list
from stellwerk.cli.render.table import Column
from stellwerk.cli.render.units import duration, size
from stellwerk.config import Setting, config_file, load


@click.group("config", epilog="Example: stw config show --origin")
def command() -> None:
    """Look at the settings."""


def _value(setting: Setting) -> str:
    """As people read it; one of bytes that isn't round stays exact."""
    value = setting.value
    if isinstance(value, int) and setting.name.endswith("_bytes"):
        return f"{value:,} ({size(value)})" if value % 2**20 else size(value)
    if isinstance(value, int):
        return duration(value) if setting.name.endswith("_ms") else f"{value:,}"
    return value


@command.command("show")
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@list_options
def show(origin: bool, output: Output) -> None:
    """List all settings with their values."""
    columns: list[Column[Setting]] = [
        Column("name", "SETTING", lambda one: one.name),
        Column("value", "VALUE", _value),
        Column("origin", "ORIGIN", lambda one: one.origin, wide=not origin),
        Column("about", "ABOUT", lambda one: one.about, grows=True),
    ]
    write_list(list(load().all.values()), columns, output, name=lambda one: one.name)
    if output.for_people:
        narrate(f"change them in {config_file(os.environ)}, or by STELLWERK_… variables")
