"""`stw doctor`: checks that everything works, and says what to do where it doesn't."""

import click
import msgspec

from stellwerk.cli.checks import Check, all_checks
from stellwerk.cli.errors import FAILED
from stellwerk.cli.output import Output, narrate, one_options, write_data, write_lines
from stellwerk.cli.render.units import plural
from stellwerk.cli.terminal import Terminal

STYLES = {"ok": "good", "warn": "warn", "FAIL": "bad"}


@click.command("doctor", epilog="Example: stw doctor")
@one_options
def command(output: Output) -> int:
    """Check server, state, tools and clusters. Exit code 1 if something fails."""
    checks = all_checks()
    if output.for_people or output.format == "name":
        write_lines([_line(check, output.terminal()) for check in checks])
        count = {state: sum(check.state == state for check in checks) for state in STYLES}
        narrate(
            f"{plural(count['ok'], 'check')} passed, {plural(count['warn'], 'warning')}, "
            f"{plural(count['FAIL'], 'failure')}"
        )
    else:
        write_data(msgspec.to_builtins(checks), output.format)
    return FAILED if any(check.state == "FAIL" for check in checks) else 0


def _line(check: Check, terminal: Terminal) -> str:
    state = terminal.style(f"{check.state:<5}", STYLES[check.state])
    return f"{state} {check.what}" + (f"   -> {check.remedy}" if check.remedy else "")
