"""Which workloads a verb is for: names and patterns, or labels, a phase, all; never by accident."""

from collections.abc import Sequence
from typing import Any

import click

from stellwerk.cli.errors import usage
from stellwerk.cli.render.phases import DOING
from stellwerk.cli.session import complete_live, parse_labels
from stellwerk.client.bulk import Which

FEW = 16
"""So many plain names are asked for one by one."""


def which_options(command: Any) -> Any:
    """Names, `-l`, `--phase` and `--all`, gathered as `which`; and `--dry-run`."""
    from functools import wraps

    @wraps(command)
    def with_which(
        names: tuple[str, ...],
        labels: tuple[str, ...],
        phase: str | None,
        everything: bool,
        **rest: Any,
    ) -> Any:
        return command(which=chosen(names, labels, phase, everything=everything), **rest)

    decorated: Any = with_which
    for decorator in reversed(
        [
            click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_live),
            click.option(
                "-l",
                "--label",
                "labels",
                multiple=True,
                metavar="KEY=VALUE",
                help="All live workloads with this label.",
            ),
            click.option(
                "--phase",
                shell_complete=lambda _c, _p, typed: [
                    one for one in DOING if one.startswith(typed)
                ],
                help="All in this phase, e.g. Pending.",
            ),
            click.option("--all", "everything", is_flag=True, help="All of them."),
            click.option("--dry-run", is_flag=True, help="Only say which; change nothing."),
        ]
    ):
        decorated = decorator(decorated)
    return decorated


def chosen(
    names: Sequence[str], labels: Sequence[str], phase: str | None, *, everything: bool
) -> Which:
    """What was typed, if it says which: names, or filters, or all."""
    if sum((bool(names), bool(labels or (phase and not everything)), everything)) != 1:
        raise usage(
            "usage/which",
            "say which workloads: names, or -l KEY=VALUE, or --phase PHASE, or --all",
            "stw ps lists them",
        )
    return Which(
        names=list(dict.fromkeys(names)),
        all=everything,
        labels=parse_labels(labels),
        phases=[phase] if phase else [],
    )


def one_by_one(which: Which) -> bool:
    """Whether these are a few plain names, which any server takes."""
    names = which.names
    return 0 < len(names) <= FEW and not which.phases and not any(set("*?") & set(n) for n in names)
