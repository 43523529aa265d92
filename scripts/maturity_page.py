"""Writes docs/maturity.md from the table in core/model/maturity.py to standard output.

`python scripts/maturity_page.py > docs/maturity.md`; a test holds the page to the table.
"""

import sys

from stellwerk.core.model.maturity import INTEGRATIONS, Integration

HEAD = """# Maturity

What Stellwerk works with, and how that is known. `stw maturity` prints the same table.

*real*: the program itself, started by the tests. *stand-in*: a program of ours that speaks as the
real one does. *contract*: recorded input and output of the real one. `make lab` runs what needs a
real engine; `make soak` kills the server 200 times under all kinds of jobs.

| with | does | tested against | by | since | limits |
|---|---|---|---|---|---|
"""
TESTS = "\nWhere the tests are:\n\n"


def page() -> str:
    """The whole page."""
    rows = "".join(_row(one) for one in INTEGRATIONS)
    tests = "".join(
        f"- {one.name}: {', '.join(f'`{path}`' for path in one.tests)}\n" for one in INTEGRATIONS
    )
    return HEAD + rows + TESTS + tests


def _row(one: Integration) -> str:
    cells = (one.name, one.does, one.against, one.how, one.since, one.limits)
    return "| " + " | ".join(cells) + " |\n"


if __name__ == "__main__":
    sys.stdout.write(page())
