"""Holds the sources to the rules of the house, and shows that each rule can fail."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.tidy import hash_order, project, rules
from tests.tidy.rules import Source

Rule = Callable[[list[Source]], list[str]]


def ratchet() -> dict[str, int]:
    text = Path(__file__).with_name("ratchet.json").read_text(encoding="utf-8")
    allowed: dict[str, int] = json.loads(text)
    return allowed


def modules_are_short(sources: list[Source]) -> list[str]:
    return rules.modules_are_short(sources, ratchet())


def ratchet_only_tightens(sources: list[Source]) -> list[str]:
    return rules.ratchet_only_tightens(sources, ratchet())


def no_module_is_forgotten(sources: list[Source]) -> list[str]:
    return rules.no_module_is_forgotten(sources, project.entry_points())


RULES: list[Rule] = [
    modules_are_short,
    ratchet_only_tightens,
    no_module_is_forgotten,
    rules.functions_are_short,
    rules.lines_are_short,
    rules.modules_say_what_they_do,
    rules.tests_say_what_they_show,
    rules.no_banned_words,
    rules.no_swallowed_errors,
    rules.no_stubs,
    rules.runs_on_the_promised_python,
    rules.runtime_needs_nothing_installed,
    hash_order.core_never_goes_through_a_set,
]


@pytest.fixture(scope="module", autouse=True)
def nothing_stays() -> Iterator[None]:
    """The trees of all modules are more than everything else that the tests hold."""
    yield
    project.sources.cache_clear()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_is_tidy(rule: Rule) -> None:
    """No file of the project breaks a rule."""
    complaints = rule(list(project.sources()))
    assert not complaints, "\n" + "\n".join(complaints)


def test_the_rules_see_the_project() -> None:
    """The sources that the rules are given are really there, so that silence means something."""
    paths = {source.path for source in project.sources()}
    assert {"src/stellwerk/__init__.py", "tests/tidy/rules.py", "Makefile"} <= paths


def long_function(lines: int) -> str:
    return "def f():\n" + "    x = 1\n" * (lines - 1)


BROKEN: list[tuple[Rule, str, str, str]] = [
    (modules_are_short, "src/stellwerk/a.py", "x = 1\n" * 401, "401 lines"),
    (modules_are_short, "src/stellwerk/a.py", "x = 1\n" * 601, "hard limit"),
    (modules_are_short, "src/stellwerk/a/__init__.py", "x = 1\n" * 61, "__init__"),
    (no_module_is_forgotten, "src/stellwerk/lonely.py", "x = 1\n", "no module imports"),
    (rules.functions_are_short, "src/stellwerk/a.py", long_function(61), "`f` has 61 lines"),
    (rules.lines_are_short, "tests/test_a.py", f"x = '{'y' * 97}'\n", "103 columns"),
    (rules.modules_say_what_they_do, "src/stellwerk/a.py", "x = 1\n", "no module docstring"),
    (rules.tests_say_what_they_show, "tests/test_a.py", "def test_x(): ...\n", "`test_x`"),
    (rules.no_banned_words, "src/a.py", "# TO" + "DO: later\n", "file an issue"),
    (rules.no_banned_words, "README.md", "see /ro" + "ot/notes\n", "a path of one machine"),
    (rules.no_banned_words, "Makefile", "cd /wo" + "rk\n", "a path of one machine"),
    (rules.no_banned_words, "docs/a.md", "from pypi" + ".org\n", "package registry"),
    (rules.no_banned_words, "docs/a.md", "an AI" + "-written page\n", "speaks of itself"),
    (rules.no_swallowed_errors, "src/a.py", "try:\n f()\nexcept OSError:\n pass\n", "swallowed"),
    (rules.no_swallowed_errors, "src/a.py", "try:\n f()\nexcept OSError:\n ...\n", "swallowed"),
    (rules.no_swallowed_errors, "src/a.py", "try:\n f()\nexcept:\n pass  # why\n", "swallowed"),
    (rules.no_stubs, "src/a.py", "def f(): raise NotImplementedError\n", "left unwritten"),
    (rules.runs_on_the_promised_python, "src/a.py", "type X = int\n", "no Python 3.11"),
    (
        rules.runs_on_the_promised_python,
        "src/stellwerk/runtime/a.py",
        "match x:\n case 1: y\n",
        "no Python 3.9",
    ),
    (
        rules.runtime_needs_nothing_installed,
        "src/stellwerk/runtime/a.py",
        "import msgspec\n",
        "`msgspec`",
    ),
]


@pytest.mark.parametrize(("rule", "path", "text", "complaint"), BROKEN)
def test_a_rule_sees_its_breach(rule: Rule, path: str, text: str, complaint: str) -> None:
    """Each rule complains about a file made to break it, and names the file."""
    (found,) = rule([Source(path, text)])
    assert found.startswith(f"{path}:")
    assert complaint in found


def test_an_error_named_and_explained_may_be_left_alone() -> None:
    """A narrow handler may be empty when a comment says why."""
    text = "try:\n f()\nexcept FileNotFoundError:\n pass  # it was gone already\n"
    assert rules.no_swallowed_errors([Source("src/a.py", text)]) == []


def test_the_ratchet_wants_its_exceptions_back() -> None:
    """An exception is complained about once the module is short, or shorter than allowed."""
    short = Source("src/a.py", "x = 1\n" * 10)
    shorter = Source("src/b.py", "x = 1\n" * 450)
    kept = Source("src/c.py", "x = 1\n" * 500)
    allowed = {"src/a.py": 500, "src/b.py": 500, "src/c.py": 500}
    complaints = rules.ratchet_only_tightens([short, shorter, kept], allowed)
    assert [complaint.partition(":")[0] for complaint in complaints] == ["src/a.py", "src/b.py"]
    assert rules.modules_are_short([kept], allowed) == []
    assert rules.modules_are_short([kept], {"src/c.py": 499}) != []


def test_a_module_is_found_in_every_way_to_name_it() -> None:
    """An import, a relative import, a name in a table of late imports and an entry point count."""
    files = {
        "src/stellwerk/a.py": "import stellwerk.b\nfrom . import c\nfrom .d import x\n",
        "src/stellwerk/b.py": "LATE = 'stellwerk.e:main'\n",
        **{f"src/stellwerk/{name}.py": "" for name in "cde"},
        "src/stellwerk/only_tested.py": "",
        "src/stellwerk/testing/builders.py": "",
        "tests/test_a.py": "import stellwerk.only_tested\nimport stellwerk.testing.builders\n",
    }
    sources = [Source(path, text) for path, text in files.items()]
    complaints = rules.no_module_is_forgotten(sources, ["stellwerk.a"])
    assert [complaint.partition(":")[0] for complaint in complaints] == [
        "src/stellwerk/only_tested.py"
    ]


@pytest.mark.parametrize(
    "code",
    [
        "for x in {1, 2}: f(x)",
        "for x in set(y): f(x)",
        "z = [x for x in {*y}]",
        "z = {x: 1 for x in frozenset(y)}",
        "z = list({x for x in y})",
        "z = ', '.join(set(y))",
        "z = (*set(y),)",
        "z = set(y)\nfor x in z - w: f(x)",
        "def g(z: frozenset[str]):\n for x in z: f(x)",
        "def g(z: set[str] | None):\n return [x for x in z]",
        "class A:\n z: frozenset[str]\ndef g(a):\n for x in a.z: f(x)",
        "def g(z: set[str]):\n return z.pop()",
    ],
)
def test_going_through_a_set_is_seen(code: str) -> None:
    """Whatever way core goes through a set is found."""
    source = Source("src/stellwerk/core/a.py", code + "\n")
    assert hash_order.core_never_goes_through_a_set([source])
    assert not hash_order.core_never_goes_through_a_set([Source("src/stellwerk/b.py", code)])


@pytest.mark.parametrize(
    "code",
    [
        "for x in sorted({1, 2}): f(x)",
        "z = 1 in {1, 2}",
        "z = any(x > 1 for x in set(y))",
        "z = sorted(x.name for x in set(y))",
        "z = {x + 1 for x in set(y)}",
        "z = len(set(y))",
        "for x in (1, 2): f(x)",
        "def g(z: tuple[str, ...]):\n return [x for x in z]",
    ],
)
def test_asking_a_set_is_allowed(code: str) -> None:
    """Membership, counting and sorting don't hang on a set's order."""
    assert not hash_order.core_never_goes_through_a_set([Source("src/stellwerk/core/a.py", code)])
