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

*stable*: the real one is tested through the whole, and what it does is kept. *beta*: it is tested
where it matters. *experimental*: it never met the real one, or only one version of it. *planned*:
it is refused in words.

| with | level | does | tested against | by | since | limits |
|---|---|---|---|---|---|---|
"""
TESTS = "\nWhere the tests are:\n\n"


def page() -> str:
    """The whole page."""
    rows = "".join(_row(one) for one in INTEGRATIONS)
    tests = "".join(
        f"- {one.name}: {', '.join(f'`{path}`' for path in one.tests)}\n"
        for one in INTEGRATIONS
        if one.tests
    )
    return HEAD + rows + TESTS + tests


def _row(one: Integration) -> str:
    since = "" if one.level == "planned" else one.since
    cells = (one.name, one.level, one.does, one.against, one.how, since, one.limits)
    return "| " + " | ".join(cells) + " |\n"


if __name__ == "__main__":
    sys.stdout.write(page())
