"""The table of maturity says nothing that no test shows, and its page says the same."""

import runpy
from pathlib import Path

from stellwerk.core.model.maturity import INTEGRATIONS

ROOT = Path(__file__).parents[3]


def test_every_line_names_tests_that_are_there() -> None:
    """A path that is gone would be a promise that nobody holds."""
    for one in INTEGRATIONS:
        untested = (not one.tests, one.how == "none", not one.against)
        assert set(untested) == {one.level == "planned"}, one.name
        for path in one.tests:
            assert (ROOT / path).exists(), f"{one.name}: {path}"


def test_nothing_is_called_stable_that_never_met_the_real_one() -> None:
    """A stand-in says what we believe of it, and no more."""
    for one in INTEGRATIONS:
        if one.level == "stable":
            assert one.how == "real", one.name
        if one.how == "stand-in":
            assert one.level == "experimental", one.name


def test_the_page_is_the_table() -> None:
    """Written anew by `python scripts/maturity_page.py` when a line changes."""
    page = runpy.run_path(str(ROOT / "scripts" / "maturity_page.py"))["page"]
    assert page() == (ROOT / "docs" / "maturity.md").read_text()
